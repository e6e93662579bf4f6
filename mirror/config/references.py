"""Resolves `${...}` references, and limits what the files of a configuration may stand for together."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from mirror.watched_files import SIZE_MAX, content_of, secret_of

# Limited, since ten lines of aliases inside aliases can stand for billions of values.
ALIASED_MAX = 100_000  # values that an alias or flow_defaults repeats
REFERRED_MAX = 16 * 2**20  # characters of all values with references

ALIASES = (
    f"aliases repeat this and other values more than {ALIASED_MAX:,} times; an alias must not be inside a value that "
    "many others repeat"
)

_REFERENCE = re.compile(r"(?P<escape>\$\$\{)|\$\{(?P<body>[^}]*)(?P<end>\}?)")


class TooMuch(Exception):
    """The files stand for more values than anybody writes on purpose."""

    def __init__(self, text: str, line: int | None = None) -> None:
        super().__init__(text)
        self.line = line


class Budget:
    """What is left of the limits. Files that belong together share it, so that many are no way around a limit."""

    def __init__(self) -> None:
        self._size = SIZE_MAX
        self._repeated = ALIASED_MAX
        self._referred = REFERRED_MAX

    def text(self, path: Path) -> str:
        """A file's text. Raises OSError, UnicodeDecodeError, and ValueError for a file that is too large."""
        found = content_of(path, self._size, "" if self._size == SIZE_MAX else " together with the files before it")
        self._size -= len(found)
        return found.decode("utf-8")

    def repeat(self, values: int, text: str, line: int | None = None) -> None:
        """Count values that are repeated. Raises TooMuch with the `text`."""
        self._repeated -= values
        if self._repeated < 0:
            raise TooMuch(text, line)

    def refer(self, characters: int) -> None:
        """Count the characters of a value with references. Raises TooMuch."""
        self._referred -= characters
        if self._referred < 0:
            raise TooMuch(f"the values with ${{...}} are larger than {REFERRED_MAX:,} characters together")


def reason(error: OSError | ValueError | OverflowError) -> str:
    """Why a file can't be read, in a few words."""
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8 text"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


class References:
    """Resolves `${env:NAME}` and `${file:/path}`; `$${` stands for a plain `${`."""

    def __init__(self, folder: Path, environ: Mapping[str, str], budget: Budget) -> None:
        self._folder = folder
        self._environ = environ
        self._budget = budget

    def resolve(self, value: str, secret: bool, complain: Callable[[str], None]) -> str:
        """Replace the references in `value`. Each that can't be resolved becomes empty, and `complain` gets the reason.

        A reason names variables and files, but nothing else of a `secret` value. Raises TooMuch.
        """

        def replace(match: re.Match[str]) -> str:
            if match["escape"]:
                return "${"
            provider, colon, name = match["body"].partition(":")
            if match["end"] and name and provider in ("env", "file"):
                return self._env(name, complain) if provider == "env" else self._file(name, complain)
            known = re.fullmatch("[a-z]+", provider) and colon and match["end"] and not secret
            wrong = f'unknown provider "{provider}"' if known and name else "malformed reference"
            complain(f"{wrong}; allowed are ${{env:NAME}} and ${{file:/path}}, and $${{ for a plain ${{")
            return ""

        resolved = _REFERENCE.sub(replace, value)
        self._budget.refer(len(resolved))
        return resolved

    def file(self, value: str) -> Path | None:
        """The file whose text the value is; None if the value is anything but one `${file:...}`."""
        match = _REFERENCE.fullmatch(value)
        provider, _, name = (match["body"] or "").partition(":") if match else ("", "", "")
        return self._folder / name if match and match["end"] and provider == "file" and name else None

    def _env(self, name: str, complain: Callable[[str], None]) -> str:
        value = self._environ.get(name)
        if value is None:
            complain(f"environment variable {name} is not set")
        return value or ""

    def _file(self, name: str, complain: Callable[[str], None]) -> str:
        path = self._folder / name
        try:
            if path.exists() and not path.is_file():  # to open a pipe could take for ever
                raise ValueError("not a regular file")
            return secret_of(path)
        except (OSError, ValueError) as error:
            complain(f"file {name} can't be read: {reason(error)}")
            return ""
