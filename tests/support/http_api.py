"""The shop's changes by day, from its HTTP API at ``$SHOP_API_URL``, with the token ``$SHOP_API_TOKEN``."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import requests
from pyspark.sql import DataFrame, SparkSession

from incload_assets.declaration.source import DetectRequest, Position, Shows, Source
from incload_assets.platform.errors import DeclarationError, SourceChanged, SourceUnavailable, SourceUnreadable
from incload_assets.sources.staging import staged_json


@dataclass(frozen=True)
class HttpApi(Source):
    """``/days`` says what each day holds, as count and version; the resource gives a day's records. Both in pages."""

    resource: str
    shows: ClassVar[Shows] = Shows(inserts=True, updates=True, deletes=True)

    def validate(self, table_name: str) -> None:
        if not self.resource.startswith("/"):
            raise DeclarationError(
                f"{table_name}: source: resource is {self.resource!r}", remedy="begin it with a slash"
            )

    def detect(self, request: DetectRequest) -> dict[str, Position]:
        keys = {f"{window.local_start:%Y-%m-%d}": window.key for window in request.windows}
        days = self._items(request.table_name, "/days", since=min(keys), until=max(keys)) if keys else ()
        return {keys[d["day"]]: Position(d["version"], d, f"{d['count']} records") for d in days if d["day"] in keys}

    def extract(self, spark: SparkSession, table_name: str, position: Position, fields: Sequence[str]) -> DataFrame:
        day = position.detail  # without a day: a window that is declared empty
        records = self._items(table_name, self.resource, day=day["day"], version=day["version"]) if day else ()
        return staged_json(spark, table_name, day.get("day", "empty"), records, fields)

    def _items(self, table_name: str, path: str, **query: Any) -> Iterator[dict[str, Any]]:
        page = 1
        while page:
            answer = self._get(table_name, path, query | {"page": page})
            yield from answer["items"]
            page = answer["next"]

    def _get(self, table_name: str, path: str, query: dict[str, Any]) -> dict[str, Any]:
        url, token = (os.environ.get(name, "") for name in ("SHOP_API_URL", "SHOP_API_TOKEN"))
        what, again = f"{table_name}: the shop's API {path}", "the load is tried again; see that the API is up"
        try:
            answer = requests.get(url + path, query, headers={"Authorization": f"Bearer {token}"}, timeout=(3, 5))
            if answer.ok:
                return dict(answer.json(parse_float=str))  # a float would lose digits
        except requests.RequestException as error:
            raise SourceUnavailable(f"{what} gives no answer ({type(error).__name__})", remedy=again) from None
        if answer.status_code == 409:
            raise SourceChanged(f"{what} has another version of {query['day']}", remedy=again)
        if answer.status_code == 429 or answer.status_code >= 500:
            raise SourceUnavailable(f"{what} answers {answer.status_code}", remedy=again)
        raise SourceUnreadable(f"{what} answers {answer.status_code}", remedy="check the URL and the token")
