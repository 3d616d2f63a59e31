"""ORC files as Hive writes them: by the Java library of ORC, which is among Spark's jars."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaGateway, get_field, set_field

from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.jars import spark_home
from incload_assets.platform.spark.java import java_home


@dataclass(frozen=True)
class OrcLibrary:
    """A Java with the library."""

    java: JavaGateway

    def write(
        self,
        path: Path,
        schema: str,
        *rows: Sequence[Any],
        zone: str = "UTC",
        proleptic: bool = False,
        encrypt: str = "",
        mask: str = "",
    ) -> Path:
        """A file with few rows of numbers, bytes (for all kinds of text, too) and times as text.

        Args:
            path: The file.
            schema: As ORC spells it, ``struct<id:int,at:timestamp>``.
            rows: The values of each row.
            zone: Time zone of the writer.
            proleptic: Whether its days are of the proleptic Gregorian calendar.
            encrypt: Columns to encrypt with the key ``pii``, as in the option ``orc.encrypt``.
            mask: What others see of them, as in ``orc.mask``.
        """
        java, orc = self.java.jvm.java, self.java.jvm.org.apache.orc
        hadoop = self.java.jvm.org.apache.hadoop
        java.util.TimeZone.setDefault(java.util.TimeZone.getTimeZone(zone))
        kind = orc.TypeDescription.fromString(schema)
        options = orc.OrcFile.writerOptions(hadoop.conf.Configuration()).setSchema(kind)
        options = options.setProlepticGregorian(proleptic)
        if encrypt:
            keys = orc.InMemoryKeystore().addKey("pii", orc.EncryptionAlgorithm.AES_CTR_128, bytes(16))
            options = options.setKeyProvider(keys).encrypt(encrypt).masks(mask)
        path.parent.mkdir(parents=True, exist_ok=True)
        writer = orc.OrcFile.createWriter(hadoop.fs.Path(str(path)), options)
        batch = kind.createRowBatch()
        for row, values in enumerate(rows):
            for vector, value in zip(get_field(batch, "cols"), values, strict=True):
                self._set(vector, row, value)
        set_field(batch, "size", len(rows))
        writer.addRowBatch(batch)
        writer.close()
        return path

    def _set(self, vector: Any, row: int, value: Any) -> None:
        if isinstance(value, bytes):
            vector.setVal(row, value)
        elif isinstance(value, str):
            vector.set(row, self.java.jvm.java.sql.Timestamp.valueOf(value))
        else:
            get_field(vector, "vector")[row] = value


@contextmanager
def orc_library() -> Iterator[OrcLibrary]:
    """The library, in a Java of its own for as long as it is used."""
    home = spark_home() / "jars"
    [py4j] = home.glob("py4j-*.jar")
    java = JavaGateway.launch_gateway(
        jarpath=str(py4j),
        classpath=str(home / "*"),
        java_path=str(java_home(Settings()) / "bin" / "java"),
        die_on_exit=True,
    )
    try:
        yield OrcLibrary(java)
    finally:
        java.shutdown()
