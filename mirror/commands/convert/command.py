"""`mirror convert`: writes MirrorMaker 2's configuration as mirror's, and accounts for each of its keys."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mirror.commands.convert import msk, reading
from mirror.commands.convert.client_settings import P12, PEM, TO_P12, TO_PEM
from mirror.commands.convert.dedicated import CLUSTERS_MAX, FLOWS_MAX
from mirror.commands.convert.draft import SHOWN, Draft, Row
from mirror.commands.convert.entries import FORMS, FlowName, FlowScope, ParsedInput, Unreadable
from mirror.commands.convert.halted import WOULD_RUN
from mirror.commands.convert.setting import FATES, MISSING
from mirror.commands.convert.table import CONNECTORS
from mirror.commands.convert.united import united
from mirror.commands.convert.variables import Variable, Variables
from mirror.commands.convert.written import written
from mirror.commands.text_table import table
from mirror.config.load import load
from mirror.config.model import ClusterModel
from mirror.config.value_types import NAME
from mirror.errors import ConfigError
from mirror.settings import TOKEN_PROVIDER
from mirror.text import ABSENT, listed, plural, printable

# What MirrorMaker does if the file does not say otherwise, and mirror does not, or does in another way.
DEFAULTS = (
    "sync.topic.acls.enabled",
    "replication.factor",
    "offset-syncs.topic.location",
)


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result: our file, and the account."""

    kind: str
    text: str
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...]
    defaults: tuple[Row, ...]  # settings that the input does not have, and whose default mirror does not share
    problems: tuple[str, ...]  # what `mirror validate` will refuse

    @property
    def whole(self) -> bool:
        """True if everything that matters was carried."""
        return not self.problems and all(row.fate not in MISSING for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "input": self.kind,
            "whole": self.whole,
            "yaml": self.text,
            "keys": [asdict(row) for row in self.rows],
            "variables": [each._asdict() for each in self.variables],
            "defaults": [{"key": row.key, "fate": row.fate, "why": row.why} for row in self.defaults],
            "problems": list(self.problems),
        }


def convert(path: Path) -> Conversion:
    """Convert a file. Raises ConfigError if it can't be read, with the file, the line and what to do."""
    try:
        return _converted(path)
    except Unreadable as error:
        where = f"{path}:{error.line}" if error.line else str(path)
        raise ConfigError([printable(" ".join(f"{where}: {error}".split()))]) from None


def save(found: Conversion, path: Path, force: bool) -> None:
    """Write our file. Raises ConfigError if it exists and `force` is not given, or can't be written."""
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(found.text)
    except FileExistsError:
        raise ConfigError([f"--output {path}: the file exists; --force replaces it"]) from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigError([f"--output {path}: can't be written: {reason}"]) from None


def _converted(path: Path) -> Conversion:
    parsed = united(reading.read(path))
    if len(parsed.aliases) > CLUSTERS_MAX or len(parsed.flows) > FLOWS_MAX:
        raise Unreadable(f"more than {CLUSTERS_MAX} clusters or {FLOWS_MAX:,} flows: divide them among several files")
    for alias in parsed.aliases:
        if not NAME.fullmatch(alias) or len(alias) > 100:
            raise Unreadable(
                f'the alias "{alias:.100}" must be 1 to 100 letters, digits, dots, underscores and hyphens'
            )
    # A worker knows a connector's config providers, and the connector does not.
    draft = Draft(parsed, Variables(parsed.providers if parsed.form == "file" else None))
    draft.fill()
    _check_servers(parsed, draft)
    rows = tuple(sorted(draft.rows(), key=lambda row: row.line or 0))
    text = _text(path, parsed, draft, rows)
    return Conversion(
        FORMS[parsed.form][0],
        text,
        rows,
        tuple(draft.variables.needed),
        tuple(_defaults(parsed, draft)),
        tuple(_problems(text)),
    )


def _check_servers(parsed: ParsedInput, draft: Draft) -> None:
    for alias in parsed.aliases:
        found = draft.values.get(("clusters", alias, "bootstrap.servers"))
        if found is None:
            key = FORMS[parsed.form][1].replace("<alias>", alias)
            raise Unreadable(f"the cluster {alias} has no bootstrap servers: write {key}")
        put, key = found
        try:
            ClusterModel.model_validate({"bootstrap.servers": "a:1" if put.raw else put.value})
        except ValidationError:
            raise Unreadable(f"{key}: must be a comma-separated list of host:port, e.g. localhost:9092") from None


def _text(path: Path, parsed: ParsedInput, draft: Draft, rows: tuple[Row, ...]) -> str:
    head = [
        f"Converted by mirror convert from {path.name}, {FORMS[parsed.form][0]}.",
        "After each value stands the key that it comes from.",
    ]
    if draft.variables.needed:
        head += ["Set these environment variables before mirror starts:"]
        head += [f"  {each.name}: the value of {each.meaning}" for each in draft.variables.needed]
    refused = [row for row in rows if row.fate == "not possible"]
    if refused:
        head += [
            "Not carried, and a person has to decide (the account says why):",
            *(f"  {row.key}" + (f": {row.why}" if WOULD_RUN in row.why else "") for row in refused),
        ]
    return written(
        draft.values, parsed.aliases, parsed.flows, head, {a: _by_hand(a, draft, rows) for a in parsed.aliases}
    )


