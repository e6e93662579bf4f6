"""The table of settings of Kafka Connect's workers, and of Strimzi's resource. Pure data."""

from __future__ import annotations

from mirror.commands.convert.setting import NO_GROUP, Setting

S = Setting

NO_WORKERS = "mirror has no Connect workers"
NO_STORAGE = "mirror keeps positions in a group on the target, and its plan on a topic there"
ADOPT_TOPIC = "mirror adopt needs another name than MirrorMaker's own as --offsets-topic"
ADOPT_GROUP = "mirror adopt needs another one than <source>-mm2 as --worker-group"
RAW = "mirror copies keys, values and headers as the bytes that they are"
NO_REST = "mirror has no REST interface; its pages are at http.host and http.port"
OFFSETS = "mirror status --partitions shows the positions, and mirror resume --at changes one"
HALTED = (
    "a stopped or paused sourceConnector: give the order with mirror pause before you start mirror, or take the flow "
    "out; a checkpointConnector becomes groups.checkpoints: false, and a heartbeatConnector no heartbeats"
)
DEPLOYMENT = "it describes the deployment: deploy/chart is mirror's"

CONNECT = (
    S(
        "group.id",
        "<source>-mm2",
        "not needed",
        "",
        "no consumer joins a group; flows[].group names the group that holds the positions; " + ADOPT_GROUP,
    ),
    S(
        "client.id",
        "",
        "not needed",
        "clusters.<alias>.client.id",
        "it names the workers' clients; mirror's are called mirror",
    ),
    S("key.converter", "ByteArrayConverter", "not needed", "", RAW),
    S("key.converter.*", "", "not needed", "", RAW),
    S("value.converter", "ByteArrayConverter", "not needed", "", RAW),
    S("value.converter.*", "", "not needed", "", RAW),
    S("header.converter", "ByteArrayConverter", "not needed", "", RAW),
    S("header.converter.*", "", "not needed", "", RAW),
    S("internal.*", "", "not needed", "", NO_WORKERS),
    S("offset.storage.topic", "mm2-offsets.<source>.internal", "not needed", "", f"{NO_STORAGE}; {ADOPT_TOPIC}"),
    S("offset.storage.*", "", "not needed", "", NO_STORAGE),
    S("offsets.storage.topic", "", "not needed", "", f"{NO_STORAGE}; {ADOPT_TOPIC}"),
    S("config.storage.*", "", "not needed", "", NO_STORAGE),
    S("status.storage.*", "", "not needed", "", NO_STORAGE),
    S("listeners", "", "not needed", "", NO_REST),
    S("listeners.*", "", "not needed", "", NO_REST),
    S("rest.*", "", "not needed", "", NO_REST),
    S("admin.listeners", "", "not needed", "", NO_REST),
    S("admin.listeners.*", "", "not needed", "", NO_REST),
    S("access.control.*", "", "not needed", "", NO_REST),
    S("response.http.*", "", "not needed", "", NO_REST),
    S("plugin.path", "", "not needed", "", "mirror has no plugins"),
    S("plugin.discovery", "", "not needed", "", "mirror has no plugins"),
    S(
        "connector.client.config.override.policy",
        "All",
        "not needed",
        "",
        "consumer and producer of a cluster hold its clients' properties",
    ),
    S("rebalance.timeout.ms", "60000", "not needed", "", "mirror's tasks do not rebalance"),
    S("scheduled.rebalance.max.delay.ms", "300000", "not needed", "", "mirror's tasks do not rebalance"),
    S("session.timeout.ms", "10000", "not needed", "", NO_GROUP),
    S("heartbeat.interval.ms", "3000", "not needed", "", NO_GROUP),
    S("connect.protocol", "sessioned", "not needed", "", NO_WORKERS),
    S("inter.worker.*", "", "not needed", "", NO_WORKERS),
    S("worker.*", "", "not needed", "", NO_WORKERS),
    S("task.shutdown.graceful.timeout.ms", "5000", "not needed", "drain_timeout", "mirror's drain_timeout is 10s"),
    S("task.*", "", "not needed", "", NO_WORKERS),
    S("topic.tracking.*", "", "not needed", "", NO_WORKERS),
    S("bootstrap.servers", "", "same", "clusters.<alias>.bootstrap.servers"),
)

