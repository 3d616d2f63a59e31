"""Mutants of connections: whom they trust, and what a refusal says."""

from tests.mutations.mutant import EXPLAIN, PROTECTION, Mutant

KAFKA = "tests/sources/kafka/test_transport.py::test_"
RIGHTS = "tests/sources/kafka/test_privileges.py::test_"

MUTANTS_OF_TRANSPORT = [
    Mutant("transport: kafka's authority is Spark's, too", PROTECTION, "resources.kafka:KafkaCluster._java",
           'pem = self._content(f"ssl.{ours}.location", path)', "pass",
           (f"{KAFKA}a_plain_password_is_sent_over_tls_alone",)),
    Mutant("transport: a certificate that nobody trusts is no outage", EXPLAIN, "sources.kafka.errors:REFUSED",
           "KafkaError._SSL, ", "",
           (f"{KAFKA}brokers_of_another_authority_are_refused_by_the_look_and_by_spark",)),
    Mutant("transport: Spark's handshake with brokers is told", EXPLAIN, "sources.kafka.errors:_IN_SPARK",
           "SslAuthentication|SSLHandshake", "never",
           (f"{KAFKA}brokers_of_another_authority_are_refused_by_the_look_and_by_spark",)),
    Mutant("transport: Spark's refused account is told", EXPLAIN, "sources.kafka.errors:_IN_SPARK",
           "SaslAuthentication|UnsupportedSaslMechanism|IllegalSaslState", "never",
           (f"{KAFKA}a_wrong_password_is_refused_by_the_look_and_by_spark",)),
    Mutant("transport: a missing right is no outage", EXPLAIN, "sources.kafka.errors:_PERMISSION",
           "KafkaError.TOPIC_AUTHORIZATION_FAILED, ", "",
           (f"{RIGHTS}each_of_them_is_needed_and_its_lack_is_told",)),
    Mutant("transport: a right that Spark lacks is told", EXPLAIN, "sources.kafka.errors:_IN_SPARK",
           r'r"\w*AuthorizationException"', '"never"',
           (f"{RIGHTS}the_lack_of_the_right_to_read_is_told_of_spark",)),
]  # fmt: skip