def _by_hand(alias: str, draft: Draft, rows: tuple[Row, ...]) -> list[str]:
    """The lines of a cluster that a person has to complete, as comments."""
    whys = {row.why for row in rows}
    region = f"{msk.CONFIG}: region=REGION # {msk.NO_REGION}"
    has_provider = ("clusters", alias, TOKEN_PROVIDER) in draft.values
    lines = {msk.CONFIG: region} if has_provider else {}
    protocol = draft.values.get(("clusters", alias, "security.protocol"))
    if protocol is not None and "SSL" in str(protocol[0].value):
        lines |= {"ssl.ca.location": f"ssl.ca.location: ca.pem # after {TO_PEM}"} if PEM in whys else {}
        lines |= {"ssl.keystore.location": f"ssl.keystore.location: client.p12 # after {TO_P12}"} if P12 in whys else {}
    return [text for name, text in lines.items() if ("clusters", alias, name) not in draft.values]


def _defaults(parsed: ParsedInput, draft: Draft) -> Iterator[Row]:
    for name, flows in _silent(parsed, draft).items():
        setting = CONNECTORS[name]
        where = f"for {_named(flows)}: " if len(flows) < len(parsed.flows) else ""
        why = f"{where}MirrorMaker's default is {setting.default}; {setting.why}"
        if flows:
            yield Row(name, None, setting.fate, setting.ours, why)
    if parsed.unchecked:
        where = f"no checkpoint connector for {_named(parsed.unchecked)} is in the input"
        said = f"{where}; mirror writes checkpoints all the same"
        yield Row("emit.checkpoints.enabled", None, "different", "flows[].groups.checkpoints", said)


def _silent(parsed: ParsedInput, draft: Draft) -> dict[str, list[FlowName]]:
    """The flows for which the input does not have a setting, by its name."""
    said = {(item.name, item.scope) for item in parsed.items if isinstance(item.scope, FlowScope)}
    silent = {name: [flow for flow in parsed.flows if (name, FlowScope(*flow)) not in said] for name in DEFAULTS}
    # Kafka Connect has heartbeats only if it has their connector.
    if parsed.form == "file":
        switch = ("heartbeats", "enabled")
        silent["emit.heartbeats.enabled"] = [f for f in parsed.flows if ("flows", f, *switch) not in draft.values]
    return silent


def _named(flows: Sequence[FlowName]) -> str:
    return listed(["->".join(flow) for flow in flows], SHOWN, ", ")


class _Environment(dict[str, str]):
    """Every variable is set, to itself."""

    def get(self, key: str, default: Any = None) -> Any:
        return key


def _problems(text: str) -> Iterator[str]:
    """What our own loader says of the flows. Files and variables may be elsewhere, so the clusters do not count."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mirror.yaml"
        path.write_text(text, encoding="utf-8")
        try:
            load(path, _Environment())
        except ConfigError as error:
            said = [problem.removeprefix(f"{path}:").partition(": ")[2] for problem in error.problems]
            yield from (each for each in said if not each.startswith("clusters"))


def shown(found: Conversion) -> str:
    """The account as text for people."""
    rows = sorted(found.rows, key=lambda row: -FATES.index(row.fate))
    parts = [
        table(("key", "line", "in mirror", "mirror's key", "why"), [_cells(row) for row in rows]),
        ", ".join(f"{sum(row.fate == fate for row in rows)} {fate}" for fate in reversed(FATES)),
    ]
    if found.defaults:
        lines = [f"  {row.key}: {row.fate}: {row.why}" for row in found.defaults]
        parts.append(
            "\n".join(["Not in the input, but on by default in MirrorMaker, or with another default:", *lines])
        )
    if found.variables:
        lines = [f"  {each.name}: the value of {printable(each.meaning)}" for each in found.variables]
        parts.append("\n".join(["Set these environment variables before mirror starts:", *lines]))
    if found.problems:
        lines = [f"  {printable(each)}" for each in found.problems]
        parts.append("\n".join(["mirror validate will refuse this until it is corrected:", *lines]))
    missing = sum(row.fate in MISSING for row in found.rows)
    parts.append(
        f"{plural(len(found.rows), 'key')} of {found.kind}; "
        + (
            f"{plural(missing, 'key')} not carried: see not possible and not there yet"
            if missing
            else "all that matters is carried"
        )
        + "; next: mirror validate, mirror check, mirror plan"
    )
    return "\n\n".join(parts)


def _cells(row: Row) -> tuple[str, str, str, str, str]:
    return (printable(row.key), str(row.line or ABSENT), row.fate, row.ours or ABSENT, row.why or ABSENT)
