"""The table of the properties of Kafka's Java clients, as MirrorMaker 2 passes them on. Pure data.

`ours` is librdkafka's property without its place in the file, or a key of the flow if it begins with `flows[]`.
"""

from __future__ import annotations

from mirror.commands.convert.setting import NO_GROUP, OWN_CLASS, Setting

S = Setting

FIXED = "exactly-once fixes it, and mirror sets it itself"
BYTES = "mirror copies keys and values as bytes, to the same partition"
TLS = "OpenSSL has its own; mirror negotiates TLS 1.2 or 1.3"
TO_PEM = (
    "keytool -importkeystore -srckeystore FILE -destkeystore ca.p12 -deststoretype PKCS12, "
    "then openssl pkcs12 -in ca.p12 -nokeys -out ca.pem"
)
TO_P12 = "keytool -importkeystore -srckeystore FILE -destkeystore client.p12 -deststoretype PKCS12"
PEM = f"librdkafka reads PEM files: {TO_PEM}, and write ssl.ca.location: ca.pem"
P12 = f"librdkafka reads PKCS12 or PEM: {TO_P12}, and write ssl.keystore.location: client.p12"
LOGIN = "librdkafka renews logins and tokens by itself"

CONNECTION = (
    S("bootstrap.servers", "", "same", "bootstrap.servers"),
    S("client.id", "", "same", "client.id", "mirror's default is mirror"),
    S("client.dns.lookup", "use_all_dns_ips", "same", "client.dns.lookup"),
    S("security.protocol", "PLAINTEXT", "same", "security.protocol"),
    S("security.providers", "", "not possible", "", OWN_CLASS),
    S("request.timeout.ms", "30000", "renamed", "socket.timeout.ms"),
    S(
        "default.api.timeout.ms",
        "60000",
        "not needed",
        "",
        "mirror's time-outs of requests are fixed, and requests are repeated",
    ),
    S("socket.connection.setup.timeout.ms", "10000", "same", "socket.connection.setup.timeout.ms"),
    S(
        "socket.connection.setup.timeout.max.ms",
        "30000",
        "not needed",
        "",
        "librdkafka does not lengthen this time-out",
    ),
    S("connections.max.idle.ms", "540000", "same", "connections.max.idle.ms"),
    S("metadata.max.age.ms", "300000", "same", "metadata.max.age.ms"),
    S("metadata.recovery.strategy", "rebootstrap", "same", "metadata.recovery.strategy"),
    S("metadata.recovery.rebootstrap.trigger.ms", "300000", "same", "metadata.recovery.rebootstrap.trigger.ms"),
    S("reconnect.backoff.ms", "50", "same", "reconnect.backoff.ms"),
    S("reconnect.backoff.max.ms", "1000", "same", "reconnect.backoff.max.ms"),
    S("retry.backoff.ms", "100", "not needed", "", "mirror has a shorter one, which its transactions need"),
    S("retry.backoff.max.ms", "1000", "not needed", "", "mirror has a shorter one, which its transactions need"),
    S("retries", "2147483647", "not needed", "", "mirror tries again without a limit"),
    S("send.buffer.bytes", "131072", "renamed", "socket.send.buffer.bytes", "-1 becomes 0: the system's own size"),
    S("receive.buffer.bytes", "65536", "renamed", "socket.receive.buffer.bytes", "-1 becomes 0: the system's own size"),
    S("enable.metrics.push", "true", "not needed", "", "mirror pushes no metrics to brokers"),
    S("metric.reporters", "", "not needed", "", "mirror serves /metrics for Prometheus"),
    S("metrics.*", "", "not needed", "", "mirror serves /metrics for Prometheus"),
    S("auto.include.jmx.reporter", "true", "not needed", "", "mirror serves /metrics for Prometheus"),
    S("interceptor.classes", "", "not possible", "", OWN_CLASS),
)

