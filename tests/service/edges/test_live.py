"""Nobody watching, nothing built; somebody watching, one snapshot a second."""

from service.edges.live import EVERY_S, STREAMS_MAX, WATCHERS_MAX, LiveBoard, LiveStream


def stream(now: float) -> LiveStream:
    return LiveStream("r1", "default", "observe", "unknown", 1, 7, 1.5, "clean", "normal", 0, now)


def test_without_watchers_nothing_is_looked_at() -> None:
    board = LiveBoard()
    board.publish(5.0, 1, [stream])
    assert board.latest.streams == ()


def test_a_snapshot_is_made_once_a_second() -> None:
    board = LiveBoard()
    board.enter()
    for tick in range(9):  # every 250 ms
        board.publish(10 + tick * 0.25, 1, [stream])
    assert board.latest.at == 12.0
    assert board.latest.streams[0].age_s == 12.0
    board.leave()
    board.publish(20.0, 1, [stream])
    assert board.latest.at == 12.0


def test_a_snapshot_is_bounded_and_says_how_many_there_are() -> None:
    board = LiveBoard()
    board.enter()
    board.publish(EVERY_S, 1000, [stream] * 1000)
    assert (len(board.latest.streams), board.latest.open_streams) == (STREAMS_MAX, 1000)


def test_watchers_are_bounded() -> None:
    board = LiveBoard()
    for _ in range(WATCHERS_MAX):
        assert not board.full
        board.enter()
    assert board.full
    assert repr(board) == f"<LiveBoard {WATCHERS_MAX} watching 0 streams>"
