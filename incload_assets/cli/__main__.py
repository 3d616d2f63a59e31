"""``python -m incload_assets.cli``, for environments without the ``incload`` script on the path."""

from incload_assets.cli import app

app()