SECURITY = (
    S(
        "sasl.mechanism",
        "GSSAPI",
        "renamed",
        "sasl.mechanisms",
        "AWS_MSK_IAM becomes OAUTHBEARER with token_provider: mirror.msk_iam.token, which needs more packages and the "
        "region",
    ),
    S(
        "sasl.jaas.config",
        "",
        "renamed",
        "sasl.username, sasl.password",
        "of Plain- and ScramLoginModule; OAuthBearer- and Krb5LoginModule fill sasl.oauthbearer.* and sasl.kerberos.*; "
        "the profile or the role of IAMLoginModule comes into sasl.oauthbearer.config",
    ),
    S(
        "sasl.client.callback.handler.class",
        "",
        "not possible",
        "",
        OWN_CLASS + "; for AWS_MSK_IAM mirror needs none",
    ),
    S(
        "sasl.login.callback.handler.class",
        "",
        "renamed",
        "sasl.oauthbearer.method",
        "the handlers of Kafka and Strimzi that ask an OIDC server, and that of AWS, which becomes token_provider; no "
        "other class",
    ),
    S("sasl.login.class", "", "not possible", "", OWN_CLASS),
    S("sasl.login.*", "", "not needed", "", LOGIN),
    S("sasl.oauthbearer.token.endpoint.url", "", "same", "sasl.oauthbearer.token.endpoint.url"),
    S("sasl.oauthbearer.client.credentials.client.id", "", "renamed", "sasl.oauthbearer.client.id"),
    S("sasl.oauthbearer.client.credentials.client.secret", "", "renamed", "sasl.oauthbearer.client.secret"),
    S("sasl.oauthbearer.scope", "", "same", "sasl.oauthbearer.scope"),
    S("sasl.oauthbearer.*", "", "not needed", "", "brokers use it; a client that asks an OIDC server does not"),
    S("sasl.kerberos.service.name", "", "same", "sasl.kerberos.service.name"),
    S("sasl.kerberos.min.time.before.relogin", "60000", "same", "sasl.kerberos.min.time.before.relogin"),
    S("sasl.kerberos.*", "", "not needed", "", LOGIN),
    S(
        "ssl.endpoint.identification.algorithm",
        "https",
        "same",
        "ssl.endpoint.identification.algorithm",
        "an empty one becomes none",
    ),
    S(
        "ssl.truststore.type",
        "JKS",
        "not needed",
        "",
        "PEM is carried; of JKS and PKCS12 the certificates have to be converted",
    ),
    S("ssl.truststore.location", "", "renamed", "ssl.ca.location", "if ssl.truststore.type is PEM; otherwise " + PEM),
    S("ssl.truststore.certificates", "", "renamed", "ssl.ca.pem"),
    S("ssl.truststore.password", "", "not needed", "", "a PEM file has none"),
    S("ssl.keystore.type", "JKS", "not needed", "", "PEM and PKCS12 are carried; JKS has to be converted"),
    S(
        "ssl.keystore.location",
        "",
        "same",
        "ssl.keystore.location",
        "if ssl.keystore.type is PKCS12; a PEM file becomes ssl.certificate.location and ssl.key.location; otherwise "
        + P12,
    ),
    S("ssl.keystore.password", "", "same", "ssl.keystore.password", "of a PKCS12 file"),
    S("ssl.keystore.key", "", "renamed", "ssl.key.pem"),
    S("ssl.keystore.certificate.chain", "", "renamed", "ssl.certificate.pem"),
    S("ssl.key.password", "", "same", "ssl.key.password"),
    S("ssl.engine.factory.class", "", "not possible", "", OWN_CLASS),
    S(
        "ssl.cipher.suites",
        "",
        "not possible",
        "ssl.cipher.suites",
        "OpenSSL has other names for them: see openssl ciphers -stdname",
    ),
    S("ssl.protocol", "TLSv1.3", "not needed", "", TLS),
    S("ssl.enabled.protocols", "TLSv1.2,TLSv1.3", "not needed", "", TLS),
    S("ssl.*", "", "not needed", "", TLS),
)

