"""What plan and check say of transforms."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mirror.commands.check.command import _transforms
from mirror.commands.plan.as_text import _transformed
from mirror.settings import TopicSettings
from tests.unit.test_naming import flow

SHOP = "tests.transforms.shop_transforms"


def test_plan_lists_the_topics_of_each() -> None:
    topics = {"a": "shop.f", "b": None, "c": "shop.g", "d": "shop.f"}
    partitions = [SimpleNamespace(topic=topic, transform=path) for topic, path in topics.items() for _ in range(2)]
    found: Any = SimpleNamespace(partitions=partitions)
    assert _transformed(found) == [
        "  shop.f drops or changes records of a, d",
        "  shop.g drops or changes records of c",
    ]


def test_check_imports_each() -> None:
    own = {"t": TopicSettings(None, None, None, None, None, "no_such_module.f")}
    bad, good = _transforms(flow(transform=f"{SHOP}.same", topic_settings=own))
    assert (good.what, good.outcome, good.said) == ("transforms", "OK", f"{SHOP}.same can be imported")
    assert (bad.outcome, bad.scope) == ("FAILED", "primary->backup")
    assert bad.said == "the transform no_such_module.f can't be used: there is no module no_such_module"
    assert bad.remedy == "it must be on PYTHONPATH"
    assert not list(_transforms(flow()))
