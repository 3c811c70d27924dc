"""Which header crosses which hop, in which direction.

A proxy owns the framing of both its connections, so what describes a connection stays on it: the
hop-by-hop headers of RFC 9110 section 7.6.1, and every further name that a `Connection` header lists. The
router does not get what only we may say (`x-smg-*` steers its workers, `x-specguard-*` steers us), nor the
client's `accept-encoding`: a compressed stream cannot be read. Names come in lower case.
"""

from collections.abc import Iterable
from typing import Final

Header = tuple[bytes, bytes]
Headers = list[Header]

HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
REQUEST_ONLY: Final = frozenset({b"host", b"content-length", b"expect", b"accept-encoding"})
"""Ours to write towards the router (`host`, `content-length`), to answer (`expect`), or to leave out."""
STEERING: Final = (b"x-smg-", b"x-specguard-")

REQUEST_ID: Final = b"x-request-id"
POLICY: Final = b"x-specguard-policy"
ATTEMPTS: Final = b"x-specguard-attempts"
TARGET_WORKER: Final = b"x-smg-target-worker"
ROUTED_WORKER: Final = b"x-smg-routed-worker-id"


def _listed(headers: Iterable[Header]) -> frozenset[bytes]:
    """The names that `Connection` headers declare as belonging to this hop only."""
    listed = [value for name, value in headers if name == b"connection"]
    return frozenset(token.strip().lower() for value in listed for token in value.split(b","))


def _crosses(name: bytes, listed: frozenset[bytes]) -> bool:
    """Whether a request header goes on. `x_smg_target_worker` is `x-smg-target-worker` to many a server."""
    plain = name.replace(b"_", b"-")
    return not (name in listed or plain in HOP_BY_HOP or plain in REQUEST_ONLY or plain.startswith(STEERING))


def towards_router(headers: Iterable[Header]) -> Headers:
    """The client's headers as the router may see them; `authorization` is among them, untouched."""
    headers = tuple(headers)
    listed = _listed(headers)
    return [(name, value) for name, value in headers if _crosses(name, listed)]


def towards_client(headers: Iterable[Header], *, keep_length: bool) -> Headers:
    """The router's headers as the client may see them; without its length where we may change the body."""
    headers = tuple(headers)
    dropped = HOP_BY_HOP | _listed(headers)
    if not keep_length:
        dropped |= {b"content-length"}
    return [(name, value) for name, value in headers if name not in dropped]


def value_of(headers: Iterable[Header], name: bytes) -> bytes | None:
    """The first value of a header."""
    return next((value for key, value in headers if key == name), None)


def size_of(headers: Iterable[Header]) -> int:
    """Bytes on the wire, as limits count them: each line has a colon, a space and a line end."""
    return sum(len(name) + len(value) + 4 for name, value in headers)


def is_encoded(headers: Iterable[Header]) -> bool:
    """Whether the body is in a content coding. We never ask for one, and read none."""
    coding = value_of(headers, b"content-encoding") or b""
    return coding.strip().lower() not in {b"", b"identity"}


def is_event_stream(headers: Iterable[Header]) -> bool:
    kind = value_of(headers, b"content-type")
    return kind is not None and kind.partition(b";")[0].strip().lower() == b"text/event-stream"
