"""What the probe reads is what it tells, and at the first surprise it tells nothing more."""

import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.core.telemetry_wire import NO_ROOM, NO_STEP, Role, Status, StepRows, read
from service.probe.engine import Engine
from service.probe.sender import Sender
from service.probe.settings import Settings, Target
from service.probe.taps import META_KEY, Taps
from service.probe.wire import key_of
from tests.service.probe.engine_stand_ins import Req, Scheduler, SchedulerOutputStreamer, context


class Sidecar:
    """Hears datagrams."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(0)
        path.chmod(0o600)
        self.target = Target(str(path))

    def reports(self) -> list[StepRows | Status]:
        reports: list[StepRows | Status] = []
        while True:
            try:
                report = read(self.socket.recv(4096))
            except BlockingIOError:
                return reports
            assert isinstance(report, StepRows | Status)
            reports.append(report)

    def steps(self) -> list[StepRows]:
        return [report for report in self.reports() if isinstance(report, StepRows)]


@pytest.fixture
def sidecar(tmp_path: Path) -> Iterator[Sidecar]:
    there = Sidecar(tmp_path / "probe.sock")
    yield there
    there.socket.close()


@pytest.fixture
def taps(sidecar: Sidecar) -> Iterator[Taps]:
    settings = Settings(targets=(sidecar.target,), name="http://w:1")
    one = Taps(settings, Sender.of(settings), clock=lambda: 1.0, wall_ns=lambda: 42)
    one.engine = Engine(Scheduler(), context())
    yield one
    one.close()


@pytest.fixture
def meta() -> Taps:
    return Taps(Settings(), Sender.of(Settings()))


def _key(rid: str) -> int:
    return int.from_bytes(key_of(rid), "little")


def test_chunks_carry_the_steps_since_the_last_chunk(meta: Taps) -> None:
    streamer, req = SchedulerOutputStreamer(), Req("a")
    meta.step(streamer, [req])
    assert [list(counts) for counts in meta.counts([req])[META_KEY]] == [[]]
    req.verify(3)
    meta.step(streamer, [req])
    assert [list(counts) for counts in meta.counts([req])[META_KEY]] == [[3]]
    assert meta.counts([]) == {}


@pytest.mark.parametrize(
    ("streamer", "wanted"),
    [
        (SchedulerOutputStreamer(), True),
        (SchedulerOutputStreamer(speculative=False), False),
        (SchedulerOutputStreamer(rust=object()), False),
    ],
)
def test_fields_are_wanted_only_where_the_engine_takes_them(
    meta: Taps, streamer: SchedulerOutputStreamer, wanted: bool
) -> None:
    assert not meta.wants_meta()  # nothing is known before the first step
    meta.step(streamer, [Req("a")])
    assert meta.wants_meta() is wanted


def test_fields_are_not_wanted_where_they_were_turned_off() -> None:
    off = Taps(Settings(meta=False), Sender.of(Settings()))
    off.step(SchedulerOutputStreamer(), [Req("a")])
    assert not off.wants_meta()


def test_a_step_is_one_datagram(taps: Taps, sidecar: Sidecar) -> None:
    streamer, first, second = SchedulerOutputStreamer(), Req("a"), Req("b")
    taps.step(streamer, [first])
    first.verify(3)
    taps.step(streamer, [first, second])
    taps.step(streamer, [first, second])  # nothing moved, nothing sent
    arrival, step = sidecar.steps()
    assert (arrival.keys, arrival.steps, arrival.accepted) == ((_key("a"),), (0,), bytes([NO_STEP]))
    assert (step.keys, step.steps, step.accepted) == ((_key("a"), _key("b")), (1, 0), bytes([3, NO_STEP]))
    assert (step.sent.name, step.sent.epoch, step.sent.counter) == ("http://w:1", 42, 2)
    assert (step.depth, step.load.running, step.load.waiting) == (3, 3, 1)


def test_non_streamed_requests_are_told_as_well(taps: Taps, sidecar: Sidecar) -> None:
    streamer, req = SchedulerOutputStreamer(), Req("a")
    for accepted in (1, 2):
        req.verify(accepted)
        taps.step(streamer, [req])  # and no counts(): no chunk goes out
    assert [report.accepted for report in sidecar.steps()] == [b"\x01", b"\x02"]


@pytest.mark.parametrize(("mode", "role"), [("prefill", Role.PREFILL), ("decode", Role.DECODE)])
def test_with_disaggregation_the_room_is_told(taps: Taps, sidecar: Sidecar, mode: str, role: Role) -> None:
    streamer = SchedulerOutputStreamer(mode, speculative=mode == "decode")
    taps.step(streamer, [Req("a", room=77), Req("b")])
    (report,) = sidecar.steps()
    assert report.rooms == (77, NO_ROOM)
    assert report.sent.role is role
    assert report.load.moving == (1 if mode == "prefill" else 5)


def test_it_says_once_that_it_watches_and_not_before_the_engine_has_a_log(
    taps: Taps, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "specguard.probe")
    assert not caplog.messages
    for _ in range(3):
        taps.step(SchedulerOutputStreamer(), [Req("a")])
    assert caplog.messages == ["specguard probe: watching the scheduler, 1 sidecars"]


def test_a_large_batch_is_several_datagrams(taps: Taps, sidecar: Sidecar) -> None:
    taps.step(SchedulerOutputStreamer(), [Req(f"{number}") for number in range(300)])
    reports = sidecar.steps()
    assert len(reports) > 1
    assert sum(len(report.keys) for report in reports) == 300


def test_ranks_that_answer_nobody_stay_silent(taps: Taps, sidecar: Sidecar) -> None:
    streamer = SchedulerOutputStreamer()
    streamer.send_to_detokenizer.socket = None
    taps.step(streamer, [Req("a")])
    assert sidecar.reports() == []
    assert not taps.wants_meta()


def test_now_and_then_it_says_that_it_lives(taps: Taps, sidecar: Sidecar) -> None:
    taps.version = "0.5.23"
    for _ in range(3):
        taps.step(SchedulerOutputStreamer(), [Req("a")])
    statuses = [report for report in sidecar.reports() if isinstance(report, Status)]
    assert [(status.aside, status.text) for status in statuses] == [(False, "0.5.23")]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spec_num_correct_drafts", -1),
        ("spec_num_correct_drafts", 300),
        ("spec_num_correct_drafts", 2.5),
        ("spec_num_correct_drafts", "secret words"),
        ("spec_num_correct_drafts", None),
        ("spec_verify_ct", "secret words"),
    ],
)
def test_at_a_surprise_it_stands_aside_and_says_so_once(
    taps: Taps, sidecar: Sidecar, caplog: pytest.LogCaptureFixture, name: str, value: object
) -> None:
    streamer, req = SchedulerOutputStreamer(), Req("a")
    taps.step(streamer, [req])
    req.verify(1)
    setattr(req, name, value)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            taps.step(streamer, [req])
    assert not taps.live
    assert taps.counts([req]) == {}
    assert not taps.wants_meta()
    assert len(caplog.records) == 1
    last = sidecar.reports()[-1]
    assert isinstance(last, Status)
    assert last.aside
    assert "secret" not in last.text + caplog.text


def test_a_missing_attribute_is_named(taps: Taps, sidecar: Sidecar) -> None:
    req = Req("a")
    del req.spec_verify_ct
    taps.step(SchedulerOutputStreamer(), [req])
    (status,) = sidecar.reports()
    assert isinstance(status, Status)
    assert status.text == "AttributeError spec_verify_ct in <listcomp>"


def test_a_surprise_at_the_chunks_ends_it_too(meta: Taps) -> None:
    assert meta.counts([Req("never stepped")]) == {}
    assert not meta.live


def test_an_unknown_streamer_ends_it_too(meta: Taps) -> None:
    meta.step(object(), [Req("a")])
    assert not meta.live
