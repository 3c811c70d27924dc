"""Real files as text that is not corrupted: windows of 2,000 characters, judged as finished answers.

Files of a machine are no model's answers, but they are many, and harder: tables, dumps, generated code, test
data, catalogues in a hundred languages. Windows are drawn by a seed over all files of a class that are found,
no window twice; what is flagged is printed with the place it comes from, so that anybody can look. Windows
with U+FFFD or control characters hold the very marks of corruption (tables of charsets, pages for decoders to
fail on): they are counted apart and not as ordinary text.
"""

import random
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from replay.bench.interval import wilson
from service.core.events import Kind
from service.core.recorded import Rules, judge_text

WINDOW: Final = 2000
SHORTEST: Final = 300
CHARS_PER_TOKEN: Final = 4
FILE_BYTES_MAX: Final = 4_000_000
SKIPPED: Final = frozenset({"__pycache__", "proc", "sys", "dev"})
ROOTS: Final = (Path(sys.base_prefix), Path("/usr/share"), Path("/usr/lib"), Path("/usr/include"))
CLASSES: Final = {
    "python": (".py",), "javascript": (".js", ".mjs", ".cjs"), "c": (".c", ".h"), "json": (".json",),
    "csv": (".csv", ".tsv", ".tab"), "markdown": (".md", ".rst", ".txt"), "markup": (".html", ".xml", ".svg"),
    "locale": (".po", ".msg", ".desktop", ".templates"),
}  # fmt: skip
MARKED: Final = re.compile("[\ufffd\x00-\x08\x0e-\x1f]")
MARKED_CLASS: Final = "with U+FFFD or control characters"
LOCALES: Final = ("/i18n/", "/locale/", "/locales/")


class Window(NamedTuple):
    """A piece of a file."""

    cls: str
    path: Path
    number: int
    text: str


def class_of(path: Path) -> str:
    """What kind of file this is; "" for none that we read."""
    if any(part in str(path) for part in LOCALES):
        return "locale"
    return next((cls for cls, endings in CLASSES.items() if path.suffix.lower() in endings), "")


def files(roots: Sequence[Path]) -> dict[str, list[Path]]:
    """Every file of a class under these roots."""
    found: dict[str, list[Path]] = {cls: [] for cls in CLASSES}
    for root in roots:
        for path in root.rglob("*"):
            cls = class_of(path)
            if cls and SKIPPED.isdisjoint(path.parts) and not path.is_symlink() and path.is_file():
                found[cls].append(path)
    return {cls: sorted(set(paths)) for cls, paths in found.items() if paths}


def windows(found: dict[str, list[Path]], count: int, seed: int) -> Iterator[Window]:
    """So many windows, spread evenly over the classes as far as they have files."""
    rng = random.Random(seed)
    share = -(-count // len(found))
    for cls, paths in found.items():
        taken: set[tuple[Path, int]] = set()
        rng.shuffle(paths)
        for path in paths * 20:
            if len(taken) >= share:
                break
            window = _window(rng, cls, path)
            if window is not None and (path, window.number) not in taken:
                taken.add((path, window.number))
                yield window


def _window(rng: random.Random, cls: str, path: Path) -> Window | None:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            return None
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    number = rng.randrange(len(text) // WINDOW + 1)
    text = text[number * WINDOW : (number + 1) * WINDOW]
    return Window(cls, path, number, text) if len(text) >= SHORTEST else None


def score(rules: Rules, count: int, seed: int = 11, roots: Sequence[Path] = ROOTS) -> dict[str, Any]:
    """How many windows of each class are flagged, and how many that is in a million tokens."""
    seen: dict[str, list[int]] = {}
    for window in windows(files(roots), count, seed):
        row = seen.setdefault(MARKED_CLASS if MARKED.search(window.text) else window.cls, [0, 0, 0])
        verdict = judge_text(window.text, rules)
        row[0] += 1
        row[2] += len(window.text) // CHARS_PER_TOKEN
        if verdict.kind is not Kind.NORMAL:
            row[1] += 1
            print(f"flagged: {window.path} window {window.number}: {verdict.kind} ({verdict.detector})")
    marked = seen.pop(MARKED_CLASS, [0, 0, 0])
    total = [sum(column) for column in zip(*seen.values(), strict=True)] or [0, 0, 0]
    return {cls: _row(*row) for cls, row in {**seen, "all": total, MARKED_CLASS: marked}.items()}


def _row(count: int, flagged: int, tokens: int) -> dict[str, Any]:
    return {
        "windows": count,
        "flagged": flagged,
        "share_interval": wilson(flagged, count),
        "per_million_tokens": round(flagged / max(tokens, 1) * 1e6, 3),
    }
