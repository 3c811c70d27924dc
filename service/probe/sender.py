"""Datagrams to the sidecars: never blocking, bounded, lost ones counted.

A Unix socket's queue holds ten datagrams on most kernels, so a sidecar that is busy for a few milliseconds
would cost steps: what cannot be sent now waits in a short backlog and goes first next time. A sidecar that is
away costs one attempt to connect a second.
"""

import os
import socket
import stat
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from service.probe.settings import Settings, Target
from service.probe.wire import sign

BACKLOG: Final = 64
"""Datagrams kept for a sidecar that cannot take them: about a second of a busy worker, 90 kB."""
CATCH_UP: Final = 16
"""Of these, sent in one step at most: the scheduler waits for us."""
RECONNECT_S: Final = 1.0


class Outlet:
    """One sidecar."""

    __slots__ = ("_again_at", "_backlog", "_clock", "_socket", "lost", "target")

    def __init__(self, target: Target, clock: Callable[[], float] = time.monotonic) -> None:
        self.target = target
        self.lost = 0
        self._clock = clock
        self._socket: socket.socket | None = None
        self._backlog: deque[bytes] = deque()
        self._again_at = float("-inf")

    def offer(self, datagram: bytes) -> None:
        """Send, or keep for the next time, or lose and count. Raises nothing of the network's."""
        if self._backlog or not self._send(datagram):
            self._keep(datagram)
            self._catch_up()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, datagram: bytes) -> bool:
        """True when it is out of our hands: sent, or lost for good."""
        try:
            if self._socket is None and not self._connect():
                return False
            if self._socket is not None:
                self._socket.send(datagram)
        except BlockingIOError:
            return False
        except OSError:
            self.close()
            return False
        return True

    def _keep(self, datagram: bytes) -> None:
        if len(self._backlog) >= BACKLOG:
            self._backlog.popleft()
            self.lost += 1
        self._backlog.append(datagram)

    def _catch_up(self) -> None:
        backlog = self._backlog
        for _ in range(min(CATCH_UP, len(backlog))):
            if not self._send(backlog[0]):
                return
            backlog.popleft()

    def _connect(self) -> bool:
        now = self._clock()
        if now < self._again_at:
            return False
        self._again_at = now + RECONNECT_S
        self._socket = _unix(self.target.address) if not self.target.port else _udp(self.target)
        return True


class Sender:
    """All sidecars; a datagram is signed once for those on UDP."""

    __slots__ = ("_all", "_key", "_local", "_remote")

    def __init__(self, outlets: list[Outlet], key: bytes) -> None:
        self._local = [outlet for outlet in outlets if not outlet.target.port]
        self._remote = [outlet for outlet in outlets if outlet.target.port]
        self._all = (*self._local, *self._remote)
        self._key = key

    @classmethod
    def of(cls, settings: Settings) -> "Sender":
        return cls([Outlet(target) for target in settings.targets], settings.key)

    def __len__(self) -> int:
        return len(self._all)

    def close(self) -> None:
        for outlet in self._all:
            outlet.close()

    @property
    def lost(self) -> int:
        lost = 0
        for outlet in self._all:
            lost += outlet.lost
        return lost

    def send(self, datagram: bytes) -> None:
        for outlet in self._local:
            outlet.offer(datagram)
        if self._remote:
            signed = sign(datagram, self._key)
            for outlet in self._remote:
                outlet.offer(signed)


def _unix(path: str) -> socket.socket:
    """A socket to a sidecar on this machine; only one that no other user can read or write."""
    found = os.lstat(path)
    if not stat.S_ISSOCK(found.st_mode):
        raise PermissionError(f"{Path(path).name} is no socket")
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO) or found.st_uid not in {0, os.geteuid()}:
        raise PermissionError(f"{Path(path).name} is open to others")
    return _connected(socket.AF_UNIX, path)


def _udp(target: Target) -> socket.socket:
    """A socket to a sidecar elsewhere; settings have turned its name into a number."""
    family = socket.AF_INET6 if ":" in target.address else socket.AF_INET
    return _connected(family, (target.address, target.port))


def _connected(family: int, address: str | tuple[str, int]) -> socket.socket:
    link = socket.socket(family, socket.SOCK_DGRAM)
    try:
        link.settimeout(0)
        link.connect(address)
    except OSError:
        link.close()
        raise
    return link
