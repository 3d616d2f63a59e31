"""A topic of a real Kafka."""

import json
import uuid
from typing import ClassVar

from incload_assets.assets import Kafka
from incload_assets.declaration.window import window_of
from tests.servers.kafka import KafkaServer
from tests.servers.switch import switched
from tests.sources.case import Case, Content, Place
from tests.sources.case_files import as_text


class KafkaTopic(Case):
    """Two topic partitions, by way of a switch."""

    name = "kafka"
    named = "Kafka"
    secret = KafkaServer.password
    can_rewrite = False  # a log grows at its end
    can_hang = True
    shows_empty_windows: ClassVar[bool] = True

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.broker: KafkaServer = place.server("kafka")
        self.topic = f"conformance-{uuid.uuid4().hex[:8]}"
        self.broker.create(self.topic, 2)
        self.switch = place.closing.enter_context(switched(self.broker.behind, self.broker.before))
        place.patch.setenv("INCLOAD_KAFKA_SHOP_SERVERS", f"127.0.0.1:{self.switch.port}")

    def source(self) -> Kafka:
        return Kafka("shop", self.topic)

    def fill(self, content: Content) -> None:
        for window in sorted(content):
            start = round(window_of(self.partitions_def, window).start.timestamp() * 1000)
            rows = [json.dumps(row, ensure_ascii=False, default=as_text) for row in content[window]]
            self.broker.send(
                self.topic, [(number % 2, None, row, start + number * 3_600_000) for number, row in enumerate(rows)]
            )

    def fail(self) -> None:
        self.switch.down()

    def fail_amid_reading(self) -> None:
        self.switch.break_off(after=6000)

    def hang(self) -> None:
        self.switch.hang()

    def recover(self) -> None:
        self.switch.up()

    def refuse(self) -> None:
        options = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": self.broker.user,
                   "sasl.password": f"wrong-{self.secret}"}  # fmt: skip
        self.place.patch.setenv("INCLOAD_KAFKA_SHOP_SERVERS", self.broker.secured)
        self.place.patch.setenv("INCLOAD_KAFKA_SHOP_OPTIONS", json.dumps(options))
