"""The commands of ``incload``, listed in :mod:`incload_assets.cli.catalogue`."""
