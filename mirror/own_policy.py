"""A replication policy of the user's own: finds its class, asks MirrorMaker's four questions, checks each answer.

Only the service and the commands ask it. Spark's tasks get all names with the plan, and so need no code of the user's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Protocol

from mirror.errors import FlowError
from mirror.user_code import SHOWN, Imports, InTime, clean, described

TIMEOUT = 10.0  # seconds for all questions about one topic
KNOWN_MAX = 100_000  # topics of which a policy's answers are remembered: about 50 MB
HOPS_MAX = 100  # upstream topics of one topic

_NAME = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")  # a topic's name: Kafka's rule


class Questions(Protocol):
    """What a policy answers: MirrorMaker's ReplicationPolicy, with Python's names.

    The same question must always have the same answer.
    """

    def format_remote_topic(self, source: str, topic: str) -> str:
        """The remote topic of a topic of the cluster with the alias `source`."""

    def topic_source(self, topic: str) -> str | None:
        """The alias of the cluster that a remote topic was copied from; None if it is no remote topic, or not known."""

    def upstream_topic(self, topic: str) -> str | None:
        """The name that a remote topic has on that cluster; None if it is no remote topic, or not known."""

    def is_internal_topic(self, topic: str) -> bool:
        """True if the topic is never to be mirrored."""


QUESTIONS = [name for name in vars(Questions) if not name.startswith("_")]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a policy says of a source topic."""

    remote: str  # the remote topic; "" if there is a problem, or if the topic is not to be mirrored
    internal: bool = False
    cycle: bool = False  # it comes from the target
    problem: str | None = None  # why the answers can't be used


class _WrongAnswer(Exception):
    """An answer that can't be used."""


class OwnPolicy:
    """Asks a policy, and remembers what it has said. Any thread may use it."""

    def __init__(self, path: str, policy: Questions, timeout: float = TIMEOUT, known_max: int = KNOWN_MAX) -> None:
        """`path` is what messages call it, `timeout` is in seconds. It remembers `known_max` topics."""
        self._path = path
        self._policy = policy
        self._timeout = timeout
        self._known_max = known_max
        self._in_time: InTime[Judgement] = InTime("replication policy")
        self._known: dict[tuple[str, str, str], Judgement] = {}

    def judge(self, source: str, target: str, topic: str) -> Judgement:
        """What the policy says of a topic of `source`, for a flow to `target`; both are aliases.

        Raises FlowError if it does not answer in time.
        """
        known = self._known.get((source, target, topic))
        if known is not None:
            return known
        try:
            return self._in_time.run(lambda: self._remembered(source, target, topic), self._timeout)
        except TimeoutError:
            said = f"the replication policy {self._path} has not answered about {topic} within {self._timeout:g} s"
            raise FlowError(f"{said}; if that does not pass, correct it and start mirror again") from None

    def _remembered(self, source: str, target: str, topic: str) -> Judgement:
        """The judgement, from now on known. Only one thread at a time runs this."""
        asked = (source, target, topic)
        if asked not in self._known:
            while len(self._known) >= self._known_max:
                del self._known[next(iter(self._known))]  # the oldest
            self._known[asked] = self._judged(source, target, topic)
        return self._known[asked]

    def _judged(self, source: str, target: str, topic: str) -> Judgement:
        try:
            if self._is_internal(topic):
                return Judgement("", internal=True)
            if self._comes_from(target, topic):
                return Judgement("", cycle=True)
            return Judgement(self._remote_topic(source, topic))
        except _WrongAnswer as wrong:
            return Judgement("", problem=f"the replication policy {self._path} {wrong}")

    def _remote_topic(self, source: str, topic: str) -> str:
        remote = self._ask("format_remote_topic", source, topic)
        if type(remote) is not str or not _NAME.fullmatch(remote):
            raise _WrongAnswer(f"gives {_shown(remote)} as its remote topic, which is no name of a topic")
        if self._is_internal(remote):
            raise _WrongAnswer(f"gives {remote} as its remote topic, and calls that internal")
        origin, upstream = self._text("topic_source", remote), self._text("upstream_topic", remote)
        # A policy need not know where a name comes from. MirrorMaker's identity policy does not know it either.
        if origin not in (source, None) or upstream not in ((topic,) if origin else (topic, None)):
            raise _WrongAnswer(
                f"gives {remote} as its remote topic, but says that this is {_shown(upstream)} of {_shown(origin)}"
            )
        return remote

    def _comes_from(self, cluster: str, topic: str) -> bool:
        """True if the topic, or a topic further upstream, comes from this cluster: MirrorSourceConnector.isCycle."""
        for _ in range(HOPS_MAX):
            origin = self._text("topic_source", topic)
            if origin is None or origin == cluster:
                return origin is not None
            upstream = self._text("upstream_topic", topic)
            if upstream is None or upstream == topic:
                return False
            topic = upstream
        raise _WrongAnswer(f"has more than {HOPS_MAX} upstream topics for it")

    def _is_internal(self, topic: str) -> bool:
        answer = self._ask("is_internal_topic", topic)
        if type(answer) is not bool:
            raise _WrongAnswer(f"answers is_internal_topic with {_shown(answer)}, neither True nor False")
        return answer

    def _text(self, question: str, topic: str) -> str | None:
        answer = self._ask(question, topic)
        if answer is not None and type(answer) is not str:  # a class of the user's may compare as it likes
            raise _WrongAnswer(f"answers {question} with {_shown(answer)}, neither a text nor None")
        return answer

    def _ask(self, question: str, *about: str) -> Any:
        try:
            return getattr(self._policy, question)(*about)
        except BaseException as error:
            raise _WrongAnswer(f"fails in {question}: {described(error)}") from None


def _shown(answer: object) -> str:
    """An answer as messages show it. Only texts are shown, because another object's own code would run."""
    return repr(answer[:SHOWN]) if type(answer) is str else "None" if answer is None else clean(type(answer).__name__)


def _made(path: str, found: Any) -> OwnPolicy | str:
    """The policy, or why there is none."""
    if not isinstance(found, type):
        module, _, name = path.rpartition(".")
        return f"{module} has no class {name}"
    made: Any = found()
    lacking = [question for question in QUESTIONS if not callable(getattr(made, question, None))]
    return f"it has no method {', '.join(lacking)}" if lacking else OwnPolicy(path, made)


# Imports a policy's class, and makes one object of it.
_imports: Imports[OwnPolicy] = Imports("replication policy", _made, must=", and the class be made without arguments")
load = _imports.load
