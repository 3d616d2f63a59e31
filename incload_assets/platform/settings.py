"""The settings, from the environment (``INCLOAD_*``), with defaults that work on a laptop."""

import json
import os
import re
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from incload_assets.platform.environment import NAME, environment_of_branch
from incload_assets.platform.object_stores import STORES, ObjectStore, better_address, kind_of, with_own_scheme
from incload_assets.platform.object_stores.s3 import S3
from incload_assets.platform.secret_store import PREFIX, resolved

SparkMode = Literal["local", "in-process", "remote"]
Evolving = Literal["apply", "stop"]
_READ = ("INCLOAD_", "DAGSTER_CLOUD_")
_ADDRESSES = ("http://", "https://", PREFIX)


def _conf_value(value: Any) -> str:
    """A Spark conf value in Spark's notation: JSON's ``true`` is the string ``true``, not ``True``."""
    return value if isinstance(value, str) else json.dumps(value)


class Settings(BaseSettings):
    """The settings of this code location, each from an environment variable ``INCLOAD_<FIELD>``.

    ``docs/production.md`` explains them. Invalid values raise ValidationError, which names the field.
    """

    # Values are hidden in errors: an address may contain a token, a conf value a key.
    model_config = SettingsConfigDict(env_prefix="INCLOAD_", extra="ignore", hide_input_in_errors=True)

    home: Path = Path(".incload")
    environment: str = Field(default_factory=environment_of_branch)
    landing: str | None = None
    lake: str | None = None
    upstream_lake: str | None = None
    spark: str = Field("local", repr=False)
    spark_memory: str = Field("2g", pattern=r"^[1-9][0-9]*[mg]$")
    spark_idle_minutes: float = Field(30.0, gt=0)
    catalog: str | None = None
    spark_conf: dict[str, Annotated[str, BeforeValidator(_conf_value)]] = Field(default_factory=dict, repr=False)
    maven_repositories: str = Field("", repr=False)
    jars: Path | None = None
    s3: bool = False
    kafka: bool | None = None
    mysql: bool = False
    avro: bool = False
    warm_runs: bool = True
    price_per_hour: float = Field(0.0, ge=0, allow_inf_nan=False)
    monitoring: Path | None = None
    prometheus_url: str | None = Field(None, pattern=r"^https?://", repr=False)
    dashboard_url: str | None = Field(None, pattern=r"^https?://[^@\s]+$")
    backups: Path | None = None
    audit_days: int = Field(400, ge=1)
    history_days: int = Field(30, ge=1)
    person_keys: str | None = None
    secret_command: str | None = Field(None, repr=False)
    secret_folder: Path | None = Field(None, repr=False)
    encryption_at_rest: str = ""
    samples: bool = Field(default_factory=Path("incload_assets", "shop").is_dir)  # in a clone
    notify_slack_url: SecretStr | None = None
    notify_webhook_url: SecretStr | None = None
    notify_email: str = ""
    notify_smtp: str = Field("smtp://localhost:25", pattern=r"^smtps?://([^@:/\s]+@)?[^@/\s]+$")
    notify_smtp_password: SecretStr | None = None
    notify_from: str = "incload@localhost"
    trace_url: str | None = None
    evolution: Evolving | None = None

    @field_validator("environment")
    @classmethod
    def _name(cls, value: str) -> str:
        if not NAME.fullmatch(value):
            raise ValueError(
                "INCLOAD_ENVIRONMENT has up to 64 letters, digits, - and _, and begins with a letter or digit"
            )
        return value

    @field_validator("landing", "lake", "upstream_lake", "person_keys")
    @classmethod
    def _known_place(cls, value: str | None, info: ValidationInfo) -> str | None:
        setting = f"INCLOAD_{(info.field_name or '').upper()}"
        if value and (instead := better_address(value)) is not None:
            raise ValueError(f"{setting} is no address that all clients understand; write {instead}")
        return value

    @field_validator("spark")
    @classmethod
    def _known_spark(cls, value: str) -> str:
        value = resolved(value)
        if value not in ("local", "in-process") and not value.startswith("sc://"):
            raise ValueError("INCLOAD_SPARK is 'local', 'in-process' or the sc://… address of a Spark Connect server")
        return value

    @field_validator("catalog")
    @classmethod
    def _catalog(cls, value: str | None) -> str | None:
        if value and not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", value):
            raise ValueError("INCLOAD_CATALOG is a catalog, or catalog.schema, in letters, digits and _")
        return value or None

    @field_validator("evolution", mode="before")
    @classmethod
    def _known_evolution(cls, value: Any) -> Any:
        if value not in (None, "", "apply", "stop"):
            raise ValueError("INCLOAD_EVOLUTION is 'apply' (loads add and widen columns) or 'stop' (they fail instead)")
        return value or None

    @field_validator("notify_slack_url", "notify_webhook_url")
    @classmethod
    def _address(cls, value: SecretStr | None) -> SecretStr | None:
        if value and value.get_secret_value() and not value.get_secret_value().startswith(_ADDRESSES):
            raise ValueError("INCLOAD_NOTIFY_…_URL is an http address, or secret:NAME of one")
        return value or None

    @field_validator("trace_url")
    @classmethod
    def _link(cls, value: str | None) -> str | None:
        if value and not (value.startswith(("http://", "https://")) and "{trace_id}" in value):
            raise ValueError("INCLOAD_TRACE_URL is an http address with {trace_id} in it")
        return value or None

    @cached_property
    def home_root(self) -> Path:
        """``home`` as an absolute path."""
        return self.home.absolute()

    @property
    def environment_root(self) -> Path:
        """Folder for what an environment has for itself on this machine; without a name it is ``home`` itself."""
        return self.home_root / "environments" / self.environment if self.environment else self.home_root

    @property
    def landing_root(self) -> str:
        """Root of the landing area, without a trailing slash; all environments read the same source."""
        return _root(self.landing or str(self.home_root / "landing"))

    @property
    def lake_root(self) -> str:
        """Root of the environment's Delta tables, without a trailing slash."""
        return self._own(_root(self.lake)) if self.lake else str(self.environment_root / "lake")

    @property
    def upstream_root(self) -> str | None:
        """Root of the lake that derived tables read instead of their own, without a trailing slash; None: their own."""
        return _root(self.upstream_lake) if self.upstream_lake else None

    @property
    def person_keys_root(self) -> str | None:
        """URI of the Delta table with the keys of persons, without a trailing slash; None: it is in the lake."""
        if not self.person_keys:
            return None
        # beside it and not in it: a vacuum of the table would remove what lies in its folder
        return "-".join(filter(None, [_root(self.person_keys), self.environment]))

    @property
    def backups_root(self) -> Path:
        """Folder of the backups of Dagster's storage."""
        return Path(self._own(_root(str(self.backups)))) if self.backups else self.environment_root / "backups"

    @property
    def object_stores(self) -> list[ObjectStore]:
        """The object stores that Spark needs jars for, one of each kind."""
        roots = (self.landing_root, self.lake_root, self.upstream_root or "", self.person_keys_root or "")
        found = {kind: with_own_scheme(root) for root in roots if (kind := kind_of(root)) is not None}
        if self.s3:
            found.setdefault(S3, "")
        return [kind.of(found[kind]) for kind in STORES if kind in found]

    @property
    def spark_mode(self) -> SparkMode:
        """The kind of Spark that ``spark`` selects."""
        if self.spark.startswith("sc://"):
            return "remote"
        return "in-process" if self.spark == "in-process" else "local"

    def _own(self, root: str) -> str:
        return "/".join(filter(None, [root, self.environment]))


def _root(location: str) -> str:
    """A folder as an absolute path, because the Spark server has another working directory; a URI unchanged."""
    return (location if "://" in location else str(Path(location).absolute())).rstrip("/")


def current_settings() -> Settings:
    """The settings of the present environment, parsed only if it has changed, because parsing takes milliseconds."""
    return _of_environment(
        frozenset(item for item in os.environ.items() if item[0].upper().startswith(_READ)), os.getcwd()
    )


@lru_cache(maxsize=1)
def _of_environment(environment: frozenset[tuple[str, str]], directory: str) -> Settings:
    return Settings()
