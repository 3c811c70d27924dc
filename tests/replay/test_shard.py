"""Shards need nobody to hand them out, and make one file again."""

from pathlib import Path

import msgspec
import pytest

from replay.results import (
    Closing,
    Journal,
    Metric,
    Result,
    ResultsError,
    RunHeader,
    Sync,
    closing_of,
    read,
    read_results,
)
from replay.shard import Roots, Shard, merge, shard_of
from tests.replay.runkit import send


def test_shards_cover_all_and_share_out_evenly() -> None:
    shards = [Shard(number, 4) for number in range(4)]
    held = [sum(shard.holds(f"session-{n}") for n in range(4000)) for shard in shards]
    assert sum(held) == 4000
    assert all(850 < count < 1150 for count in held)


def test_who_waits_goes_where_the_first_goes() -> None:
    roots = Roots()
    assert roots.add(send("a", 0.0, session="u")) == "u"
    assert roots.add(send("b", 1.0, session="v", after="a")) == "u"
    assert roots.add(send("c", 2.0, after="b")) == "u"
    assert roots.add(send("d", 3.0)) == "d"
    with pytest.raises(KeyError):
        roots.add(send("e", 4.0, after="later"))


@pytest.mark.parametrize("text", ["3/3", "1", "a/b", "-1/2", "0/0", "1/2/3", ""])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="K/N"):
        shard_of(text)


def test_a_shard_is_written_as_it_is_read() -> None:
    assert str(shard_of("2/5")) == "2/5"


HEADER = RunHeader(plan_hash="h", target="t", started_at="2026-01-01T00:00:00.1+00:00", shard="0/2")


def part(path: Path, header: RunHeader, *ids: str, late_ms: float = 1.0, stopped: str | None = None) -> Path:
    with Journal(path, Sync.NEVER, reserve_bytes=0) as journal:
        journal.begin(header)
        for number, name in enumerate(ids):
            at_s = float(name) if name.isdigit() else float(number)
            journal.add(Result(id=name, scheduled_s=0, sent_s=0, ended_s=at_s, ending="complete"))
        journal.add(Metric(at_s=9.0, url=header.shard, values={}))
        if late_ms:
            closing = Closing(kept=late_ms < 5, late_p99_ms=late_ms, late_limit_ms=5.0, stopped=stopped)
            journal.add(closing)
    return path


def second(**more: str) -> RunHeader:
    return msgspec.structs.replace(
        HEADER, **{"shard": "1/2", "started_at": "2026-01-01T00:00:00.2+00:00", **more}
    )


def test_a_merge_has_all_in_order_and_the_worst_of_all_ends(tmp_path: Path) -> None:
    parts = [
        part(tmp_path / "0", HEADER, "1", "4"),
        part(tmp_path / "1", second(), "2", "3", late_ms=9.0, stopped="errors"),
    ]
    out = tmp_path / "all"
    header = merge(parts, out)
    assert (header.shard, header.started_at) == ("", HEADER.started_at)
    assert read_results(out)[0] == header
    assert [line.id for line in read(out) if isinstance(line, Result)] == ["1", "2", "3", "4"]
    assert len([line for line in read(out) if isinstance(line, Metric)]) == 2
    assert closing_of(out) == Closing(kept=False, late_p99_ms=9.0, late_limit_ms=5.0, stopped="errors")


def test_a_shard_that_never_ended_leaves_the_whole_without_an_end(tmp_path: Path) -> None:
    merge(
        [part(tmp_path / "0", HEADER, "1"), part(tmp_path / "1", second(), "2", late_ms=0)], tmp_path / "all"
    )
    assert closing_of(tmp_path / "all") is None


@pytest.mark.parametrize(
    ("header", "ids", "told"),
    [
        (second(plan_hash="other"), "2", "different plans"),
        (second(target="other"), "2", "different targets"),
        (second(shard="1/3"), "2", "not the shards of one run"),
        (second(shard=""), "2", "not the shards of one run"),
        (second(shard="0/2"), "2", "missing: 1"),
        (second(), "1", "in two of these files"),
        (second(started_at="2026-01-01T00:01:00+00:00"), "2", "60 s apart"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    tmp_path: Path, header: RunHeader, ids: str, told: str
) -> None:
    parts = [part(tmp_path / "0", HEADER, "1"), part(tmp_path / "1", header, *ids)]
    with pytest.raises(ResultsError, match=told):
        merge(parts, tmp_path / "all")


def test_shards_that_ran_apart_are_merged_for_who_asks_for_it(tmp_path: Path) -> None:
    late = second(started_at="2026-01-01T00:01:00+00:00")
    parts = [part(tmp_path / "0", HEADER, "1"), part(tmp_path / "1", late, "2")]
    assert merge(parts, tmp_path / "all", apart=True).plan_hash == "h"
    with pytest.raises(ResultsError, match="already holds"):
        merge(parts, tmp_path / "all", apart=True)
