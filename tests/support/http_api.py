"""The shop's changes by day, from its HTTP API at ``$SHOP_API_URL``, with the token ``$SHOP_API_TOKEN``."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import requests
from pyspark.sql import DataFrame, SparkSession

from incload_assets.declaration.source import Position, Sees, Source
from incload_assets.declaration.window import Window
from incload_assets.sources.staging import staged_json
from resources.errors import DeclarationError, SourceChanged, SourceUnavailable, SourceUnreadable


@dataclass(frozen=True)
class HttpApi(Source):
    """``/days`` says what each day holds, as count and version; the resource gives a day's records. Both in pages."""

    resource: str
    sees: ClassVar[Sees] = Sees(inserts=True, updates=True, deletes=True)

    def validate(self, table: str) -> None:
        if not self.resource.startswith("/"):
            raise DeclarationError(f"{table}: source: resource is {self.resource!r}", remedy="begin it with a slash")

    def detect(
        self, table: str, windows: Sequence[Window], landed: Mapping[str, Position], **_: Any
    ) -> dict[str, Position]:
        asked = {f"{window.local_start:%Y-%m-%d}": window.key for window in windows}
        days = self._items(table, "/days", since=min(asked), until=max(asked)) if asked else ()
        return {asked[d["day"]]: Position(d["version"], d, f"{d['count']} records") for d in days if d["day"] in asked}

    def extract(self, spark: SparkSession, table: str, position: Position, fields: Sequence[str]) -> DataFrame:
        day = position.detail  # without a day: a window that is declared empty
        records = self._items(table, self.resource, day=day["day"], version=day["version"]) if day else ()
        return staged_json(spark, table, day.get("day", "empty"), records, fields)

    def _items(self, table: str, path: str, **query: Any) -> Iterator[dict[str, Any]]:
        page = 1
        while page:
            answer = self._get(table, path, query | {"page": page})
            yield from answer["items"]
            page = answer["next"]

    def _get(self, table: str, path: str, query: dict[str, Any]) -> dict[str, Any]:
        url, token = (os.environ.get(name, "") for name in ("SHOP_API_URL", "SHOP_API_TOKEN"))
        what, again = f"{table}: the shop's API {path}", "the load is tried again; see that the API is up"
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
