"""Which of the source's topics a flow mirrors, and why the others are not: of all topics together. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mirror.naming import ReplicationPolicy

MOVED = (
    "its replication policy now gives another name than that of its copy: correct the policy, or set the topic's "
    "remote_topic in topic_settings, to the name of its copy or, to copy it anew, to another one"
)

LeftOut = Mapping[str, Sequence[str]]  # by reason: the source topics that are not copied


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """What a flow makes of the source's topics."""

    remotes: Mapping[str, str]  # of the topics that are mirrored: the remote topic of each
    left_out: LeftOut  # what `topics` matches but a rule leaves out
    unnamed: LeftOut  # what can't be mirrored, because the remote topic can't have its name


def select_topics(
    policy: ReplicationPolicy, topics: Iterable[str], holders: Callable[[], Mapping[str, str]], always: bool = False
) -> TopicSelection:
    """Select the topics to mirror. Of several topics that would share a remote topic, only its holder is mirrored.

    `holders` gives by remote topic the source topic whose copy it has. Without `always` it is called only if topics may
    share one, or if a policy of the user's own names some: commands would have to read it. But a remote topic may also
    have the copy of a topic that had its name by a setting that is gone. Raises FlowError if the policy does not
    answer.
    """
    topics = sorted(topics)
    problems = {topic: policy.name_problem(topic) for topic in topics if policy.is_chosen(topic)}
    remotes = {topic: policy.remote_topic(topic) for topic, problem in problems.items() if problem is None}
    may_share = always or policy.may_share or len(set(remotes.values())) < len(remotes)
    unnamed: dict[str, list[str]] = {}
    held = holders() if may_share else {}
    asked = {topic: remote for topic, remote in remotes.items() if policy.is_asked(topic)}
    for topic, problem in [*problems.items(), *(_sharing(remotes, held) | _moved(asked, held)).items()]:
        if problem is not None:
            unnamed.setdefault(problem, []).append(topic)
    lacking = {topic for some in unnamed.values() for topic in some}
    named = {topic: remote for topic, remote in remotes.items() if topic not in lacking}
    return TopicSelection(named, left_out_topics(policy, topics), unnamed)


def _sharing(remotes: Mapping[str, str], held: Mapping[str, str]) -> dict[str, str]:
    """The topics that can't be mirrored because another one has their remote topic, or wants it; and why."""
    wanting: dict[str, list[str]] = {}
    for topic, remote in remotes.items():
        wanting.setdefault(remote, []).append(topic)
    found: dict[str, str] = {}
    for remote, some in wanting.items():
        holder = held.get(remote)
        if holder is not None:
            why = f"its remote topic would be {remote}, which holds the copy of {holder}"
            found |= {topic: why for topic in some if topic != holder}
        elif len(some) > 1:
            found |= dict.fromkeys(some, f"they would share the remote topic {remote}; give each of them another one")
    return found


def _moved(remotes: Mapping[str, str], held: Mapping[str, str]) -> dict[str, str]:
    """Of these topics, those whose copies are under other names; and why they can't be mirrored.

    To copy such a topic anew, or to stop copying it, is nothing that a change in somebody's code may decide.
    """
    copies = {topic: remote for remote, topic in held.items()}
    return {topic: MOVED for topic, remote in remotes.items() if copies.get(topic, remote) != remote}


def left_out_topics(policy: ReplicationPolicy, topics: Iterable[str]) -> dict[str, list[str]]:
    """The source topics that `topics` matches but that are not copied: by reason, their sorted names."""
    found: dict[str, list[str]] = {}
    for topic in sorted(topics):
        reason = policy.left_out(topic)
        if reason is not None:
            found.setdefault(reason, []).append(topic)
    return found
