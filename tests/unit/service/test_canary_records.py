"""Which canaries have arrived, by the leader's own clock, whatever others write to the topic."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.decode import DecodeError
from mirror.service.canary_records import VALUE_MAX, WAITING_MAX, Arrival, CanaryFlights, CanaryRecord


class Clocks:
    """Two clocks that tests set: the time of day, and one that never goes back."""

    def __init__(self) -> None:
        self.now, self.passed = 1_000.0, 0.0

    def flights(self) -> CanaryFlights:
        return CanaryFlights(lambda: self.now, lambda: self.passed)


def test_a_record_that_arrives_has_its_time_and_its_way() -> None:
    clocks = Clocks()
    flights = clocks.flights()
    value = flights.next()
    clocks.now, clocks.passed = 500.0, 2.5  # somebody has set the clock back meanwhile
    assert flights.waits == 2.5
    assert flights.arrived(value) == Arrival(1_000.0, 2.5) and flights.waits == 0
    assert flights.arrived(value) is None, "copied twice, as without transactions, or read again"


def test_the_newest_counts_and_those_before_it_are_not_waited_for() -> None:
    clocks = Clocks()
    flights = clocks.flights()
    values = []
    for passed in range(4):
        clocks.now, clocks.passed = 1_000.0 + passed, float(passed)
        values.append(flights.next())
    assert flights.waits == 3
    assert flights.arrived(values[2]) == Arrival(1_002.0, 1.0)
    assert flights.arrived(values[1]) is None, "it is older"
    assert flights.waits == 0 and flights.arrived(values[3]) == Arrival(1_003.0, 0.0)


def test_what_never_arrives_is_forgotten() -> None:
    flights = Clocks().flights()
    first, second = flights.next(), flights.next()
    for _ in range(WAITING_MAX - 1):
        flights.next()
    assert flights.arrived(first) is None and flights.arrived(second) is not None


def test_only_records_of_this_leader_count() -> None:
    flights, earlier = Clocks().flights(), Clocks().flights()
    mine, other = flights.next(), earlier.next()
    assert flights.arrived(other) is None
    run = json.loads(mine)["run"]
    assert flights.arrived(CanaryRecord(run, 2).encode()) is None, "it was not written yet"
    assert flights.arrived(mine) is not None


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{}",
        b"[1]",
        b"\xff",
        b'{"run": "a", "number": -1}',
        b'{"run": "a", "number": true}',
        b'{"run": "a", "number": 1.0}',
        b'{"run": ["a"], "number": 1}',
        b'{"run": "\\u0000", "number": 1}',
        b'{"run": "a", "number": NaN}',
        b'{"run": "a", "number": ' + b"1" * 5_000 + b"}",
        json.dumps({"run": "a", "number": 1, "more": "x" * VALUE_MAX}).encode(),
    ],
)
def test_what_is_no_canary_is_malformed(value: bytes) -> None:
    with pytest.raises(DecodeError):
        Clocks().flights().arrived(value)


@given(st.binary(max_size=200))
def test_whatever_stands_there_is_decoded_or_malformed(value: bytes) -> None:
    flights = Clocks().flights()
    flights.next()
    try:
        assert flights.arrived(value) is None
    except DecodeError:
        assert flights.waits == 0, "no time has passed"
