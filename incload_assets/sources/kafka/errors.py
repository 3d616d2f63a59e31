"""Translation of errors of the Kafka client and of Spark's Kafka reader, whose own texts contain addresses."""

from collections.abc import Sequence

from confluent_kafka import KafkaError

from resources.errors import IncrementalLoadError, SourceUnavailable, SourceUnreadable
from resources.failures import Fault, first_match

REFUSED = {
    KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._SSL,
    KafkaError.UNSUPPORTED_SASL_MECHANISM, KafkaError.ILLEGAL_SASL_STATE,
}  # fmt: skip
_UNKNOWN = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
_WRONG_OPTIONS = {KafkaError._INVALID_ARG, KafkaError._CONFLICT, KafkaError._NOT_IMPLEMENTED}

_IN_SPARK = (
    Fault(
        r"Failed to find (the )?data source: kafka|DATA_SOURCE_NOT_FOUND[^\n]*kafka",
        SourceUnreadable,
        "{table}: this Spark has no connector for Kafka",
        rule="Spark reads from Kafka with jars of its own, fetched where they are asked for",
        remedy="set INCLOAD_KAFKA=true where Spark is started, and start it anew (incload stop); Maven, which "
        "has to be there, fetches the jars; give a Spark server of your own spark-sql-kafka-0-10 with all it needs",
    ),
    Fault(
        r"OffsetOutOfRange|data may have been lost|failOnDataLoss|KAFKA_DATA_LOSS|Cannot fetch offset",
        SourceUnreadable,
        "{table}: Kafka lost records of the window while they were read",
        rule="a window is read as a whole or not at all: what has expired is never passed over",
        remedy="load within the topic's retention.ms, or raise it",
        about="kafka",
    ),
    Fault(
        r"SaslAuthentication|SslAuthentication|\w*AuthorizationException|SSLHandshake",
        SourceUnreadable,
        "{table}: Kafka refuses Spark",
        rule="Spark logs in with the same options as the look at the topic",
        remedy="check INCLOAD_KAFKA_<CLUSTER>_OPTIONS, …_SPARK_OPTIONS, and the account's permissions",
        about="kafka",
    ),
    Fault(
        r"kafka\.common\.(config\.ConfigException|KafkaException: Failed (to construct|create))",
        SourceUnreadable,
        "{table}: Spark's Kafka client does not take its options",
        rule="…_OPTIONS are librdkafka's and are translated for Spark; …_SPARK_OPTIONS are the Java client's",
        remedy="correct INCLOAD_KAFKA_<CLUSTER>_OPTIONS or …_SPARK_OPTIONS",
    ),
    Fault(
        r"kafka\.common\.errors\.(Timeout|Disconnect|Network|BrokerNotAvailable|Retriable)\w*|UnknownTopicOrPartition"
        r"|Timed out waiting for a node assignment|java\.util\.concurrent\.TimeoutException: Cannot fetch record",
        SourceUnavailable,
        "{table}: Kafka stopped answering while Spark read from it",
        rule="what does not answer is not taken for empty",
        remedy="none if it comes back: the load is tried again; else check that Spark can reach the brokers",
        about="kafka",
    ),
)


def client_error(table_name: str, cluster: str, place: str, codes: Sequence[int]) -> IncrementalLoadError:
    """The error for an error of the client.

    Args:
        table_name: For messages.
        cluster: The cluster's name.
        place: Topic and cluster.
        codes: The code of the error, then the codes of earlier errors between requests.

    Example:
        >>> str(client_error("orders", "shop", "topic 'o'", [KafkaError._TIMED_OUT]))[:60]
        "orders: the Kafka cluster 'shop' does not answer (timed out)"
    """
    prefix, code = f"INCLOAD_KAFKA_{cluster.upper()}_", codes[0]
    if refusal := next((known for known in codes if known in REFUSED), None):
        return SourceUnreadable(
            f"{table_name}: {place} is refused ({_name(refusal)})",
            rule="the account may describe and read the topic",
            remedy=f"check the options in {prefix}OPTIONS, and the account's permissions",
        )
    if code in _UNKNOWN:
        return SourceUnreadable(
            f"{table_name}: there is no {place}",
            rule="the topic exists, and the account may describe it",
            remedy="correct the topic's name in the table's declaration, or create it",
        )
    if code in _WRONG_OPTIONS:
        return SourceUnreadable(
            f"{table_name}: the options for the Kafka cluster {cluster!r} are wrong ({_name(code)})",
            rule="options are named as in librdkafka",
            remedy=f"correct {prefix}OPTIONS",
        )
    return SourceUnavailable(
        f"{table_name}: the Kafka cluster {cluster!r} does not answer ({_name(code)})",
        rule="what does not answer is not taken for empty",
        remedy=f"none if it comes back: the load is tried again; else check {prefix}SERVERS and the network",
    )


def _name(code: int) -> str:
    return str(KafkaError(code).name()).strip("_").lower().replace("_", " ")


def kafka_error(table_name: str, text: str) -> IncrementalLoadError | None:
    """The error for a text of Spark about Kafka; None if the text is about something else.

    Args:
        table_name: For messages.
        text: Of the error.

    Example:
        >>> kafka_error("orders", "division by zero") is None
        True
    """
    return first_match(_IN_SPARK, text, table=table_name)
