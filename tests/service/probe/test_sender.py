"""Datagrams never block the scheduler: they are sent, kept a while, or lost and counted."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.core.telemetry_wire import Fault, read
from service.probe.sender import BACKLOG, RECONNECT_S, Outlet, Sender
from service.probe.settings import Settings, Target
from service.probe.wire import Origin, status_datagram


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Sidecar:
    """A socket that is there, or not."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket: socket.socket | None = None

    def open(self, mode: int = 0o600) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.socket.settimeout(0)
        self.path.chmod(mode)

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None
            self.path.unlink()

    def heard(self) -> list[bytes]:
        assert self.socket is not None
        datagrams = []
        while True:
            try:
                datagrams.append(self.socket.recv(4096))
            except BlockingIOError:
                return datagrams


@pytest.fixture
def sidecar(tmp_path: Path) -> Iterator[Sidecar]:
    there = Sidecar(tmp_path / "probe.sock")
    yield there
    there.close()


@pytest.fixture
def outlet(sidecar: Sidecar) -> Iterator[Outlet]:
    one = Outlet(Target(str(sidecar.path)), Clock())
    yield one
    one.close()


def _pass(outlet: Outlet, seconds: float) -> None:
    clock = outlet._clock
    assert isinstance(clock, Clock)
    clock.now += seconds


def test_what_is_offered_is_heard(sidecar: Sidecar, outlet: Outlet) -> None:
    sidecar.open()
    outlet.offer(b"1")
    outlet.offer(b"2")
    assert sidecar.heard() == [b"1", b"2"]
    assert outlet.lost == 0


def test_a_busy_sidecar_gets_everything_in_order_later(sidecar: Sidecar, outlet: Outlet) -> None:
    sidecar.open()
    sent = [b"%d" % number for number in range(40)]
    for datagram in sent[:30]:
        outlet.offer(datagram)  # more than the kernel holds
    heard = sidecar.heard()
    assert len(heard) < 30
    for datagram in sent[30:]:
        outlet.offer(datagram)
        heard += sidecar.heard()
    assert heard == sent
    assert outlet.lost == 0


def test_a_sidecar_that_is_away_is_tried_again_and_the_oldest_are_lost(
    sidecar: Sidecar, outlet: Outlet
) -> None:
    for number in range(BACKLOG + 5):
        outlet.offer(b"%d" % number)
    assert outlet.lost == 5
    sidecar.open()
    outlet.offer(b"too soon")
    assert sidecar.heard() == []
    _pass(outlet, RECONNECT_S)
    heard = []
    for _ in range(20):
        outlet.offer(b"on")
        heard += sidecar.heard()
    assert heard[0] == b"7"  # 0..4 were lost before, 5 and 6 gave way since
    assert heard[-1] == b"on"


def test_a_restarted_sidecar_is_found_again(sidecar: Sidecar, outlet: Outlet) -> None:
    sidecar.open()
    outlet.offer(b"1")
    sidecar.close()
    outlet.offer(b"2")
    sidecar.open()
    _pass(outlet, RECONNECT_S)
    outlet.offer(b"3")
    assert sidecar.heard() == [b"2", b"3"]


@pytest.mark.parametrize("mode", [0o666, 0o620, 0o604])
def test_a_socket_that_others_can_use_gets_nothing(sidecar: Sidecar, outlet: Outlet, mode: int) -> None:
    sidecar.open(mode)
    outlet.offer(b"1")
    assert sidecar.heard() == []


def test_a_file_that_is_no_socket_gets_nothing(sidecar: Sidecar, outlet: Outlet) -> None:
    sidecar.path.write_bytes(b"")
    outlet.offer(b"1")
    assert sidecar.path.read_bytes() == b""


def test_over_udp_every_datagram_is_signed(sidecar: Sidecar) -> None:
    sidecar.open()
    key = b"k" * 20
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as remote:
        remote.bind(("127.0.0.1", 0))
        remote.settimeout(2)
        targets = (Target("127.0.0.1", remote.getsockname()[1]), Target(str(sidecar.path)))
        sender = Sender.of(Settings(targets=targets, key=key))
        datagram = status_datagram(Origin(name=b"w"), 0, "hello", aside=False)
        sender.send(datagram)
        signed = remote.recv(2048)
    assert sidecar.heard() == [datagram]
    assert read(signed) is not Fault.MAC
    assert read(signed, key) == read(datagram)
    assert read(signed, b"x" * 20) is Fault.MAC
    sender.close()


def test_a_closed_udp_port_raises_nothing_and_is_counted() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        gone.bind(("127.0.0.1", 0))
        port = gone.getsockname()[1]
    sender = Sender.of(Settings(targets=(Target("127.0.0.1", port),), key=b"k" * 20))
    for _ in range(2 * BACKLOG):
        sender.send(b"x")
    assert sender.lost > 0
    sender.close()


def test_without_sidecars_there_is_nothing_to_do() -> None:
    assert not Sender.of(Settings())
