"""What the sample's Kafka leaves in its folder."""

from dataclasses import dataclass
from pathlib import Path

from resources.local_server import ServerFolder, read_facts
from resources.supervising import Record


@dataclass(frozen=True)
class KafkaFiles(ServerFolder):
    """The files beside the data, in a folder that only its owner may enter."""

    @classmethod
    def of(cls, home: Path) -> "KafkaFiles":
        """Those under ``home``; the folder is made."""
        folder = home / "kafka"
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        return cls(folder)

    def read(self) -> Record | None:
        """What ``server.json`` says, None if there is none; whether that server lives is for the lock to say."""
        facts = read_facts(self.record)
        return Record(**facts) if facts else None
