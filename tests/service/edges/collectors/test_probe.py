"""Datagrams reach the feed through real sockets, and nobody else's do."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from service.core.probe_feed import ProbeFeed
from service.edges.collectors.probe import SLICE, ProbeReceiver
from service.probe.sender import Sender
from service.probe.settings import Settings, Target
from service.probe.wire import NO_LOAD, Origin, Rows, key_of, sign, steps_datagram, u32_column

KEY = b"k" * 20


@pytest.fixture
async def feed() -> ProbeFeed:
    return ProbeFeed()


@pytest.fixture
async def receiver(feed: ProbeFeed) -> AsyncIterator[ProbeReceiver]:
    one = ProbeReceiver(feed, clock=lambda: 1.0)
    yield one
    one.close()


def datagrams(count: int) -> list[bytes]:
    origin = Origin(name=b"http://w:1", depth=3)
    return [
        steps_datagram(origin, NO_LOAD, 0, Rows(key_of("a"), b"", u32_column([step]), bytes([step % 4])))
        for step in range(1, count + 1)
    ]


async def _turns() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_probe_on_this_machine_is_heard(
    feed: ProbeFeed, receiver: ProbeReceiver, tmp_path: Path
) -> None:
    path = tmp_path / "probe.sock"
    receiver.listen_unix(path)
    assert path.stat().st_mode & 0o777 == 0o600
    sender = Sender.of(Settings(targets=(Target(str(path)),)))
    for datagram in datagrams(5):
        sender.send(datagram)
    await _turns()
    sender.close()
    assert feed.take("a") == (1, 2, 3, 0, 1)


async def test_a_probe_elsewhere_is_heard_when_it_signs(feed: ProbeFeed, receiver: ProbeReceiver) -> None:
    port = receiver.listen_udp("127.0.0.1", 0, KEY)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source:
        source.connect(("127.0.0.1", port))
        first, second = datagrams(2)
        source.send(sign(first, KEY))
        source.send(second)
        source.send(b"")
        source.send(bytes(3000))
        await _turns()
    assert feed.take("a") == (1,)
    assert feed.counts["bad_mac"] == 3


async def test_udp_without_a_key_is_refused(receiver: ProbeReceiver) -> None:
    with pytest.raises(ValueError, match="key"):
        receiver.listen_udp("127.0.0.1", 0, b"")


async def test_a_burst_is_read_in_slices(feed: ProbeFeed, receiver: ProbeReceiver) -> None:
    port = receiver.listen_udp("127.0.0.1", 0, KEY)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source:
        source.connect(("127.0.0.1", port))
        for datagram in datagrams(2 * SLICE):
            source.send(sign(datagram, KEY))
        receiver.pull()
        assert feed.counts["datagrams"] == SLICE
        await _turns()
    assert feed.counts["datagrams"] == 2 * SLICE
    assert feed.counts["gaps"] == 0


async def test_a_socket_left_behind_is_replaced(
    feed: ProbeFeed, receiver: ProbeReceiver, tmp_path: Path
) -> None:
    path = tmp_path / "probe.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
        dead.bind(str(path))
    receiver.listen_unix(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as source:
        source.sendto(datagrams(1)[0], str(path))
    await _turns()
    assert feed.take("a") == (1,)


async def test_a_file_that_is_no_socket_is_not_touched(receiver: ProbeReceiver, tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("keep")
    with pytest.raises(FileExistsError, match="no socket"):
        receiver.listen_unix(path)
    assert path.read_text() == "keep"


async def test_closing_takes_the_socket_away(receiver: ProbeReceiver, tmp_path: Path) -> None:
    path = tmp_path / "probe.sock"
    receiver.listen_unix(path)
    receiver.close()
    assert not path.exists()
    assert repr(receiver).startswith("<ProbeReceiver 0 sockets")


async def test_a_place_that_cannot_be_bound_is_an_error(receiver: ProbeReceiver, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"."):
        receiver.listen_unix(tmp_path / "missing" / "probe.sock")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(OSError, match="in use"):
            receiver.listen_udp("127.0.0.1", taken.getsockname()[1], KEY)


async def test_what_waits_can_be_read_at_once(
    feed: ProbeFeed, receiver: ProbeReceiver, tmp_path: Path
) -> None:
    path = tmp_path / "probe.sock"
    receiver.listen_unix(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as source:
        for datagram in datagrams(3):
            source.sendto(datagram, str(path))
    receiver.pull()
    assert feed.take("a") == (1, 2, 3)
