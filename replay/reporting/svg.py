"""Drawing in SVG: scales with round ticks, and a frame that charts draw into.

A chart is a string that stands in a page by itself: no script, no font, no file beside it. Colours are the
page's variables, so that light and dark are the page's business. Every mark has a title that a pointer shows
and a screen reader reads.
"""

from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise
from math import ceil, floor, log10

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 14, 48

KEY_PX = 16
"""A line of the key below a chart, and the width of its mark."""

TICK_PX, CHAR_PX = 12, 6
"""Height of a tick's text, and the width of one of its letters, about."""

HUES = 6
"""Colours of the page, `--arm0` to `--arm5`; more arms begin again."""


def nice_ticks(top: float, most: int = 5) -> list[float]:
    """Round numbers from 0 to the first that is not below `top`."""
    if top <= 0:
        return [0.0, 1.0]
    raw = top / most
    size = 10.0 ** floor(log10(raw))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= raw * (1 - 1e-9))
    return [round(step * at, 10) for at in range(ceil(top / step - 1e-9) + 1)]


def number(value: float) -> str:
    """Short, as an axis says it."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"  # noqa: PLR2004 - where digits need a comma


class Frame:
    """A chart's plane: `x` and `y` take data to pixels; marks are added in order; below lie `keys` lines."""

    def __init__(self, title: str, x_max: float, y_max: float, height: int = HEIGHT, keys: int = 0) -> None:
        self.title, self.base = title, height - BOTTOM
        self.height = height + KEY_PX * (keys + 0.5) if keys else height
        self.y_ticks = nice_ticks(y_max)
        self._x_max, self._y_max = x_max or 1.0, self.y_ticks[-1]
        self._parts: list[str] = []

    def __repr__(self) -> str:
        return f"<Frame {self.title!r} {len(self._parts)} parts>"

    def x(self, value: float) -> float:
        return round(LEFT + value / self._x_max * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        return round(self.base - value / self._y_max * (self.base - TOP), 1)

    def add(self, tag: str, text: str = "", title: str = "", **attributes: object) -> None:
        """One element; underscores in names stand for dashes."""
        told = "".join(f' {name.replace("_", "-")}="{escape(str(one))}"' for name, one in attributes.items())
        inner = (f"<title>{escape(title)}</title>" if title else "") + escape(text)
        self._parts.append(f"<{tag}{told}>{inner}</{tag}>")

    def line(
        self,
        points: Sequence[tuple[float, float]],
        *,
        hue: str,
        title: str = "",
        width: float = 1.5,
        dash: str = "",
    ) -> None:
        path = " ".join(f"{self.x(x)},{self.y(y)}" for x, y in points)
        self.add(
            "polyline",
            title=title,
            points=path,
            fill="none",
            stroke=hue,
            stroke_width=width,
            stroke_dasharray=dash or "none",
        )

    def label(self, x: float, y: float, text: str, *, anchor: str = "middle", kind: str = "tick") -> None:
        """Text at pixels."""
        self.add("text", text, x=round(x, 1), y=round(y, 1), text_anchor=anchor, **{"class": kind})

    def y_axis(self, name: str) -> None:
        for tick in self.y_ticks:
            at = self.y(tick)
            self.add("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, **{"class": "grid"})
            self.label(LEFT - 6, at + 4, number(tick), anchor="end")
        self.label(LEFT, TOP - 3, name, anchor="start", kind="axis")

    def x_axis(self, name: str, ticks: Iterable[tuple[float, str]]) -> None:
        marks = [(self.x(value), text) for value, text in ticks]
        rows = 2 if _crowded(marks) else 1
        for place, (x, text) in enumerate(marks):
            self.label(x, self.base + (21 if rows == 1 else 17) + TICK_PX * (place % rows), text)
        self.label((LEFT + WIDTH - RIGHT) / 2, self.base + BOTTOM - 6, name, kind="axis")

    def key(self, place: int, text: str, *, hue: str, dash: str = "", width: float = 1.5) -> None:
        """One line of the key: a stroke as the chart has it, and what it stands for."""
        y = self.base + BOTTOM + KEY_PX * (place + 0.5)
        self.add(
            "line",
            x1=LEFT,
            x2=LEFT + KEY_PX,
            y1=y,
            y2=y,
            stroke=hue,
            stroke_width=width,
            stroke_dasharray=dash or "none",
        )
        self.label(LEFT + KEY_PX + 6, y + 4, text, anchor="start")

    def svg(self) -> str:
        head = f'<svg viewBox="0 0 {WIDTH} {self.height}" role="img" aria-label="{escape(self.title)}">'
        return f"{head}<title>{escape(self.title)}</title>{''.join(self._parts)}</svg>"


def _crowded(marks: Sequence[tuple[float, str]]) -> bool:
    """Whether texts centred at these pixels would run into each other."""
    return any(
        (len(one) + len(other)) / 2 * CHAR_PX > right - left
        for (left, one), (right, other) in pairwise(marks)
    )


def hue(place: int) -> str:
    return f"var(--arm{place % HUES})"
