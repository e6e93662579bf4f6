"""Numbers, durations and times as people read them."""

from __future__ import annotations

import pytest

from mirror.text import ABSENT, byte_rate, count, duration, listed, moment, number, plural, rate, size, time_of_day


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ABSENT),
        (0.00042, "0.4 ms"),
        (0.0099, "9.9 ms"),
        (0.00999, "10 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.0 s"),
        (59.6, "60 s"),
        (100, "2 min"),
        (5969, "99 min"),
        (5971, "2 h"),
        (400_000, "5 d"),
    ],
)
def test_a_duration_has_two_or_three_digits_and_its_unit(value: float | None, text: str) -> None:
    assert duration(value) == text


def test_rates_and_sizes_keep_a_decimal_only_where_it_tells_something() -> None:
    assert [rate(value) for value in (0, 0.44, 9.96, 12345.6)] == ["0/s", "0.4/s", "10/s", "12,346/s"]
    rates = [byte_rate(value) for value in (0, 999, 1500, 12_345_678, 5e9)]
    assert rates == ["0 B/s", "999 B/s", "1.5 kB/s", "12 MB/s", "5.0 GB/s"]
    assert size(5_400_000_000_000) == "5,400.0 GB"


def test_numbers_have_separators() -> None:
    assert [number(value) for value in (None, 1_234_567, 12.34, -99.96, 1234.5)] == [
        ABSENT,
        "1,234,567",
        "12.3",
        "-100.0",
        "1,234",
    ]
    assert [count(value) for value in (None, 1_234_567, 2.0)] == [ABSENT, "1,234,567", "2"]


def test_a_noun_follows_its_number() -> None:
    assert [plural(n, "partition") for n in (0, 1, 2, 1_000)] == [
        "0 partitions",
        "1 partition",
        "2 partitions",
        "1,000 partitions",
    ]
    assert (plural(1, "entry", "entries"), plural(2, "entry", "entries")) == ("1 entry", "2 entries")


def test_times_are_in_utc() -> None:
    assert time_of_day(1_700_042_401) == "10:00:01"
    assert moment(1_700_042_401) == "2023-11-15 10:00:01Z"


def test_a_long_list_is_cut() -> None:
    assert listed(["a", "b"], 2) == "a; b" and listed([], 2) == ""
    assert listed(["a", "b", "c"], 2, ", ") == "a, b, and 1 more"
    assert listed(["a"] * 1_002, 1, noun="key") == "a; and 1,001 more keys"
