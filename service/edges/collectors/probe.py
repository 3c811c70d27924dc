"""Receives the probes' datagrams: a Unix socket for workers on this machine, UDP for others.

The socket file is 0600 and belongs to us: the probe refuses any other. On UDP every datagram needs its MAC. A
burst is read in slices, so that the loop that serves streams is never held for more than a few milliseconds;
what does not fit the kernel's buffer meanwhile is lost, seen as a gap, and counted.

Cost: see `python -m service.edges.collectors.bench`.
"""

import asyncio
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from service.core.probe_feed import ProbeFeed
from service.core.telemetry_wire import MAX_BYTES

SLICE: Final = 64
"""Datagrams in one turn of the loop: a little over a millisecond."""
BUFFER_BYTES: Final = 4 << 20
_MODE: Final = 0o600


class ProbeReceiver:
    """Reads sockets into a feed. Open it, and close it on the same loop."""

    def __init__(self, feed: ProbeFeed, clock: Callable[[], float] = time.monotonic) -> None:
        self._feed = feed
        self._clock = clock
        self._sockets: list[tuple[socket.socket, bytes]] = []
        self._paths: list[Path] = []

    def __repr__(self) -> str:
        return f"<ProbeReceiver {len(self._sockets)} sockets, {self._feed!r}>"

    def listen_unix(self, path: Path) -> None:
        """Listen on a socket file; one left behind by a dead process is replaced, nothing else is."""
        if path.is_symlink() or path.exists():
            if not stat.S_ISSOCK(path.lstat().st_mode):
                raise FileExistsError(f"{path} exists and is no socket")
            path.unlink()
        link = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            link.bind(str(path))
            path.chmod(_MODE)
        except OSError:
            link.close()
            raise
        self._paths.append(path)
        self._listen(link, b"")

    def listen_udp(self, host: str, port: int, key: bytes) -> int:
        """Listen on UDP; the answer is the port. A key is not optional: anybody can send here."""
        if not key:
            raise ValueError("UDP telemetry needs a key")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        link = socket.socket(family, socket.SOCK_DGRAM)
        try:
            link.bind((host, port))
        except OSError:
            link.close()
            raise
        self._listen(link, key)
        return int(link.getsockname()[1])

    def pull(self) -> None:
        """Read what waits now: a stream that ends may have its last steps still in the kernel."""
        for link, key in self._sockets:
            self._readable(link, key)

    def close(self) -> None:
        loop = asyncio.get_running_loop()
        for link, _ in self._sockets:
            loop.remove_reader(link)
            link.close()
        for path in self._paths:
            path.unlink(missing_ok=True)
        self._sockets.clear()
        self._paths.clear()

    def _listen(self, link: socket.socket, key: bytes) -> None:
        link.settimeout(0)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        self._sockets.append((link, key))
        asyncio.get_running_loop().add_reader(link, self._readable, link, key)

    def _readable(self, link: socket.socket, key: bytes) -> None:
        feed, now = self._feed, self._clock()
        for _ in range(SLICE):
            try:
                datagram = link.recv(MAX_BYTES)
            except BlockingIOError:
                return
            except OSError:
                feed.counts["receive_errors"] += 1
                return
            feed.read(datagram, now, key)
