"""Where things are, from the environment (``INCLOAD_*``), with defaults that work on a laptop."""

from functools import cached_property
from pathlib import Path

from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """The settings of this code location; every field is the environment variable ``INCLOAD_<FIELD>``.

    Args:
        home: Folder for everything the code location keeps on a laptop (lake, landing, Spark's state).
        landing: Root of the landing area, a folder or ``s3://bucket/prefix``; default ``<home>/landing``.
        lake: Root of the Delta tables, a folder or ``s3://bucket/prefix``; default ``<home>/lake``.
        spark: ``local`` (a shared Spark Connect server on this machine, started on demand), ``in-process`` (a session
            inside each run), or the ``sc://…`` address of a Spark Connect server.
        samples: Whether the sample shop and its tables are part of the code location.

    Example:
        >>> Settings(lake="s3://lake/prod").lake_root
        's3://lake/prod'
    """

    model_config = SettingsConfigDict(env_prefix="INCLOAD_", extra="ignore")

    home: Path = Path(".incload")
    landing: str | None = None
    lake: str | None = None
    spark: str = "local"
    samples: bool = True

    @cached_property
    def home_root(self) -> Path:
        """``home`` as an absolute path."""
        return self.home.absolute()

    @property
    def landing_root(self) -> str:
        """Root of the landing area, without a trailing slash."""
        return (self.landing or str(self.home_root / "landing")).rstrip("/")

    @property
    def lake_root(self) -> str:
        """Root of the Delta tables, without a trailing slash."""
        return (self.lake or str(self.home_root / "lake")).rstrip("/")

    @property
    def uses_s3(self) -> bool:
        """Whether Spark needs the S3 jars."""
        return any(root.startswith(("s3://", "s3a://")) for root in (self.landing_root, self.lake_root))
