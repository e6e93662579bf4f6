"""Inputs of all three forms, which have most of what MirrorMaker 2's users write. Every secret is SECRET."""

from __future__ import annotations

FILE = r"""
# us-west to us-east
clusters = primary, backup, unused
primary.bootstrap.servers = p1:9092, \
    p2:9092
backup.bootstrap.servers = b1:9093
unused.bootstrap.servers = u1:9093
primary->backup.enabled = true
backup->primary.enabled = false
backup->primary.topics = none
primary->backup.topics = orders\\..*, payments
topics.exclude = .*-test, .*[\\-\\.]internal
groups = .*
security.protocol = sasl_ssl
sasl.mechanism = SCRAM-SHA-512
primary.sasl.jaas.config = org.apache.kafka.common.security.scram.ScramLoginModule required username="mm" \
    password="SECRET";
backup.sasl.jaas.config = org.apache.kafka.common.security.scram.ScramLoginModule required username="mm" \
    password="${env:BACKUP_PW}";
config.providers = env, file
config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider
config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider
ssl.truststore.location = /etc/trust.jks
ssl.truststore.password = SECRET
primary.ssl.keystore.type = PKCS12
primary.ssl.keystore.location = /etc/key.p12
primary.ssl.keystore.password = ${file:/etc/secrets.properties:keystore}
primary.ssl.endpoint.identification.algorithm =
primary.consumer.isolation.level = read_committed
primary.consumer.auto.offset.reset = latest
primary.consumer.fetch.max.wait.ms = 100
primary.consumer.max.poll.records = 5000
primary.linger.ms = 5
primary.admin.client.id = admin
backup.consumer.fetch.min.bytes = 1
backup.producer.compression.type = LZ4
backup.producer.linger.ms = 100
backup.producer.transaction.timeout.ms = 30000
backup.exactly.once.source.support = enabled
backup.offset.storage.replication.factor = 3
backup.topics = no
dedicated.mode.enable.internal.rest = true
listeners = http://localhost:8080
tasks.max = 10
tasks.max = 12
replication.factor = 3
refresh.topics.interval.seconds = 60
sync.topic.acls.enabled = false
sync.group.offsets.enabled = true
emit.heartbeats.enabled = true
offset-syncs.topic.replication.factor = 3
offset-syncs.topic.location = target
primary->backup.offset.lag.max = 10
offset.lag.max = 20
replication.policy.separator = _
replication.policy.class = org.apache.kafka.connect.mirror.DefaultReplicationPolicy
primary->backup.consumer.client.rack = r1
primary->backup.producer.override.max.request.size = 2000000
primary->backup.producer.acks = 1
primary->backup.source.consumer.fetch.min.bytes = 7
primary->nowhere.topics = x
consumer.fetch.min.bytes = 3
key.converter = org.apache.kafka.connect.converters.ByteArrayConverter
transforms = a
transforms.a.type = b
my.password = SECRET
"""

CONNECTORS = """
[{"name": "source", "config": {
  "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector", "name": "source",
  "source.cluster.alias": "primary", "target.cluster.alias": "backup",
  "source.cluster.bootstrap.servers": "p1:9092", "target.cluster.bootstrap.servers": "b1:9093",
  "source.cluster.security.protocol": "SSL",
  "source.cluster.ssl.truststore.type": "PEM", "source.cluster.ssl.truststore.location": "/etc/ca.pem",
  "source.cluster.ssl.key.password": "${directory:/mnt/secrets:key}",
  "target.cluster.sasl.mechanism": "OAUTHBEARER",
  "target.cluster.sasl.jaas.config": "a.OAuthBearerLoginModule required clientId='me' clientSecret='SECRET';",
  "target.cluster.sasl.oauthbearer.token.endpoint.url": "https://id.example/token",
  "topics": "orders,payments", "tasks.max": 4, "consumer.fetch.min.bytes": "100000", "topics": "orders",
  "producer.override.compression.type": "zstd", "producer.linger.ms": 1, "admin.request.timeout.ms": 5,
  "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
  "replication.policy.separator": "",
  "source.consumer.auto.offset.reset": "earliest", "errors.tolerance": "all", "refresh.topics.enabled": true,
  "offset.lag.max": 10, "exactly.once.support": "required", "source.admin.timeout.ms": 3}},
 {"name": "checkpoint", "config": {
  "connector.class": "MirrorCheckpointConnector",
  "source.cluster.alias": "primary", "target.cluster.alias": "backup",
  "source.cluster.bootstrap.servers": "p1:9092", "target.cluster.bootstrap.servers": "b1:9093",
  "groups": ".*", "tasks.max": 2, "consumer.fetch.min.bytes": 1, "sync.group.offsets.enabled": false}},
 {"name": "heartbeat", "config": {
  "connector.class": "MirrorHeartbeatConnector",
  "source.cluster.alias": "backup", "target.cluster.alias": "primary",
  "target.cluster.bootstrap.servers": "p1:9092", "emit.heartbeats.interval.seconds": 5}}]
"""

OLD_RESOURCE = """
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata:
  name: my-mm2
spec:
  version: 4.0.0
  replicas: 1
  connectCluster: cluster-b
  clusters:
  - alias: cluster-a
    bootstrapServers: a-bootstrap:9093
    authentication:
      type: scram-sha-512
      username: mirroring
      passwordSecret: {secretName: live-user, password: password}
    tls:
      trustedCertificates:
      - secretName: a-ca
        pattern: "*.crt"
      - {secretName: other, certificate: ca.crt}
  - alias: cluster-b
    bootstrapServers: b-bootstrap:9093
    tls: {}
    authentication:
      type: tls
      certificateAndKey: {secretName: b-user, certificate: user.crt, key: user.key}
    config:
      config.storage.replication.factor: -1
      producer.compression.type: lz4
  - {alias: cluster-c, bootstrapServers: "c:1"}
  mirrors:
  - sourceCluster: cluster-a
    targetCluster: cluster-b
    sourceConnector:
      tasksMax: 1
      autoRestart: {enabled: true}
      config:
        replication.factor: -1
        offset-syncs.topic.replication.factor: -1
        sync.topic.acls.enabled: "false"
        refresh.topics.interval.seconds: 600
        consumer.fetch.max.bytes: 20000000
    heartbeatConnector: {}
    checkpointConnector:
      config:
        checkpoints.topic.replication.factor: -1
        consumer.fetch.max.bytes: 1
    topicsPattern: "orders|payments"
    groupsPattern: ".*"
  resources: {requests: {cpu: "1"}}
"""

NEW_RESOURCE = """
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
metadata: {name: my-mm2}
spec:
  target:
    alias: b
    bootstrapServers: b:9092
    groupId: g
    configStorageTopic: c
    offsetStorageTopic: o
    statusStorageTopic: s
    tls: {trustedCertificates: [{secretName: b-ca, pattern: "*.crt"}]}
    authentication:
      type: custom
      sasl: true
      config:
        sasl.mechanism: PLAIN
        sasl.jaas.config: 'x.PlainLoginModule required username="u" password="${secrets:ns/user:pw}";'
  mirrors:
  - source:
      alias: a
      bootstrapServers: a:9092
      authentication:
        type: oauth
        clientId: me
        clientSecret: {secretName: s, key: k}
        tokenEndpointUri: https://id.example/token
        accessToken: {secretName: s, key: k}
    sourceConnector:
      state: running
      config: {sync.topic.configs.enabled: true}
    topicsExcludePattern: ".*-test"
"""

ALL = {"mm2.properties": FILE, "mm2.json": CONNECTORS, "old.yaml": OLD_RESOURCE, "new.yml": NEW_RESOURCE}
