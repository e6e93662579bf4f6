"""Templates of remote topics' names."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mirror.template import Template


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("{source}.{topic}", "us.orders"),
        ("{topic}", "orders"),
        ("eu-{topic}", "eu-orders"),
        ("{topic}_copy", "orders_copy"),
        ("{topic}.of.{source}", "orders.of.us"),
        ("a-{source}-b-{topic}-c", "a-us-b-orders-c"),
    ],
)
def test_names(text: str, name: str) -> None:
    assert Template.parse(text).name("us", "orders") == name


def test_what_stands_for_a_placeholder_is_no_placeholder() -> None:
    """No topic and no alias has braces, but nothing depends on that."""
    assert Template.parse("{source}.{topic}").name("{topic}", "{source}") == "{topic}.{source}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "must stand in it once"),
        ("{source}", "must stand in it once"),
        ("{topic}.{topic}", "must stand in it once"),
        ("{source}.{topic}.{source}", "only once"),
        ("{source}{topic}", "a text must stand between"),
        ("{topic}{source}", "a text must stand between"),
        ("{}.{topic}", 'no placeholder "{}"'),
        ("{Source}.{topic}", 'no placeholder "{Source}"'),
        ("{source }.{topic}", 'no placeholder "{source }"'),
        ("{source!r}.{topic}", "no placeholder"),
        ("{source.__class__}.{topic}", "no placeholder"),
        ("{{topic}}", "its texts must be made of"),
        ("{topic", "must stand in it once"),
        ("a}{topic}", "its texts must be made of"),
        ("a/{topic}", "its texts must be made of"),
        ("a {topic}", "its texts must be made of"),
        ("ä{topic}", "its texts must be made of"),
        ("a\n{topic}", "its texts must be made of"),
    ],
)
def test_bad_templates(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        Template.parse(text)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("text", "separator", "mirrormakers"),
    [
        ("{source}.{topic}", ".", True),
        ("{source}_to_{topic}", "_to_", True),
        ("{topic}", None, True),
        ("x{source}.{topic}", None, False),
        ("{source}.{topic}x", None, False),
        ("{topic}.{source}", None, False),
        ("eu-{topic}", None, False),
    ],
)
def test_which_names_a_policy_of_mirrormaker_gives(text: str, separator: str | None, mirrormakers: bool) -> None:
    template = Template.parse(text)
    assert (template.separator, template.is_mirrormakers) == (separator, mirrormakers)


NAMES = st.text("abc._-", min_size=1, max_size=12)
TEXTS = st.text("ab._-", max_size=3)
BETWEEN = st.text("ab._-", min_size=1, max_size=3)
ORDERS = st.sampled_from(["{source}|{topic}", "{topic}|{source}"])
WITH_SOURCE = st.builds(
    lambda order, before, between, after: before + order.replace("|", between) + after, ORDERS, TEXTS, BETWEEN, TEXTS
).map(Template.parse)


@given(WITH_SOURCE, NAMES, NAMES, st.lists(NAMES, max_size=3))
def test_a_name_shows_each_cluster_that_the_topic_came_from(
    template: Template, topic: str, first: str, later: list[str]
) -> None:
    name = template.name(first, topic)
    for alias in later:
        name = template.name(alias, name)
    for alias in (first, *later):
        assert template.shows(alias, name), "so no topic of that cluster is copied back"


@given(st.one_of(WITH_SOURCE, st.builds(lambda a, b: Template.parse(f"{a}{{topic}}{b}"), TEXTS, TEXTS)), NAMES, NAMES)
def test_two_topics_never_get_one_name(template: Template, one: str, other: str) -> None:
    assume(one != other)
    assert template.name("source", one) != template.name("source", other)


def test_a_name_shows_no_cluster_that_it_does_not_have() -> None:
    template = Template.parse("{topic}.of.{source}")
    assert not template.shows("us", "orders") and not template.shows("us", "orders.of.us2")
    assert not template.shows("us", "us.orders") and not template.shows("us", "of.us")
    assert template.shows("us", "orders.of.us") and template.shows("us", "orders.of.us.of.eu")
    assert not Template.parse("us-{topic}").shows("us", "us-orders"), "the text of a template is no alias"
