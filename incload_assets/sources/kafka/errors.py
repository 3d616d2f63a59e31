"""Translation of errors of the Kafka client and of Spark's Kafka reader, whose own texts contain addresses."""

from collections.abc import Sequence

from confluent_kafka import KafkaError

from incload_assets.platform.errors import IncrementalLoadError, SourceUnavailable, SourceUnreadable
from incload_assets.platform.failures import Fault, first_match
from incload_assets.sources.files.errors import avro_missing

_ACCOUNT = {
    KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError.UNSUPPORTED_SASL_MECHANISM,
    KafkaError.ILLEGAL_SASL_STATE,
}  # fmt: skip
_PERMISSION = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
}  # fmt: skip
REFUSED = {KafkaError._SSL, *_ACCOUNT, *_PERMISSION}
"""Codes of errors that do not pass by themselves."""
_TRUST = (
    "the brokers' certificate is signed by the authority in ssl.ca.location, or else by one that the system trusts, "
    "and names the host of {servers}",
    "set ssl.ca.location in {options} to the file with the certificate of the brokers' authority, and address the "
    "brokers by a name in their certificate",
)
_KNOWN_ACCOUNT = (
    "the cluster knows the account, and takes its mechanism",
    "check sasl.username, sasl.password and sasl.mechanism in {options}",
)
_PERMITTED = (
    "the account may describe and read the topic",
    "grant it Read and DescribeConfigs on the topic, see incload docs privileges kafka",
)
"""Rule and remedy of a refusal."""
_UNKNOWN = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
_WRONG_OPTIONS = {KafkaError._INVALID_ARG, KafkaError._CONFLICT, KafkaError._NOT_IMPLEMENTED}


def _in_spark(refusal: tuple[str, str]) -> tuple[str, str]:
    """Rule and remedy for Spark, which has the same options, translated, and others of its own."""
    rule, remedy = refusal
    variables = {"servers": "INCLOAD_KAFKA_<CLUSTER>_SERVERS", "options": "INCLOAD_KAFKA_<CLUSTER>_OPTIONS"}
    return rule.format(**variables), f"{remedy.format(**variables)}; …_SPARK_OPTIONS override them for Spark"


_IN_SPARK = (
    Fault(
        r"Failed to find (the )?data source: kafka|DATA_SOURCE_NOT_FOUND[^\n]*kafka",
        SourceUnreadable,
        "{table}: this Spark has no connector for Kafka",
        rule="Spark reads from Kafka with jars of its own, fetched where they are asked for",
        remedy="set INCLOAD_KAFKA=true where Spark is started, and start it again (incload stop); Maven, which "
        "has to be there, fetches the jars; give a Spark server of your own spark-sql-kafka-0-10 with all it needs",
    ),
    Fault(
        r"OffsetOutOfRange|data may have been lost|failOnDataLoss|KAFKA_DATA_LOSS|Cannot fetch offset",
        SourceUnreadable,
        "{table}: {source}: Kafka lost records of the window while they were read",
        rule="a window is read as a whole or not at all: what has expired is never passed over",
        remedy="load within the topic's retention.ms, or raise it",
        about="kafka",
    ),
    Fault(
        r"SslAuthentication|SSLHandshake",
        SourceUnreadable,
        "{table}: {source}: Spark's TLS handshake with the brokers fails",
        *_in_spark(_TRUST),
        about="kafka",
    ),
    Fault(
        r"SaslAuthentication|UnsupportedSaslMechanism|IllegalSaslState",
        SourceUnreadable,
        "{table}: {source}: Kafka refuses Spark's account",
        *_in_spark(_KNOWN_ACCOUNT),
        about="kafka",
    ),
    Fault(
        r"\w*AuthorizationException",
        SourceUnreadable,
        "{table}: {source}: Kafka refuses Spark ({found})",
        *_in_spark(_PERMITTED),
        about="kafka",
    ),
    Fault(
        r"kafka\.common\.(config\.ConfigException|KafkaException: Failed (to construct|create))",
        SourceUnreadable,
        "{table}: {source}: Spark's Kafka client does not take its options",
        rule="…_OPTIONS are librdkafka's and are translated for Spark; …_SPARK_OPTIONS are the Java client's",
        remedy="correct INCLOAD_KAFKA_<CLUSTER>_OPTIONS or …_SPARK_OPTIONS",
    ),
    Fault(
        r"kafka\.common\.errors\.(Timeout|Disconnect|Network|BrokerNotAvailable|Retriable)\w*|UnknownTopicOrPartition"
        r"|Timed out waiting for a node assignment|java\.util\.concurrent\.TimeoutException: Cannot fetch record",
        SourceUnavailable,
        "{table}: {source}: Kafka stopped answering while Spark read from it",
        rule="what does not answer is not taken for empty",
        remedy="none if it comes back: the load is tried again; else check that Spark can reach the brokers",
        about="kafka",
    ),
)


def client_error(table_name: str, cluster: str, place: str, codes: Sequence[int]) -> IncrementalLoadError:
    """The error for an error of the client; ``codes`` are its code, then codes of earlier errors between requests."""
    prefix, code = f"INCLOAD_KAFKA_{cluster.upper()}_", codes[0]
    if refusal := next((known for known in codes if known in REFUSED), None):
        variables = {"servers": f"{prefix}SERVERS", "options": f"{prefix}OPTIONS"}
        problem = f"{place} is refused ({_name(refusal)})"
        if refusal == KafkaError._SSL:
            problem = f"the TLS handshake with the brokers of {place} fails"
        why = _TRUST if refusal == KafkaError._SSL else _KNOWN_ACCOUNT if refusal in _ACCOUNT else _PERMITTED
        rule, remedy = (text.format(**variables) for text in why)
        return SourceUnreadable(f"{table_name}: {problem}", rule=rule, remedy=remedy)
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
        remedy=f"none if it comes back: the load is tried again; else check {prefix}SERVERS, security.protocol in "
        f"{prefix}OPTIONS and the network",
    )


def _name(code: int) -> str:
    return str(KafkaError(code).name()).strip("_").lower().replace("_", " ")


def kafka_error(table_name: str, text: str, source: str = "its source") -> IncrementalLoadError | None:
    """The error for a text of Spark about Kafka; None if the text is about something else."""
    return avro_missing(table_name, text) or first_match(_IN_SPARK, text, table=table_name, source=source)
