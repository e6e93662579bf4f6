"""How the plan that follows another one is made. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mirror import decode
from mirror.control.plan import Lineage, Plan, Topics
from mirror.control.slices import Slice
from mirror.control.task_settings import TaskSettings
from mirror.control.throttle_shares import Load, divided
from mirror.model import Topic
from mirror.settings import TopicSettings


def next_generation(previous: Plan | None) -> int:
    """The generation of the plan that follows `previous`.

    Only somebody else writes the highest one that can be decoded. After it mirror counts from 1 again.
    """
    return previous.generation % decode.INT64_MAX + 1 if previous else 1


def next_plan(
    previous: Plan | None,
    service_id: str,
    topics: Topics,
    dealt: tuple[Slice, ...],
    restarts: int,
    load: Load,
    lineage: Lineage,
    remote_ids: Mapping[str, str],
    renew_interval: float,
    task_settings: TaskSettings,
    mark_group: str | None = None,
) -> Plan:
    """The plan that follows `previous`: `topics`, `dealt` to slices, by the flow leader in this service.

    `restarts` is the Dealer's. `remote_ids` has the ids of the target's topics by name. `mark_group` is the group of
    the positions of a flow with the mark; None: it has no mark.
    """
    before = previous.throttle_parts if previous else {}
    return Plan(
        service_id=service_id,
        generation=next_generation(previous),
        topics=merge_initial_partitions(topics, previous, task_settings.topic_settings),
        slices=dealt,
        restarts=restarts,
        retired=retire(topics, previous, remote_ids),
        renew_interval=renew_interval,
        clusters=lineage.clusters,
        origins=lineage.origins,
        task_settings=task_settings,
        throttle_parts=divided(task_settings.throttles, dealt, load, before),
        active_active=mark_group is not None,
        unmarked={} if mark_group is None else unmarked(previous, remote_ids),
        group=mark_group or "",
        configs_from=lineage.configs_from,
    )


def unmarked(previous: Plan | None, remote_ids: Mapping[str, str]) -> dict[str, str]:
    """The remote topics, with their ids, to which `previous` or a plan before it has copied without the mark.

    A topic leaves the list only when a topic with its name and another id is seen. One that is not seen stays.
    """
    if previous is None:
        return {}
    without = {} if previous.active_active else {t.remote: t.remote_id for t in previous.known.values()}
    ids = {name: (then, remote_ids.get(name, "")) for name, then in sorted({**previous.unmarked, **without}.items())}
    return {name: then or now for name, (then, now) in ids.items() if then == now or "" in (then, now)}


def merge_initial_partitions(
    topics: Topics, previous: Plan | None, own: Mapping[str, TopicSettings]
) -> dict[str, Topic]:
    """Carry `initial_partitions`, how many partitions begin at the flow's `start`, over from the previous plan.

    Without a previous plan, the values in `topics` stay; so does that of a new topic with a `start` in `own`. A known
    topic keeps its previous value. Every other new topic gets 0, and so does a topic whose id or remote topic has
    changed: otherwise, with `start: latest`, its copy would begin with a gap.
    """
    if previous is None:
        return dict(topics)

    def initial(name: str, topic: Topic) -> int:
        before, settings = previous.known.get(name), own.get(name)
        if before is None:
            return topic.initial_partitions if settings is not None and settings.start is not None else 0
        return before.initial_partitions if (before.topic_id, before.remote) == (topic.topic_id, topic.remote) else 0

    return {name: replace(topic, initial_partitions=initial(name, topic)) for name, topic in topics.items()}


def retire(topics: Topics, previous: Plan | None, remote_ids: Mapping[str, str]) -> dict[str, Topic]:
    """All topics that `previous` knew, active or retired, and that `topics` lacks, if their remote topics still exist.

    A remote topic with another id than in the plan is another topic. `remote_ids` has the target's topic ids by name.
    """
    before = previous.known if previous else {}
    return {
        name: topic
        for name, topic in before.items()
        if name not in topics and topic.remote_id and remote_ids.get(topic.remote) == topic.remote_id
    }
