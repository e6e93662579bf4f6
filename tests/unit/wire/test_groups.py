"""Groups as a broker lists them."""

from __future__ import annotations

from mirror.wire.groups import LIST_GROUPS
from tests.harness.recorded import answers


def test_a_real_broker_s_answer_is_read() -> None:
    (answer,) = [each for each in answers() if each.request.api is LIST_GROUPS]
    found, _ = answer.request.decode(answer.version, memoryview(answer.data))
    assert not found.error and set(found.types.values()) == {"classic"}
