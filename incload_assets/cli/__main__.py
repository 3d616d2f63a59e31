"""``python -m incload_assets.cli``, for where the ``incload`` script is not on the path."""

from incload_assets.cli import app

app()
