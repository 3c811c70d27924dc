"""Nobody watching, nothing built; somebody watching, one snapshot a second."""

from datetime import UTC, datetime, timedelta

from service.edges.live import EVERY_S, STREAMS_MAX, WATCHERS_MAX, LiveBoard, LiveStream


def stream(now: float) -> LiveStream:
    return LiveStream("r1", "default", "observe", "unknown", 1, 7, 1.5, "clean", "normal", 0, now)


def test_without_watchers_nothing_is_looked_at() -> None:
    board = LiveBoard()
    board.publish(5.0, 1, [stream])
    assert board.latest is None


def test_a_snapshot_is_made_once_a_second_and_says_when_by_the_wall_clock() -> None:
    turns = (datetime(2026, 11, 29, 12, tzinfo=UTC) + timedelta(seconds=n) for n in range(9))
    board = LiveBoard(clock=lambda: next(turns))
    board.enter()
    for tick in range(9):  # every 250 ms
        board.publish(10 + tick * 0.25, 1, [stream])
    assert board.latest is not None
    assert board.latest.at == "2026-11-29T12:00:02.000+00:00"
    assert board.latest.streams[0].age_s == 12.0


def test_who_comes_first_does_not_see_what_the_last_watcher_saw() -> None:
    board = LiveBoard()
    board.enter()
    board.publish(10.0, 1, [stream])
    board.enter()
    assert board.latest is not None
    board.leave()
    board.leave()
    board.publish(20.0, 1, [stream])
    board.enter()
    assert board.latest is None


def test_a_snapshot_is_bounded_and_says_how_many_there_are() -> None:
    board = LiveBoard()
    board.enter()
    board.publish(EVERY_S, 1000, [stream] * 1000)
    assert board.latest is not None
    assert (len(board.latest.streams), board.latest.open_streams) == (STREAMS_MAX, 1000)


def test_watchers_are_bounded() -> None:
    board = LiveBoard()
    for _ in range(WATCHERS_MAX):
        assert not board.full
        board.enter()
    assert board.full
    assert repr(board) == f"<LiveBoard {WATCHERS_MAX} watching>"