STRIMZI = (
    S("apiVersion", "", "not needed", "", "it says what the resource is"),
    S("kind", "", "not needed", "", "it says what the resource is"),
    S("metadata", "", "not needed", "", DEPLOYMENT),
    S("status", "", "not needed", "", "Strimzi writes it"),
    S(
        "spec.version",
        "",
        "not needed",
        "",
        "mirror does not run Kafka's own code; mirror check tells whether the brokers are new enough",
    ),
    S("spec.replicas", "3", "not needed", "", "one service runs a flow; Spark places its tasks"),
    S("spec.connectCluster", "", "not needed", "", NO_WORKERS),
    S("spec.metricsConfig", "", "not needed", "", "mirror serves /metrics for Prometheus by itself"),
    S("spec.logging", "", "not needed", "log", "mirror's log has a level and a format"),
    S("spec.tracing", "", "not possible", "", "mirror sends no traces"),
    S("spec.rack", "", "not possible", "", "write client.rack of the source cluster's consumer yourself"),
    S(
        "spec.jvmOptions",
        "",
        "not needed",
        "spark.conf",
        "the tasks are Python; spark.driver.memory is the JVM's memory",
    ),
    S("spec.externalConfiguration", "", "not needed", "", DEPLOYMENT),
    S("spec.image", "", "not needed", "", DEPLOYMENT),
    S("spec.resources", "", "not needed", "", DEPLOYMENT),
    S("spec.livenessProbe", "", "not needed", "", DEPLOYMENT),
    S("spec.readinessProbe", "", "not needed", "", DEPLOYMENT),
    S("spec.jmxOptions", "", "not needed", "", "mirror serves /metrics for Prometheus by itself"),
    S("spec.clientRackInitImage", "", "not needed", "", "it is for spec.rack"),
    S("spec.template", "", "not needed", "", DEPLOYMENT),
    S("spec.target.groupId", "", "not needed", "", f"{NO_WORKERS}; {ADOPT_GROUP}"),
    S("spec.target.configStorageTopic", "", "not needed", "", NO_STORAGE),
    S("spec.target.offsetStorageTopic", "", "not needed", "", f"{NO_STORAGE}; {ADOPT_TOPIC}"),
    S("spec.target.statusStorageTopic", "", "not needed", "", NO_STORAGE),
    S("<cluster>.alias", "", "same", "clusters"),
    S("<cluster>.bootstrapServers", "", "renamed", "clusters.<alias>.bootstrap.servers"),
    S(
        "<cluster>.tls.trustedCertificates",
        "",
        "renamed",
        "clusters.<alias>.ssl.ca.pem",
        "the certificate comes from an environment variable that the pod gets from the secret",
    ),
    S(
        "<cluster>.authentication",
        "",
        "renamed",
        "clusters.<alias>.sasl.*",
        "tls, plain, scram-sha-256, scram-sha-512 and oauth with a client's secret; no other type",
    ),
    S("<mirror>.topicsPattern", ".*", "renamed", "flows[].topics"),
    S("<mirror>.topicsExcludePattern", "", "renamed", "flows[].exclude"),
    S("<mirror>.topicsBlacklistPattern", "", "renamed", "flows[].exclude"),
    S("<mirror>.groupsPattern", ".*", "renamed", "flows[].groups.include"),
    S("<mirror>.groupsExcludePattern", "", "renamed", "flows[].groups.exclude"),
    S("<mirror>.groupsBlacklistPattern", "", "renamed", "flows[].groups.exclude"),
    S(
        "<mirror>.heartbeatConnector",
        "",
        "not needed",
        "",
        "it writes heartbeats to the target, and only a flow from there copies them; mirror writes them to the source "
        "with heartbeats: {enabled: true}",
    ),
    S("<connector>.tasksMax", "1", "not needed", "", "mirror makes as many Spark tasks as spark.master gives cores"),
    S("<connector>.autoRestart", "", "not needed", "", "mirror starts what has failed again"),
    S("<connector>.pause", "false", "not possible", "", "paused, as if state said it; state takes precedence"),
    S("<connector>.state", "running", "not possible", "", HALTED),
    S("<connector>.version", "", "not needed", "", "mirror has no plugins"),
    S("<connector>.listOffsets", "", "not needed", "", OFFSETS),
    S("<connector>.alterOffsets", "", "not needed", "", OFFSETS),
)
