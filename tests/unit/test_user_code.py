"""Code of the user's own: what of it hangs holds up nothing else."""

from __future__ import annotations

import threading

import pytest

from mirror.user_code import Imports
from tests.harness.waiting import PATIENCE


def test_a_module_that_hangs_holds_up_no_other() -> None:
    release = threading.Event()

    def make(path: str, _: object) -> tuple[str]:
        if path == "os.sep":
            release.wait(60)
        return (path,)

    imports = Imports("transform", make)
    with pytest.raises(ValueError, match=r"a transform has taken more than 0\.05 s"):
        imports.load("os.sep", 0.05)
    assert imports.load("json.dumps", PATIENCE) == ("json.dumps",)
    with pytest.raises(ValueError, match="correct its module"):  # at once: it is the same module
        imports.load("os.linesep", PATIENCE)
    release.set()
