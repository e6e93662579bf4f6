"""The table of MirrorMaker 2's own settings: its file, and its three connectors. Pure data.

The documentation's table is made from this one.
"""

from __future__ import annotations

from mirror.commands.convert.setting import NAMES, OWN_CLASS, OWN_TRANSFORM, Setting

S = Setting

NEVER_COPIED = (
    "mirror's list is empty by default; the keys of MirrorMaker's default list, and others that belong to a cluster, "
    "are never copied, whatever stands there"
)
FILE = (
    S("clusters", "", "same", "clusters", "the aliases are the keys of the mapping"),
    S("<cluster>.bootstrap.servers", "", "same", "clusters.<alias>.bootstrap.servers"),
    S("<source>-><target>.enabled", "false", "different", "flows[]", "an enabled flow is an entry of the list"),
    S("enabled", "", "different", "flows[]", "an enabled flow is an entry of the list"),
    S(
        "config.providers",
        "",
        "different",
        "",
        "mirror has ${env:NAME} and ${file:/path}; others become ${env:NAME}",
    ),
    S("config.providers.*", "", "different", "", "the class says how references are carried"),
    S(
        "dedicated.mode.enable.internal.rest",
        "false",
        "not needed",
        "",
        "mirror's tasks get their plan from a topic on the target",
    ),
)

COPYING = (
    S(
        "topics",
        ".*",
        "same",
        "flows[].topics",
        NAMES,
    ),
    S(
        "topics.exclude",
        r".*[\-\.]internal, .*\.replica, __.*",
        "renamed",
        "flows[].exclude",
        "the same default; names that begin with __ or . or end in -internal or .internal are never copied in either",
    ),
    S("topics.blacklist", "", "renamed", "flows[].exclude", "the old name of topics.exclude"),
    S(
        "topics.whitelist",
        "",
        "not possible",
        "flows[].topics",
        "MirrorMaker 2 has no such setting, it is of the first MirrorMaker; write topics",
    ),
    S(
        "topics.regex",
        "",
        "not possible",
        "flows[].topics",
        "it is for sink connectors, MirrorMaker 2 has no such setting; write topics",
    ),
    S(
        "topic.filter.class",
        "DefaultTopicFilter",
        "not possible",
        "flows[].topics",
        OWN_CLASS + "; the default filter is what topics and exclude do",
    ),
    S(
        "replication.policy.class",
        "DefaultReplicationPolicy",
        "renamed",
        "flows[].replication_policy",
        "default and identity; what another class does, the template remote_topic or a Python class of your own can do",
    ),
    S(
        "replication.policy.separator",
        ".",
        "renamed",
        "flows[].separator",
        "letters, digits, . _ and - only, as in topic names",
    ),
    S(
        "replication.policy.internal.topic.separator.enabled",
        "true",
        "not needed",
        "",
        "the names of mirror's own topics always have a dot",
    ),
    S(
        "replication.factor",
        "2",
        "renamed",
        "flows[].replication_factor",
        "mirror's default is -1, the target's own default",
    ),
    S(
        "offset-syncs.topic.replication.factor",
        "3",
        "renamed",
        "flows[].internal_replication_factor",
        "it holds for all of mirror's own topics on the target, the larger number counts; the default is -1",
    ),
    S(
        "offset-syncs.topic.location",
        "source",
        "different",
        "",
        "mirror always writes to the target, under MirrorMaker's name for that place; clients have to read it there",
    ),
    S(
        "emit.offset-syncs.enabled",
        "true",
        "not needed",
        "",
        "mirror always writes offset syncs, in the transaction of the records",
    ),
    S("offset.lag.max", "100", "renamed", "flows[].offset_lag_max"),
    S("refresh.topics.enabled", "true", "not needed", "", "mirror always looks for new topics and partitions"),
    S(
        "refresh.topics.interval.seconds",
        "600",
        "renamed",
        "flows[].refresh_topics_interval",
        "mirror's default is 10s",
    ),
    S(
        "consumer.poll.timeout.ms",
        "1000",
        "not needed",
        "",
        "mirror's consumers wait for the next record without a time-out",
    ),
    S(
        "admin.timeout.ms",
        "60000",
        "not needed",
        "",
        "mirror's time-outs of requests are fixed, and requests are repeated",
    ),
    S(
        "tasks.max",
        "1",
        "not needed",
        "flows[].tasks_max",
        "Spark gives as many tasks as spark.master has cores, and a task copies many partitions; tasks_max is a limit",
    ),
    S("tasks.max.enforce", "true", "not needed", "", "mirror never makes more tasks than tasks_max"),
    S(
        "exactly.once.source.support",
        "disabled",
        "renamed",
        "flows[].exactly_once",
        "mirror's default is true; the source is always read with read_committed",
    ),
    S("exactly.once.support", "requested", "renamed", "flows[].exactly_once", "mirror's default is true"),
    S(
        "transaction.boundary",
        "poll",
        "not needed",
        "",
        "batch_max_bytes and transaction_linger_max bound transactions; record by record also batch_max_records",
    ),
    S(
        "transaction.boundary.interval.ms",
        "",
        "not needed",
        "",
        "transaction_linger_max says how long a busy partition waits for its next transaction",
    ),
    S("offset.flush.interval.ms", "60000", "not needed", "", "mirror commits the position with each transaction"),
    S("offset.flush.timeout.ms", "5000", "not needed", "", "mirror commits the position with each transaction"),
)

