"""Drawing: round ticks, marks at their places, text that cannot break out."""

from xml.etree import ElementTree as ET

import pytest

from replay.reporting.svg import Frame, hue, nice_ticks, number


@pytest.mark.parametrize(
    ("top", "ticks"),
    [
        (0, [0, 1]),
        (10, [0, 2, 4, 6, 8, 10]),
        (0.37, [0, 0.1, 0.2, 0.3, 0.4]),
        (4321, [0, 1000, 2000, 3000, 4000, 5000]),
    ],
)
def test_ticks_are_round_and_reach_the_top(top: float, ticks: list[float]) -> None:
    assert nice_ticks(top) == ticks


def test_numbers_are_short() -> None:
    assert [number(value) for value in (0.0, 1.23456, 999.4, 12345.6)] == ["0", "1.23", "999", "12,346"]


def test_a_frame_is_well_formed_and_keeps_text_in_its_place() -> None:
    frame = Frame('a "title" <b>', 10, 7)
    frame.y_axis("things & more")
    frame.x_axis("time", [(0, "0"), (10, "<10>")])
    frame.line([(0, 0), (10, 7)], hue=hue(7), title="<script>")
    root = ET.fromstring(frame.svg())  # noqa: S314 - our own
    texts = [one.text for one in root.iter("text")]
    assert "<10>" in texts
    assert "things & more" in texts
    (line,) = root.iter("polyline")
    assert line.get("stroke") == "var(--arm1)"
    assert [one.text for one in line] == ["<script>"]
    assert frame.y(0) > frame.y(7)
    assert frame.x(10) > frame.x(0)
    assert "5 parts" not in repr(Frame("t", 1, 1))


def test_a_key_lies_below_the_chart_and_moves_nothing() -> None:
    plain, keyed = Frame("t", 10, 7), Frame("t", 10, 7, keys=2)
    for place, name in enumerate(("first", "second")):
        keyed.key(place, name, hue=hue(0))
    assert keyed.y(0) == plain.y(0)
    assert keyed.y(7) == plain.y(7)
    placed = [float(one.get("y") or 0) for one in ET.fromstring(keyed.svg()).iter("text")]  # noqa: S314 - our own
    assert plain.height < placed[0] < placed[1] < keyed.height


@pytest.mark.parametrize(("arms", "rows"), [(2, 1), (7, 2)])
def test_names_on_an_axis_do_not_run_into_each_other(arms: int, rows: int) -> None:
    frame = Frame("t", arms, 1)
    frame.x_axis("level", [(at + 0.5, f"concurrency {at} (2.5)") for at in range(arms)])
    texts = [one for one in ET.fromstring(frame.svg()).iter("text") if "(2.5)" in (one.text or "")]  # noqa: S314 - our own
    assert len({one.get("y") for one in texts}) == rows
