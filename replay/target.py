"""Where a run may send to: a URL whose host somebody has named, and no other.

Nothing is allowed by default, not even this machine: a forwarded port on the loopback can be production. A
name is compared as it is written, without resolving it; `HOST` allows every port of it, `HOST:PORT` one.
"""

import re
import ssl
from collections.abc import Sequence
from typing import Final
from urllib.parse import SplitResult, urlsplit

import msgspec

PORTS: Final = {"http": 80, "https": 443}
_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")


class TargetError(ValueError):
    """A URL that is no target."""


class NotAllowedError(TargetError):
    """A target that nobody has named: nothing was sent."""


class Target(msgspec.Struct, frozen=True):
    """One server, by its URL."""

    scheme: str
    host: str
    port: int
    prefix: str = ""  # of every path

    @property
    def authority(self) -> str:
        """As the Host header has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.prefix}"


def target_of(url: str) -> Target:
    """Read a URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise TargetError("a target is http://HOST:PORT or https://HOST:PORT") from None
    if not _is_plain(url, parts):
        raise TargetError(
            "a target is http://HOST:PORT or https://HOST:PORT, without user, query or fragment"
        )
    host = parts.hostname or ""
    return Target(parts.scheme, host, port or PORTS[parts.scheme], parts.path.rstrip("/"))


def check_allowed(target: Target, allowed: Sequence[str]) -> None:
    """Raise unless somebody has named this host."""
    names = {
        target.host,
        f"[{target.host}]",
        f"{target.host}:{target.port}",
        f"[{target.host}]:{target.port}",
    }
    if names.isdisjoint(one.lower() for one in allowed):
        told = ", ".join(allowed) or "none is"
        raise NotAllowedError(
            f"{target.host}:{target.port} is not among the allowed hosts ({told}): nothing was sent"
        )


def tls_for(target: Target, authorities: str | None = None) -> ssl.SSLContext | None:
    """What to verify the server with; None on plain HTTP."""
    if target.scheme != "https":
        return None
    try:
        return ssl.create_default_context(cafile=authorities)
    except OSError as error:  # ssl.SSLError is one
        raise TargetError(f"{authorities}: no file of CA certificates ({type(error).__name__})") from None


def _is_plain(url: str, parts: SplitResult) -> bool:
    odd = parts.username is not None or parts.password is not None or parts.query or parts.fragment
    return bool(parts.scheme in PORTS and parts.hostname and not odd and _VISIBLE.fullmatch(url))
