"""Several sources: half of each window's rows in files with JSON lines, half in Parquet files."""

from collections.abc import Sequence

from incload_assets.assets import Files, Several
from tests.sources.case import Row
from tests.sources.case_files import JsonFiles, ParquetFiles, as_json, as_parquet


class SeveralFiles(JsonFiles):
    name = "several sources"

    def source(self) -> Several:  # type: ignore[override]
        return Several({"json": JsonFiles.source(self), "parquet": Files(f"{{landing}}/{_PARQUET}")})

    def rewrite(self, window: str, rows: Sequence[Row]) -> None:
        self.put(f"items/{window}/a.{self.extension}", as_json(rows[::2]))
        self.put(f"typed/{window}/a.{ParquetFiles.extension}", as_parquet(rows[1::2]))


_PARQUET = f"typed/{{window:%Y-%m-%d}}/*.{ParquetFiles.extension}"
