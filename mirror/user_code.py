"""Code of the user's own, which the configuration names by a dotted path: imported and called with care.

It may hang, so it gets time limits. It may raise anything, and the texts of its errors may hold secrets or parts of
records, so they are never shown.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from traceback import walk_tb
from typing import Any, Generic, TypeVar

_Answer = TypeVar("_Answer")

PATH = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+", re.ASCII)  # my_package.my_module.name

IMPORT_TIMEOUT = 60.0  # seconds
SHOWN = 60  # characters of a text of the user's code that are shown

_FOLDER = str(Path(__file__).parent)
_NOT_THEIRS = (
    import_module.__code__.co_filename,
    *(f"{_FOLDER}/{name}.py" for name in ("user_code", "own_policy", "transform", "token_provider")),
)  # files of the frames that lead to the user's code


class InTime(Generic[_Answer]):
    """Runs the user's code with a time limit. One run at a time: a thread that hangs can't be ended.

    So while one hangs, no second one is started, and nobody waits again.
    """

    def __init__(self, name: str) -> None:
        """`name` is what its threads are called."""
        self._name = name
        self._lock = threading.Lock()
        self._hangs = False

    @property
    def is_busy(self) -> bool:
        """True while a run has not ended, also one that nobody waits for any more."""
        return self._lock.locked()

    def run(self, what: Callable[[], _Answer], timeout: float) -> _Answer:
        """What `what` returns; it must not raise anything. Raises TimeoutError after so many seconds."""
        if not self._lock.acquire(timeout=0 if self._hangs else timeout):
            raise TimeoutError
        found: list[_Answer] = []

        def work() -> None:
            try:
                found.append(what())
            finally:
                self._hangs = False
                self._lock.release()

        thread = threading.Thread(target=work, daemon=True, name=self._name)
        try:
            thread.start()
        except RuntimeError:  # the machine has no thread left
            self._lock.release()
            raise
        thread.join(timeout)
        if not found:
            self._hangs = thread.is_alive()
            raise TimeoutError
        return found[0]


class Imports(Generic[_Answer]):
    """Imports what dotted paths name, each once in a process. Any thread may use it."""

    def __init__(self, what: str, make: Callable[[str, Any], _Answer | str], must: str = "") -> None:
        """`make` gets a path and what was found there, and returns what `load` does, or why that is not possible.

        `what` and `must` are for people: what is imported, and what it must be besides importable.
        """
        self._what = what
        self._make = make
        self._must = must
        self._in_time: dict[str, InTime[_Answer | str]] = {}  # by module: one that hangs holds up no other
        self._loaded: dict[str, _Answer] = {}

    def load(self, path: str, timeout: float = IMPORT_TIMEOUT) -> _Answer:
        """What was made of the path, from the first call on the same.

        Raises ValueError with the reason if that is not possible, or takes longer than `timeout` seconds.
        """
        if path not in self._loaded:
            in_time = self._in_time.setdefault(path.rpartition(".")[0], InTime(self._what))
            try:
                made = in_time.run(lambda: self._made(path), timeout)
            except TimeoutError:
                said = f"to import a {self._what} has taken more than {timeout:g} s; correct its module"
                raise ValueError(said) from None
            if isinstance(made, str):
                raise ValueError(made)
            self._loaded.setdefault(path, made)
        return self._loaded[path]

    def _made(self, path: str) -> _Answer | str:
        module, _, name = path.rpartition(".")
        try:
            return self._make(path, getattr(import_module(module), name, None))
        except ModuleNotFoundError as error:
            return f"there is no module {clean(str(error.name))}; it must be on PYTHONPATH"
        except BaseException as error:
            return f"{described(error)}; its module must be importable{self._must}"


def of_callable(make: Callable[[str, Callable[..., Any]], _Answer]) -> Callable[[str, Any], _Answer | str]:
    """What Imports needs for paths of callables: it makes something of each, or says that there is none."""

    def made(path: str, found: Any) -> _Answer | str:
        if callable(found):
            return make(path, found)
        module, _, name = path.rpartition(".")
        return f"{module} has no callable {name}; correct the name"

    return made


def described(error: BaseException) -> str:
    """The class of an error of the user's code, and the line of the code that was called where it was raised.

    Its text is left out: nobody knows whether it holds a secret.
    """
    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    places = [(file, line) for file, line in frames if file not in _NOT_THEIRS and not file.startswith("<frozen")]
    if not places and isinstance(error, SyntaxError) and type(error.filename) is str and type(error.lineno) is int:
        # Their module itself can't be compiled. If their code has run, a SyntaxError of it may name anything.
        places = [(error.filename, error.lineno)]
    # Where it was raised may be in a library.
    own = [line for file, line in places if file == places[0][0]]
    where = f"{clean(Path(places[0][0]).name)}:{own[-1]}" if places else "the call"
    return f"{clean(type(error).__name__)} at {where} (its text may hold a secret, so it is not shown)"


def clean(text: str) -> str:
    """A text of the user's code as one line of limited length."""
    return "".join(char if char.isprintable() else "?" for char in text[:SHOWN])
