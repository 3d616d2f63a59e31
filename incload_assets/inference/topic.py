"""A Kafka topic as the origin of a table: JSON messages, or Debezium's events of one table."""

from datetime import UTC, datetime

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incload_assets.inference.events import origin_of_events
from incload_assets.inference.measure import ROWS, UNREADABLE, json_fields
from incload_assets.inference.origin import WINDOW, Origin, Partitions
from incload_assets.inference.spelled import text
from incload_assets.platform.errors import SourceUnreadable
from incload_assets.platform.kafka import KafkaCluster
from incload_assets.platform.sql import col
from incload_assets.platform.wording import several
from incload_assets.sources.kafka.errors import kafka_error
from incload_assets.sources.kafka.messages import KEY, TOMBSTONE, json_messages, read_messages
from incload_assets.sources.kafka.topic import TopicMetadata
from incload_assets.sources.kafka.windows import Ranges

OFFSET = "kafka_offset"
_DAY = 86_400_000
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


def origin_of_topic(spark: SparkSession, table: str, cluster_name: str, topic: str) -> Origin:
    """The origin for a topic of a cluster that the environment configures.

    Args:
        spark: The session that reads the sample.
        table: Name of the table, for messages.
        cluster_name: Name of the cluster in the environment.
        topic: Name of the topic.

    Raises:
        SourceUnreadable: There is no such topic, it has no message, or its messages are not JSON.
    """
    cluster, place = KafkaCluster.named(cluster_name), f"{cluster_name}/{topic}"
    look = TopicMetadata(table, cluster, topic)
    ranges = _newest(look)
    if not ranges:
        raise SourceUnreadable(
            f"{table}: {look.place} has no messages",
            rule="a declaration is inferred from what a source holds",
            remedy="wait for the first messages, or name another topic",
        )
    messages = read_messages(spark, cluster, topic, ranges)
    try:
        records = json_messages(messages, place, [KEY, TOMBSTONE])
        records = records.where(F.col("_raw").getField(TOMBSTONE) != "true")
        fields = json_fields(records.limit(ROWS), "_rescued", "_payload")
    except PySparkException as error:
        raise kafka_error(table, str(error), look.place) or error from None
    if not fields:
        raise SourceUnreadable(
            f"{table}: the messages of {look.place} are no JSON objects",
            rule="a declaration is inferred from messages that are JSON objects",
            remedy='write them as JSON, or declare Kafka(…, framed="json") if that is behind the frame of a schema '
            'registry; for Avro declare Kafka(…, format="avro", registry=…)',
        )
    oldest = min(found.time for found in look.first_since(_BEGINNING).values())
    start = datetime.fromtimestamp(oldest / 1000, UTC)
    partitions = Partitions("daily", _midnight(start), f"the oldest message is of {start:%Y-%m-%d}")
    newest = datetime.fromtimestamp(_newest_time(look, ranges, oldest) / 1000, UTC)
    source, key = f"Kafka({text(cluster_name)}, {text(topic)})", partitions.key_of(_midnight(newest))
    seen = several(sum(end - begin for begin, end in ranges.values()), "newest offset", "newest offsets")
    notes = [f"the sample is from the {seen} of {several(len(ranges), 'topic partition')}"]
    if events := origin_of_events(table, records, fields, source, "Kafka", partitions, key, notes):
        return events
    names = [field.name for field in fields]
    rows = json_messages(messages, place, [*names, OFFSET])
    values = [col(name, "_raw").alias(name) for name in [*names, OFFSET]]
    return Origin(
        place=look.place,
        frame=rows.select(*values, F.col("_malformed").alias(UNREADABLE), F.lit("").alias(WINDOW)),
        fields=fields,
        source=source,
        imports=["Kafka"],
        partitions=partitions,
        newest=key,
        notes=notes,
        offset=OFFSET,
    )


def _newest(look: TopicMetadata) -> Ranges:
    """The newest offsets of each topic partition, as many as a sample has rows."""
    starts, ends = look.starts(), look.ends()
    filled = {number: end for number, end in ends.items() if end > starts[number]}
    each = max(1, ROWS // max(1, len(filled)))
    return {number: (max(starts[number], end - each), end) for number, end in filled.items()}


def _newest_time(look: TopicMetadata, ranges: Ranges, oldest: int) -> int:
    """The time of the newest messages, to a day: the last instant since which there are messages."""
    low, high = oldest // _DAY, int(datetime.now(UTC).timestamp() * 1000) // _DAY
    while low < high:
        middle = (low + high + 1) // 2
        if look.first_since(datetime.fromtimestamp(middle * _DAY / 1000, UTC)):
            low = middle
        else:
            high = middle - 1
    return low * _DAY


def _midnight(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
