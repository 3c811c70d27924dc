"""The plan as a file: whole, hashed, and refused where it is not."""

from pathlib import Path

import pytest

from replay.plan import (
    Arm,
    Block,
    Contrast,
    PlanError,
    PlanHeader,
    Send,
    placed,
    read_header,
    read_plan,
    verify,
    write_plan,
)

HEADER = PlanHeader(
    seed=7,
    arms=[Arm(name="idle"), Arm(name="peak", load=4.0)],
    blocks=[Block(index=0, arm="peak", start_s=0, end_s=9)],
    contrast=Contrast(low="idle", high="peak", margin_per_10k=4, incident_window_s=5),
)
SENDS = [Send(id=str(at), arm="peak", block=0, at_s=at / 10, body={"messages": []}) for at in range(5)]


def test_a_plan_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "plan.jsonl"
    written = write_plan(path, HEADER, iter(SENDS))
    header, sends = read_plan(path)
    assert header == written == verify(path)
    assert list(sends) == SENDS
    assert (header.sends, len(header.hash)) == (5, 64)
    assert [file.name for file in tmp_path.iterdir()] == ["plan.jsonl"]


def test_the_hash_covers_the_header_and_every_send(tmp_path: Path) -> None:
    path = tmp_path / "plan.jsonl"
    first = write_plan(path, HEADER, SENDS).hash
    assert write_plan(path, HEADER, SENDS).hash == first
    assert write_plan(path, HEADER, SENDS[:-1]).hash != first
    lines = path.read_bytes()
    for old, new in ((b'"margin_per_10k":4.0', b'"margin_per_10k":9.0'), (b'"at_s":0.1', b'"at_s":0.2')):
        write_plan(path, HEADER, SENDS)
        lines = path.read_bytes()
        assert old in lines
        path.write_bytes(lines.replace(old, new))
        with pytest.raises(PlanError, match="its hash differs"):
            verify(path)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "is not a plan"),
        ('{"source":"mooncake"}\n', "is not a plan"),
        ('{"format":"specguard.plan/9"}\n', "reads 'specguard.plan/1'"),
    ],
)
def test_what_is_no_plan_is_refused(text: str, named: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.jsonl"
    path.write_text(text)
    with pytest.raises(PlanError, match=named):
        read_header(path)


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "plan.jsonl"
    write_plan(path, HEADER, SENDS)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(PlanError, match=r"plan\.jsonl:6"):
        verify(path)


def test_a_plan_that_fails_in_the_making_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> list[Send]:
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        write_plan(tmp_path / "plan.jsonl", HEADER, (send for _ in [0] for send in broken()))
    assert list(tmp_path.iterdir()) == []


def test_a_plan_has_no_infinity(tmp_path: Path) -> None:
    endless = PlanHeader(arms=[Arm(name="idle", load=float("inf"))])
    with pytest.raises(PlanError, match="numbers of a plan are finite"):
        write_plan(tmp_path / "plan.jsonl", endless, [])
    assert list(tmp_path.iterdir()) == []


def test_a_send_is_found_where_its_line_begins(tmp_path: Path) -> None:
    path = tmp_path / "plan.jsonl"
    write_plan(path, HEADER, SENDS)
    with path.open("rb") as file:
        for at, send in placed(path):
            file.seek(at)
            assert f'"id":"{send.id}"'.encode() in file.readline()


def test_a_send_shows_no_text() -> None:
    assert repr(SENDS[1]) == "<Send 1 peak at 0.1 s>"
