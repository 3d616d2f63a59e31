"""What the sample's Kafka leaves in its folder."""

from dataclasses import dataclass
from pathlib import Path

from resources.supervising import SupervisedFolder


@dataclass(frozen=True)
class KafkaFiles(SupervisedFolder):
    """The files beside the data, in a folder that only its owner may enter."""

    @classmethod
    def of(cls, home: Path) -> "KafkaFiles":
        """Those under ``home``; the folder is made."""
        return cls.under(home, "kafka")
