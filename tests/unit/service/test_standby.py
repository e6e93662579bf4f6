"""When a standby takes over, and when a leader gives no signs of life."""

from __future__ import annotations

import pytest

from mirror.control.control_reader import ControlReader
from mirror.control.signs import SIGN_KEY, Sign
from mirror.decode import DecodeError
from mirror.service.life_signs import SourceSilence, sign_of
from mirror.service.listener import Vigil
from mirror.settings import Flow
from mirror.status.flow_status import FlowStatus
from mirror.timing import SOURCE_PATIENCE
from tests.unit.control.test_control_reader import Log, flow, topic  # noqa: F401  # fixtures

AFTER = 10.0


def over(vigil: Vigil, heard: object, at: float) -> bool:
    """A reading that took no time."""
    return vigil.note(heard, at, at) >= AFTER


def test_a_standby_waits_from_its_first_reading() -> None:
    vigil = Vigil()
    assert not over(vigil, 1, 100.0)
    assert not over(vigil, 1, 109.9)
    assert over(vigil, 1, 110.0)


def test_each_sign_of_life_starts_the_count_anew() -> None:
    vigil = Vigil()
    assert not any(over(vigil, at // 2, float(at)) for at in range(100))
    assert not over(vigil, 49, 107.9)
    assert over(vigil, 49, 108.0)


def test_a_flow_that_has_never_run_is_taken_over_as_well() -> None:
    vigil = Vigil()
    assert not over(vigil, "no control topic", 0.0)
    assert over(vigil, "no control topic", AFTER)


def test_silence_does_not_count_while_the_standby_hears_nothing_because_of_itself() -> None:
    vigil = Vigil()
    assert not over(vigil, 1, 0.0)
    assert not over(vigil, None, 9.0)
    assert not any(over(vigil, None, float(at)) for at in range(10, 100))
    assert not over(vigil, 1, 100.0), "the first reading after the cut proves nothing of the time before it"
    assert not over(vigil, 1, 109.0)
    assert over(vigil, 1, 110.0)


def test_a_reading_proves_nothing_of_the_time_after_it_began() -> None:
    vigil = Vigil()
    assert not over(vigil, 1, 0.0)
    assert vigil.note(1, 2.0, 60.0) < AFTER, "the process was suspended in the middle of it"
    assert not over(vigil, 2, 60.5)


def test_a_standby_that_was_suspended_between_two_readings_hears_first() -> None:
    living, dead = Vigil(), Vigil()
    assert not over(living, 1, 0.0) and not over(dead, 1, 0.0)
    assert not over(living, 2, 60.0)
    assert over(dead, 1, 60.0)


def test_a_leader_gives_signs_until_its_source_was_silent_for_long() -> None:
    silence = SourceSilence()
    assert not silence.is_long(None, 0.0) and not silence.is_long(False, 1.0)
    assert not silence.is_long(True, 5.0), "one look without an answer proves nothing"
    assert not silence.is_long(False, 10.0)
    assert not silence.is_long(False, 9.9 + SOURCE_PATIENCE)
    assert silence.is_long(False, 10.0 + SOURCE_PATIENCE)
    assert not silence.is_long(True, 11.0 + SOURCE_PATIENCE)


def test_a_sign_is_read_back_and_a_strange_one_is_refused() -> None:
    sign = Sign("1f", "mirror-0")
    assert Sign.decode(sign.encode()) == sign
    assert Sign.decode(sign_of("1f", waits=True)).waits
    assert Sign.decode(b'{"service_id": "1f", "host": "mirror-0"}') == sign, "of an older mirror"
    for value in (b"", b"{}", b'{"leader": "1f", "host": 3}', b'{"leader": "1f", "host": "' + b"x" * 5000 + b'"}'):
        with pytest.raises(DecodeError):
            Sign.decode(value)


def test_every_sign_is_heard_also_one_of_a_newer_mirror(flow: Flow, topic: Log) -> None:  # noqa: F811
    reader = ControlReader(flow)
    for said in (Sign("1f", "mirror-0").encode(), Sign("1f", "mirror-0").encode(), b"of a later format"):
        before = reader.signs.count
        topic.entries.append((SIGN_KEY, said))
        reader.read_to_end()
        assert reader.signs.count == before + 1
    assert reader.signs.last == Sign("1f", "mirror-0")


def test_a_flow_says_that_it_stands_by_until_it_starts() -> None:
    status = FlowStatus("a", "b", "me")
    status.stand_by("the last sign of life is from mirror-0")
    assert status.state == "standby" and "mirror-0" in status.problem
    status.stand_by(None)
    assert status.state == "starting"