SYNCING = (
    S("sync.topic.configs.enabled", "true", "renamed", "flows[].sync_topic_configs", "the same default"),
    S(
        "sync.topic.configs.interval.seconds",
        "600",
        "renamed",
        "flows[].sync_topic_configs_interval",
        "the same default; the first round comes as soon as a topic is copied",
    ),
    S(
        "config.properties.exclude",
        "replication throttles, min.insync.replicas and others",
        "different",
        "flows[].exclude_configs",
        NEVER_COPIED,
    ),
    S("config.properties.blacklist", "", "different", "flows[].exclude_configs", NEVER_COPIED),
    S("config.property.filter.class", "DefaultConfigPropertyFilter", "not possible", "", OWN_CLASS),
    S(
        "use.defaults.from",
        "target",
        "different",
        "flows[].use_defaults_from",
        "the same default; with source, values from the files of the source's brokers count, too, "
        "which MirrorMaker leaves alone",
    ),
    S(
        "use.incremental.alter.configs",
        "requested",
        "not needed",
        "",
        "mirror always alters single keys, and has no other way",
    ),
    S(
        "sync.topic.acls.enabled",
        "true",
        "different",
        "flows[].sync_acls",
        "mirror's default is false, because it needs Describe and Alter on the target's cluster; "
        "ACLs that would keep mirror from writing are not copied",
    ),
    S("sync.topic.acls.interval.seconds", "600", "renamed", "flows[].sync_acls_interval", "the same default"),
)

REST = (
    S(
        "add.source.alias.to.metrics",
        "false",
        "not needed",
        "",
        "mirror's metrics always have the labels source and target",
    ),
    S("metric.names.formats", "legacy", "not needed", "", "mirror's metrics have one form, for Prometheus"),
    S("forwarding.admin.class", "ForwardingAdmin", "not possible", "", OWN_CLASS + "; mirror creates topics itself"),
    S("transforms", "", "not possible", "", OWN_TRANSFORM),
    S("transforms.*", "", "not possible", "", OWN_TRANSFORM),
    S("predicates", "", "not possible", "", OWN_TRANSFORM),
    S("predicates.*", "", "not possible", "", OWN_TRANSFORM),
    S("errors.retry.timeout", "0", "not needed", "", "mirror tries again without a limit"),
    S("errors.retry.delay.max.ms", "60000", "not needed", "", "mirror has a back-off of its own"),
    S(
        "errors.tolerance",
        "none",
        "different",
        "flows[].on_poison_record",
        "all is skip: the record is passed over, logged and counted; dead_letter also keeps it",
    ),
    S("errors.log.enable", "false", "not needed", "", "mirror logs every record that it can't copy"),
    S("errors.log.include.messages", "false", "not needed", "", "mirror never logs what a record holds"),
    S("errors.*", "", "not needed", "", "see on_poison_record"),
    S(
        "config.action.reload",
        "restart",
        "not needed",
        "",
        "mirror follows its files while it runs, and files with passwords and certificates",
    ),
    S("topic.creation.*", "", "not needed", "", "mirror creates remote topics itself"),
    S("connector.class", "", "not needed", "", "one flow does what the three connectors do"),
    S("connector.plugin.version", "", "not needed", "", "mirror has no plugins"),
    S("name", "", "not needed", "", "a flow's name is <source>-><target>; mirror adopt needs it as --connector"),
    S("source.cluster.alias", "source", "renamed", "flows[].source", "the alias is a key of clusters, too"),
    S("target.cluster.alias", "target", "renamed", "flows[].target", "the alias is a key of clusters, too"),
    S("task.assigned.*", "", "not needed", "", "Connect writes it for its tasks"),
    S("task.index", "", "not needed", "", "Connect writes it for its tasks"),
)

ROWS = (*FILE, *COPYING, *SYNCING, *REST)
