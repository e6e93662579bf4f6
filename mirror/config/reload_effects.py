"""Which keys take effect while the service runs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Effect(StrEnum):
    """When a changed key takes effect. The values complete "A change takes effect ..." in the reference."""

    RELOAD = "at a reload"
    PLAN = "at a reload, and in tasks with the next plan"
    NEW_TOPIC = "at the next start, or at the reload that brings the topic into the flow"
    START = "at the next start"


# By section, and by key as the file has it. Of a key that holds a section, the section says it.
EFFECTS: Mapping[str, Mapping[str, Effect]] = {
    "": {"drain_timeout": Effect.RELOAD},
    "clusters.<alias>": dict.fromkeys(("bootstrap.servers", "consumer", "producer", "token_provider"), Effect.START),
    "flows[]": {
        **dict.fromkeys(
            (
                "topics",
                "exclude",
                "replication_factor",
                "internal_replication_factor",
                "refresh_topics_interval",
                "tasks_max",
                "sync_topic_configs",
                "sync_topic_configs_interval",
                "exclude_configs",
                "use_defaults_from",
                "sync_acls",
                "sync_acls_interval",
            ),
            Effect.RELOAD,
        ),
        # Those of control/task_settings.py.
        **dict.fromkeys(
            (
                "throttle",
                "transaction_linger_max",
                "producer_idle_timeout",
                "open_transaction_warn_after",
                "append_to_existing",
                "data_path",
                "on_data_loss",
                "on_poison_record",
            ),
            Effect.PLAN,
        ),
        **dict.fromkeys(
            (
                "source",
                "target",
                "group",
                "replication_policy",
                "remote_topic",
                "separator",
                "start",
                "offset_lag_max",
                "compression",
                "batch_max_records",
                "batch_max_bytes",
                "transaction_timeout",
                "transaction_threads",
                "producers_max",
                "exactly_once",
                "active_active",
                "accept_log_append_time",
                "transform",
            ),
            Effect.START,
        ),
    },
    "flows[].topic_settings.<topic>": {
        **dict.fromkeys(("remote_topic", "start"), Effect.NEW_TOPIC),
        **dict.fromkeys(("on_data_loss", "on_poison_record", "throttle"), Effect.PLAN),
        "transform": Effect.START,
    },
    "flows[].groups": dict.fromkeys(("sync", "checkpoints", "include", "exclude", "interval"), Effect.RELOAD),
    # Heartbeats have names of their own: to switch them on could give a topic that is copied another remote topic.
    "flows[].heartbeats": {"enabled": Effect.START, "interval": Effect.RELOAD},
    # The canary's topic is never copied under another name, so there is nothing that switching it on could move.
    "flows[].canary": dict.fromkeys(("enabled", "interval"), Effect.RELOAD),
    "flows[].mirrormaker_offsets": dict.fromkeys(("enabled", "topic", "connector"), Effect.RELOAD),
    "spark": dict.fromkeys(("master", "conf"), Effect.START),
    "http": dict.fromkeys(("host", "port", "tls_certificate", "tls_key", "username", "password"), Effect.START),
    "metrics": {"labels": Effect.START},
    "metrics.otlp": {"endpoint": Effect.START, "interval": Effect.RELOAD, "headers": Effect.START},
    "log": {"level": Effect.PLAN, "format": Effect.START},
}