CONSUMER = (
    S(
        "auto.offset.reset",
        "earliest",
        "different",
        "flows[].start",
        "it holds for partitions that are there at the first run; where the source has lost records, see on_data_loss",
    ),
    S("isolation.level", "read_uncommitted", "not needed", "", FIXED + ": read_committed"),
    S("enable.auto.commit", "false", "not needed", "", FIXED),
    S("auto.commit.interval.ms", "5000", "not needed", "", FIXED),
    S("fetch.min.bytes", "1", "same", "fetch.min.bytes"),
    S("fetch.max.wait.ms", "500", "renamed", "fetch.wait.max.ms"),
    S("fetch.max.bytes", "52428800", "same", "fetch.max.bytes", "mirror's default is 8 MiB"),
    S("max.partition.fetch.bytes", "1048576", "same", "max.partition.fetch.bytes"),
    S(
        "max.poll.records",
        "500",
        "not needed",
        "flows[].batch_max_records",
        "record by record transactions take up to 20,000 records; set batch_max_records for another limit",
    ),
    S("max.poll.interval.ms", "300000", "not needed", "", NO_GROUP),
    S("check.crcs", "true", "same", "check.crcs"),
    S("client.rack", "", "same", "client.rack"),
    S("group.id", "", "not needed", "", NO_GROUP),
    S("group.instance.id", "", "not needed", "", NO_GROUP),
    S("group.protocol", "classic", "not needed", "", NO_GROUP),
    S("group.remote.assignor", "", "not needed", "", NO_GROUP),
    S("session.timeout.ms", "45000", "not needed", "", NO_GROUP),
    S("heartbeat.interval.ms", "3000", "not needed", "", NO_GROUP),
    S("partition.assignment.strategy", "", "not needed", "", NO_GROUP),
    S("exclude.internal.topics", "true", "not needed", "", "topics and exclude choose the topics"),
    S("allow.auto.create.topics", "true", "not needed", "", "mirror creates remote topics itself"),
    S("key.deserializer", "", "not needed", "", BYTES),
    S("value.deserializer", "", "not needed", "", BYTES),
)

PRODUCER = (
    S("acks", "all", "not needed", "", FIXED + ": all"),
    S("enable.idempotence", "true", "not needed", "", FIXED + ": true"),
    S("transactional.id", "", "not needed", "", FIXED + ": one for each partition"),
    S("transactional.id.*", "", "not needed", "", FIXED),
    S("max.in.flight.requests.per.connection", "5", "not needed", "", FIXED),
    S("transaction.timeout.ms", "60000", "renamed", "flows[].transaction_timeout"),
    S("transaction.two.phase.commit.enable", "false", "not possible", "", "librdkafka has no two-phase commit"),
    S(
        "compression.type",
        "none",
        "renamed",
        "flows[].compression",
        "with another value than none mirror copies record by record; with none whole batches keep the source's",
    ),
    S("compression.gzip.level", "-1", "renamed", "compression.level"),
    S("compression.lz4.level", "9", "renamed", "compression.level"),
    S("compression.zstd.level", "3", "renamed", "compression.level"),
    S(
        "linger.ms",
        "5",
        "not needed",
        "",
        "a lone record is sent at once, a backlog fills requests; transaction_linger_max makes larger transactions",
    ),
    S(
        "batch.size",
        "16384",
        "not needed",
        "",
        "whole batches stay as they are; record by record they hold 1,000,000 bytes, or batch.size of the producer",
    ),
    S(
        "buffer.memory",
        "33554432",
        "not needed",
        "flows[].batch_max_bytes",
        "batch_max_bytes bounds what a transaction holds, in whole batches up to 4 MiB",
    ),
    S(
        "max.request.size",
        "1048576",
        "not needed",
        "",
        "the target topic decides what is too large; see on_poison_record",
    ),
    S("max.block.ms", "60000", "not needed", "", "mirror tries again without a limit"),
    S("delivery.timeout.ms", "120000", "not needed", "", "transaction_timeout bounds it"),
    S(
        "metadata.max.idle.ms",
        "300000",
        "not needed",
        "",
        "record by record producer_idle_timeout says how long a producer is kept",
    ),
    S("partitioner.*", "", "not needed", "", BYTES),
    S("key.serializer", "", "not needed", "", BYTES),
    S("value.serializer", "", "not needed", "", BYTES),
)

ROWS = (*CONNECTION, *SECURITY, *CONSUMER, *PRODUCER)
