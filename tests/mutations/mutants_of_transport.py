"""Mutants of connections: whom they trust, and what a refusal says."""

from tests.mutations.mutant import EXPLAIN, PROTECTION, Mutant

KAFKA = "tests/sources/kafka/test_transport.py::test_"
RIGHTS = "tests/sources/kafka/test_privileges.py::test_"
LAKE = "tests/platform/test_lake.py::test_"
S3 = "tests/integration/test_s3_over_tls.py::test_"
TRUST = "tests/platform/spark/test_trust.py::test_"
CONNECT = "tests/platform/spark/test_handshake.py::test_"
POLICIES = "tests/integration/test_s3_privileges.py::test_"

MUTANTS_OF_TRANSPORT = [
    Mutant("transport: kafka's authority is Spark's, too", PROTECTION, "platform.kafka:KafkaCluster._java",
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
    Mutant("transport: the lake trusts the authority", EXPLAIN, "platform.object_stores.s3:S3.delta_options",
           "if endpoint.authorities else {}", "if False else {}",
           (f"{S3}a_table_is_read_and_written_without_spark_where_the_authority_is_named",)),
    Mutant("transport: a handshake with the lake is told", EXPLAIN, "platform.failures:_FAULTS",
           "invalid peer certificate", "never",
           (f"{S3}a_table_is_read_and_written_without_spark_where_the_authority_is_named",)),
    Mutant("transport: a handshake with the store of files is told", EXPLAIN, "platform.object_stores.s3:S3.failure",
           "if isinstance(error, boto.SSLError)", "if False",
           (f"{S3}files_are_listed_where_the_authority_is_named",)),
    Mutant("transport: a file without authorities is told", EXPLAIN, "platform.object_stores.s3:S3Endpoint.check",
           "if problem:", "if False:", (f"{S3}a_file_without_certificates_is_named",)),
    Mutant("transport: Spark asks for encryption at rest", PROTECTION, "platform.object_stores.s3:_spark_conf",
           "if endpoint.kms_key:", "if False:",
           (f"{LAKE}a_lake_on_s3_works_with_a_key_of_kms_and_its_faults_name_the_bucket_within_seconds",)),
    Mutant("transport: files of s3fs are encrypted at rest", PROTECTION, "platform.object_stores.s3:_client",
           "for name, value in written.items() if value", "for name, value in written.items() if False",
           (f"{LAKE}the_same_commits_on_s3_and_copies_and_files_of_s3fs_are_encrypted_with_the_key",)),
    Mutant("transport: Spark trusts the authority", EXPLAIN, "platform.spark.conf:spark_conf",
           'conf["spark.driver.extraJavaOptions"] += f" {trusted}"', "pass",
           (f"{TRUST}a_spark_that_is_started_here_trusts_them_whatever_else_its_java_is_told",)),
    Mutant("transport: Java still trusts whom the machine trusts", EXPLAIN, "platform.spark.trust:_stored",
           "{*machines_authorities(), ", "{",
           (f"{TRUST}a_store_has_the_authorities_of_the_machine_and_of_the_file",)),
    Mutant("transport: a Spark that nobody trusts is not tried again", EXPLAIN,
           "platform.spark.handshake:set_retries",
           "not _REFUSAL.search(str(exception)) and ", "",
           (f"{CONNECT}a_server_that_is_not_trusted_is_told_at_once",)),
    Mutant("transport: a refused handshake is no wrong token", EXPLAIN, "platform.spark.resource:connect",
           "if refusal := refused_handshake(url, error):", "if refusal := None:",
           (f"{CONNECT}a_server_that_is_not_trusted_is_told_at_once",)),
    Mutant("transport: a refused write to the lake is told", EXPLAIN, "platform.lake:_translated",
           "except (OSError, DeltaError) as error:", "except OSError as error:",
           (f"{POLICIES}each_action_on_the_lake_is_needed",)),
    Mutant("transport: a refused path of the lake is told", EXPLAIN, "platform.failures:_FAULTS",
           '_ABOUT_STORES + "|necessary privileges"', "_ABOUT_STORES",
           (f"{POLICIES}each_action_on_the_lake_is_needed",)),
]  # fmt: skip
