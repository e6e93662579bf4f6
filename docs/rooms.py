"""Draws which room of the package imports which, from the code: `python docs/rooms.py` writes docs/rooms.svg.

A room is a folder of `mirror`, or a module beside the folders. The rows come from the contract in pyproject.toml, and
the lines from the imports. A test compares the picture with what is committed.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "rooms.svg"
PACKAGE = "mirror"

# The column of each room. Where a room stands is taste; what it imports is not. A room without a column stands at the
# right of the picture.
COLUMNS = {
    **dict.fromkeys(("cli", "demo", "commands", "spark", "task", "control", "kafka"), 3.0),
    **dict.fromkeys(("web", "status"), 5.0),
    "service": 4.0,
    "config": 2.0,
    "wire": 1.0,
    "batches": 0.0,
    "records": 1.5,
    "source": 2.5,
    "target": 3.5,
}
LAST_COLUMN = 6.0
WIDTH, HEIGHT = 92, 30  # of a box
ACROSS, DOWN = 116, 58  # from one column, and one row, to the next
MARGIN = 20

Imports = Mapping[str, set[str]]


def layers(pyproject: str) -> list[list[str]]:
    """The rooms of each layer, the top one first, as the contract on layers has them."""
    contracts = tomllib.loads(pyproject)["tool"]["importlinter"]["contracts"]
    (rows,) = (each["layers"] for each in contracts if each["type"] == "layers")
    return [row.split(" | ") for row in rows]


def imports(package: Path) -> dict[str, set[str]]:
    """The rooms that each room imports, late imports too."""
    found: dict[str, set[str]] = {}
    for path in sorted(package.rglob("*.py")):
        room = path.relative_to(package).with_suffix("").parts[0]
        if not room.startswith("__"):
            others = {name for name in _imported(path, package.name) if not name.startswith("__")}
            found[room] = found.get(room, set()) | others - {room}
    return found


def _imported(path: Path, package: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for root, *rest in (name.split(".") for name in names):
            if root == package and rest:
                yield rest[0]


def direct(found: Imports) -> dict[str, set[str]]:
    """The imports without those that another import reaches as well."""
    return {
        room: {each for each in others if not _reached(found, others - {each}, each)} for room, others in found.items()
    }


def _reached(found: Imports, begin: set[str], wanted: str) -> bool:
    waiting, seen = list(begin), set(begin)
    while waiting:
        new = found.get(waiting.pop(), set()) - seen
        seen |= new
        waiting += new
    return wanted in seen


def picture(package: Path, pyproject: str) -> str:
    """The picture as SVG."""
    rows = layers(pyproject)
    count = next(n for n in range(len(rows), 0, -1) if any((package / room).is_dir() for room in rows[n - 1]))
    rows, base = rows[:count], [room for row in rows[count:] for room in row]
    found = {room: others - set(base) for room, others in imports(package).items() if room not in base}
    place = {room: (COLUMNS.get(room, LAST_COLUMN), n) for n, row in enumerate(rows) for room in row}
    lines = [_line(place[room], place[other]) for room in place for other in sorted(direct(found)[room])]
    boxes = [_box(*_at(*place[room]), WIDTH, room) for room in place]
    columns = [column for column, _ in place.values()]
    left, right = min(columns), max(columns)
    width = 2 * MARGIN + (right - left) * ACROSS + WIDTH
    height = 2 * MARGIN + len(rows) * DOWN + HEIGHT
    x, y = _at(left, 0)[0] - WIDTH / 2 - MARGIN, -HEIGHT / 2 - MARGIN
    ground = _box(x + width / 2, len(rows) * DOWN, width - 2 * MARGIN, f"for all: {', '.join(sorted(base))}")
    return "\n".join([_HEAD.format(x=x, y=y, width=width, height=height), *lines, *boxes, ground, "</svg>", ""])


_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="{x:g} {y:g} {width:g} {height:g}" \
width="{width:g}" height="{height:g}" \
font-family="sans-serif" font-size="13" text-anchor="middle">
<title>Rooms of mirror. A line goes down from a room to one that it imports.</title>
<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto"><path d="M0,0 L8,4 L0,8 z" \
fill="#546e7a"/></marker></defs>
<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="white"/>"""


def _at(column: float, row: int) -> tuple[float, float]:
    return column * ACROSS, row * DOWN


def _box(x: float, y: float, width: float, text: str) -> str:
    left, top = x - width / 2, y - HEIGHT / 2
    box = f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{HEIGHT}" rx="4" fill="#eceff1" stroke="#546e7a"/>'
    return f'{box}<text x="{x:g}" y="{y + 4:g}" fill="#212121">{text}</text>'


def _line(begin: tuple[float, int], end: tuple[float, int]) -> str:
    """Straight to the next row; further down around the corner, so that no line goes through a box."""
    (x1, y1), (x2, y2) = _at(*begin), _at(*end)
    half = HEIGHT / 2
    middle = COLUMNS["task"] * ACROSS
    if x1 == x2 or end[1] == begin[1] + 1:
        path = f"M{x1:g},{y1 + half:g} L{x2:g},{y2 - half:g}"
    elif abs(x2 - middle) < abs(x1 - middle):
        side = WIDTH / 2 if x1 > x2 else -WIDTH / 2
        path = f"M{x1:g},{y1 + half:g} V{y2:g} H{x2 + side:g}"
    else:
        side = WIDTH / 2 if x2 > x1 else -WIDTH / 2
        path = f"M{x1 + side:g},{y1:g} H{x2:g} V{y2 - half:g}"
    return f'<path d="{path}" fill="none" stroke="#546e7a" marker-end="url(#tip)"/>'


if __name__ == "__main__":
    PICTURE.write_text(picture(ROOT / PACKAGE, (ROOT / "pyproject.toml").read_text()))
