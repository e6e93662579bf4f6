"""A replication policy of the user's own: its answers are checked, and remembered."""

from __future__ import annotations

import itertools
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mirror.errors import FlowError
from mirror.own_policy import HOPS_MAX, OwnPolicy, load
from tests.harness.waiting import PATIENCE

SECRET = "s3cret"


class Dashes:
    """Names remote topics `primary--orders`."""

    def format_remote_topic(self, source: str, topic: str) -> str:
        return f"{source}--{topic}"

    def topic_source(self, topic: str) -> str | None:
        return topic.split("--", 1)[0] if "--" in topic else None

    def upstream_topic(self, topic: str) -> str | None:
        return topic.split("--", 1)[1] if "--" in topic else None

    def is_internal_topic(self, topic: str) -> bool:
        return topic.startswith("__")


class Other(Dashes):
    """One answer is another one."""

    def __init__(self, question: str, answer: Callable[..., object]) -> None:
        setattr(self, question, answer)


class Unfriendly:
    """What must not be shown: its text is code of the user's."""

    def __repr__(self) -> str:
        raise AssertionError


class Text(str):
    """A text that compares as it likes."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


class Drastic(BaseException):
    """An error that `except Exception` does not catch."""


def fails(*_: str) -> None:
    raise RuntimeError(SECRET)


def ends(*_: str) -> None:
    raise SystemExit(SECRET)


def ends_all(*_: str) -> None:
    raise Drastic(SECRET)


def made(question: str, answer: Callable[..., object]) -> OwnPolicy:
    """A policy of which one answer is another one."""
    return OwnPolicy("own.Other", Other(question, answer))


def test_a_policy_names_topics_and_tells_internal_ones_and_cycles() -> None:
    policy = OwnPolicy("own.Dashes", Dashes())
    assert policy.judge("primary", "backup", "orders").remote == "primary--orders"
    assert policy.judge("primary", "backup", "__state").internal
    assert policy.judge("primary", "backup", "backup--orders").cycle
    assert policy.judge("primary", "backup", "other--backup--orders").cycle
    assert policy.judge("primary", "backup", "other--orders").remote == "primary--other--orders"


@pytest.mark.parametrize(
    ("question", "answer", "words"),
    [
        ("format_remote_topic", lambda *_: None, "gives None as its remote topic, which is no name"),
        ("format_remote_topic", lambda *_: "x" * 250, "which is no name of a topic"),
        ("format_remote_topic", lambda *_: "a/b", "gives 'a/b' as its remote topic"),
        ("format_remote_topic", lambda *_: "..", "which is no name of a topic"),
        ("format_remote_topic", lambda *_: "a\nb", r"gives 'a\nb' as its remote topic"),
        ("format_remote_topic", lambda *_: Unfriendly(), "gives Unfriendly as its remote topic"),
        ("format_remote_topic", lambda *_: Text("orders"), "gives Text as its remote topic"),
        ("format_remote_topic", lambda *_: "__x", "calls that internal"),
        ("format_remote_topic", lambda *_: "other--orders", "says that this is 'orders' of 'other'"),
        ("format_remote_topic", lambda: "x", "fails in format_remote_topic: TypeError at the call"),
        ("format_remote_topic", fails, "fails in format_remote_topic: RuntimeError at test_own_policy.py:"),
        ("format_remote_topic", ends, "fails in format_remote_topic: SystemExit at test_own_policy.py:"),
        ("is_internal_topic", ends_all, "fails in is_internal_topic: Drastic at test_own_policy.py:"),
        ("topic_source", lambda *_: 1, "answers topic_source with int, neither a text nor None"),
        ("is_internal_topic", lambda *_: "no", "neither True nor False"),
    ],
)
def test_a_wrong_answer_is_told_and_gives_no_remote_topic(
    question: str, answer: Callable[..., object], words: str
) -> None:
    found = made(question, answer).judge("primary", "backup", "orders")
    assert found.remote == ""
    assert found.problem is not None
    assert words in found.problem
    assert SECRET not in found.problem
    assert len(found.problem) < 300 and "\n" not in found.problem


def test_topics_that_come_from_ever_further_away_end() -> None:
    policy = Dashes()
    policy.topic_source = lambda topic: "other"  # type: ignore[method-assign]
    policy.upstream_topic = lambda topic: topic + "x"  # type: ignore[method-assign]
    found = OwnPolicy("own.Endless", policy).judge("primary", "backup", "orders")
    assert found.problem is not None
    assert f"more than {HOPS_MAX}" in found.problem


def counting() -> tuple[Dashes, Callable[[], int]]:
    """A policy, and how many remote topics it was asked for."""
    policy, numbers, asked = Dashes(), itertools.count(1), [0]

    def remote(source: str, topic: str) -> str:
        asked[0] = next(numbers)
        return f"{source}--{topic}"

    policy.format_remote_topic = remote  # type: ignore[method-assign]
    return policy, lambda: asked[0]


def test_an_answer_is_asked_for_once() -> None:
    policy, asked = counting()
    own = OwnPolicy("own.Counting", policy)
    assert own.judge("primary", "backup", "orders") == own.judge("primary", "backup", "orders")
    assert asked() == 1


def test_of_too_many_answers_the_oldest_are_forgotten() -> None:
    policy, asked = counting()
    own = OwnPolicy("own.Counting", policy, known_max=2)
    for topic in ("a", "b", "c", "b", "c"):
        own.judge("primary", "backup", topic)
    assert asked() == 3
    own.judge("primary", "backup", "a")
    assert asked() == 4


def policy_threads() -> int:
    """How many threads run code of a policy."""
    return sum(thread.name == "replication policy" for thread in threading.enumerate())


def test_a_policy_that_hangs_is_told_of_has_one_thread_and_is_asked_again_once_it_goes_on() -> None:
    goes_on = threading.Event()
    before = policy_threads()

    def answer(topic: str) -> bool:
        if topic == "slow":
            goes_on.wait()
        return False

    own = OwnPolicy("own.Hanging", Other("is_internal_topic", answer), timeout=0.2)
    try:
        for topic in ("slow", *(f"topic-{number}" for number in range(30))):
            with pytest.raises(FlowError, match=rf"own\.Hanging has not answered about {topic} within 0.2 s"):
                own.judge("primary", "backup", topic)
        assert policy_threads() == before + 1
    finally:
        goes_on.set()
    for thread in threading.enumerate():
        if thread.name == "replication policy":
            thread.join(10)
    assert policy_threads() == 0
    own._timeout = PATIENCE
    assert own.judge("primary", "backup", "orders").remote == "primary--orders"
    assert own.judge("primary", "backup", "slow").remote == "primary--slow"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Makes a module of this text that can be imported, and returns its name."""
    monkeypatch.syspath_prepend(tmp_path)
    names = (f"policy_of_a_test_{number}" for number in itertools.count())
    used = []

    def write(text: str) -> str:
        used.append(next(names))
        (tmp_path / f"{used[-1]}.py").write_text(text)
        return used[-1]

    yield write
    for name in used:
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "{module} has no class Policy"),
        ("def Policy(): pass", "{module} has no class Policy"),
        ("class Policy: pass", "it has no method format_remote_topic, topic_source, upstream_topic, is_internal_topic"),
        ("import no_such_module_anywhere", "there is no module no_such_module_anywhere; it must be on PYTHONPATH"),
        (f"\nraise RuntimeError('{SECRET}')", "RuntimeError at {module}.py:2 (its text may hold a secret"),
        (f"raise SystemExit('{SECRET}')", "SystemExit at {module}.py:1"),
        (f"x = '{SECRET}\n", "SyntaxError at {module}.py:1"),
        (f"class Policy:\n def __init__(self):\n  raise OSError('{SECRET}')", "OSError at {module}.py:3"),
        ("class Policy:\n def __init__(self, one): pass", "TypeError at the call"),
    ],
)
def test_a_class_that_is_no_policy_is_refused(module: Callable[[str], str], text: str, problem: str) -> None:
    name = module(text)
    with pytest.raises(ValueError, match=re.escape(problem.format(module=name))) as raised:
        load(f"{name}.Policy")
    assert SECRET not in str(raised.value)


