"""MirrorMaker's lists of topic names and regular expressions as mirror's. Pure."""

from __future__ import annotations

import re
import warnings

from mirror.naming import LITERAL

PATTERNS_MAX = 10_000

# Java knows these and Python does not, or each means something else.
_HINTS = {
    r"\\[pP]": r"write a set of characters such as [a-zA-Z] in place of \p{...}",
    r"\\[QE]": r"put a \ before each special character in place of \Q...\E",
    r"\(\?<[a-zA-Z]": "write (?:...) in place of a named group",
    r"&&|\[[^\]]*\[": "write one set of characters in place of sets within sets",
}


class BadPattern(Exception):
    """Java's regular expression can't be carried: which one, where, and what to do."""


def patterns(value: str) -> list[str]:
    """The elements of a comma-separated list, as MirrorMaker splits it. Raises BadPattern."""
    found = list(dict.fromkeys(each for each in (part.strip() for part in value.split(",")) if each))
    if len(found) > PATTERNS_MAX:
        raise BadPattern(f"more than {PATTERNS_MAX:,} elements: write regular expressions for what they have in common")
    for each in found:
        _check(each)
    return found


def widens(found: list[str]) -> bool:
    """True if MirrorMaker takes a name of the list for an expression: its `.` matches any character."""
    return any(LITERAL.fullmatch(each) and "." in each for each in found)


def _check(pattern: str) -> None:
    if "${" in pattern:
        raise BadPattern(f'"{pattern:.60}": a reference can\'t stand for a list: write the names that it holds')
    if pattern.count("{") != pattern.count("}"):
        raise BadPattern(
            f'"{pattern:.60}": {{ and }} do not match; MirrorMaker splits the list at every comma, also within {{1,3}}'
        )
    hint = next((text for form, text in _HINTS.items() if re.search(form, pattern)), "")
    try:
        with warnings.catch_warnings():
            # Python warns where Java's sets within sets would get another meaning.
            warnings.simplefilter("error", FutureWarning)
            re.compile(pattern)
    except re.error as error:
        at = 0 if error.pos is None else error.pos
        raise BadPattern(_refusal(pattern, error.msg, at, hint)) from None
    except FutureWarning as warning:
        said = str(warning)
        at = int(found[1]) if (found := re.search(r"at position (\d+)", said)) else 0
        raise BadPattern(_refusal(pattern, "a set of characters within another", at, hint)) from None
    except (OverflowError, RecursionError):
        raise BadPattern(_refusal(pattern, "too large", 0, hint)) from None


def _refusal(pattern: str, reason: str, at: int, hint: str) -> str:
    what = hint or "write it in a form that Python's re takes"
    return f'"{pattern:.60}" is no regular expression for Python: {reason} at position {at}; {what}'