def test_an_import_that_takes_too_long_is_refused_and_starts_no_second_thread(module: Callable[[str], str]) -> None:
    goes_on = threading.Event()
    sys.modules["goes_on_of_a_test"] = goes_on  # type: ignore[assignment]
    name = module("import sys\nsys.modules['goes_on_of_a_test'].wait()\nclass Policy: pass")
    before = policy_threads()
    try:
        for _ in range(3):
            with pytest.raises(ValueError, match=r"taken more than 0\.05 s"):
                load(f"{name}.Policy", timeout=0.05)
        assert policy_threads() == before + 1
    finally:
        goes_on.set()
        del sys.modules["goes_on_of_a_test"]
    for thread in threading.enumerate():
        if thread.name == "replication policy":
            thread.join(10)
    with pytest.raises(ValueError, match="it has no method"):
        load(f"{name}.Policy")


def test_a_class_is_loaded_once() -> None:
    assert load("tests.unit.test_own_policy.Dashes") is load("tests.unit.test_own_policy.Dashes")


def test_the_example_of_the_documents_is_a_policy(module: Callable[[str], str]) -> None:
    text = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    found = re.search(r"^```python\n(class Dashes:.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found
    policy = load(f"{module(found[1])}.Dashes")
    assert policy.judge("primary", "backup", "orders").remote == "primary--orders"
    assert policy.judge("primary", "backup", "_state").internal
    assert policy.judge("primary", "backup", "other--backup--orders").cycle
