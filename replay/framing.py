"""HTTP/1.1 as a load client meets it: one response, its bytes and their times in, an `Answer` out.

Reads are only noted as they come; they are read in batches, when a read could be the last of the response or
`BATCH_BYTES` have gathered. The times are those of the reads all the same, and a batch of whole chunks with
one event each, as engines write them, is taken apart by one `split`. Without sockets and clocks, so that a
test may cut the bytes anywhere.

Strict where leniency would misread (coding, length, chunk sizes), in the way of RFC 9112: a response that is
not understood is `BadResponse`, the server's fault. Cost: 0.5 us an event of a plain batch, 3 us otherwise.
"""

import re
from enum import Enum, auto
from typing import Final

from replay.answer import Answer
from service.core.sse import EventSplitter, payloads

BATCH_BYTES: Final = 64 * 1024
"""What one stream may hold unread: 10 to 20 s of a usual stream, 64 MB of 1,000 streams."""
HEAD_BYTES_MAX: Final = 64 * 1024
BODY_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of a body that is no stream, and of one event."""
LINE_BYTES_MAX: Final = 4096
"""Of a chunk's size line, or a trailer."""
BLANK: Final = b"\r\n\r\n"
EVENT_END: Final = b"\n\n\r\n"
"""Of a chunk that ends with its event."""
DATA: Final = b"data: "
FINAL: Final = 200
SWITCHING: Final = 101
BODILESS: Final = frozenset({204, 304})
EVENTS: Final = b"text/event-stream"

_STATUS: Final = re.compile(rb"HTTP/1\.([01]) (\d{3})(?: .*)?")
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;.*)?")
KNOWN_DIGITS: Final = 3
_sizes: Final[dict[bytes, int]] = {}
"""Size lines that have been read: those of usual events, 11,000 at most."""


class BadResponse(ValueError):  # noqa: N818 - named as HTTP names it
    """The server's: not HTTP as we can trust it. The message quotes nothing."""


class Mode(Enum):
    """Where in a response the next byte belongs."""

    HEAD = auto()
    CHUNKS = auto()
    TRAILERS = auto()
    LENGTH = auto()
    TO_END = auto()  # the body ends with the connection
    OVER = auto()


class Response:
    """One response on its way."""

    __slots__ = (
        "_body",
        "_body_bytes",
        "_events",
        "_held_bytes",
        "_lazy",
        "_left",
        "_mode",
        "_payload_times",
        "_payloads",
        "_reads",
        "_rest",
        "_times",
        "answer",
        "first_at",
        "headers",
        "keep",
        "status",
    )

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.status: int | None = None
        self.headers: dict[bytes, bytes] = {}
        self.keep = False
        self.first_at: float | None = None
        self._mode = Mode.HEAD
        self._lazy = False
        self._reads: list[bytes] = []
        self._times: list[float] = []
        self._held_bytes = 0
        self._rest = b""  # begun and not yet understood: a head, a size line
        self._left = 0  # of the chunk (its CRLF included), or of the body
        self._events: EventSplitter | None = None
        self._payloads: list[bytes] = []
        self._payload_times: list[float] = []
        self._body: list[bytes] = []
        self._body_bytes = 0

    def __repr__(self) -> str:
        return f"<Response {self._mode.name} {self.status} {self._held_bytes} bytes held>"

    def feed(self, data: bytes, at: float) -> bool:
        """Take what was read; whether the response is over."""
        self._reads.append(data)
        self._times.append(at)
        if self._lazy and data[-4:] != BLANK and len(data) >= len(BLANK):
            self._held_bytes += len(data)
            if self._held_bytes < BATCH_BYTES:
                return False
        return self._digest()

    def eof(self, at: float) -> bool:
        """The server sends no more; whether that is the end of the response."""
        if not self._digest() and self._mode is Mode.TO_END:
            self._finish(at)
        return self._mode is Mode.OVER

    def give_up(self) -> None:
        """Nothing more is wanted; what has come is read."""
        self._digest()

    def _digest(self) -> bool:
        reads, times = self._reads, self._times
        self._reads, self._times, self._held_bytes = [], [], 0
        plain = self._plain(reads, times) if len(reads) > 1 else 0
        for data, at in zip(reads[plain:], times[plain:], strict=True):
            self._take(data, at)
        if self._payloads:
            self.answer.read(self._payloads, self._payload_times)
            self._payloads, self._payload_times = [], []
        return self._mode is Mode.OVER

    def _plain(self, reads: list[bytes], times: list[float]) -> int:
        """Take all reads but the last at once where they are whole chunks of one plain event each."""
        if self._mode is not Mode.CHUNKS or self._left or self._rest or self._events is None:
            return 0
        whole = b"".join(reads[:-1])
        parts = whole.split(EVENT_END)
        counts = [data.count(EVENT_END) for data in reads[:-1]]
        if parts.pop() or sum(counts) != len(parts) or self._events.rest():
            return 0
        if whole.count(b"\n") != 4 * len(parts) or whole.count(b"\r") != 2 * len(parts):
            return 0  # more lines in an event than its one
        found: list[bytes] = []
        for part in parts:
            size, _, payload = part.partition(b"\r\n" + DATA)
            if (_sizes.get(size) or _size(size)) != len(payload) + len(DATA) + 2:
                return 0
            found.append(payload)
        self._payloads += found
        for count, at in zip(counts, times, strict=False):
            self._payload_times += [at] * count
        return len(reads) - 1

    def _take(self, data: bytes, at: float) -> None:
        if self.first_at is None:
            self.first_at = at
        data, self._rest = self._rest + data, b""
        while data and self._mode is not Mode.OVER:
            before = self._mode, len(data)
            data = self._step(data, at)
            if (self._mode, len(data)) == before:  # more must come
                self._rest = data
                return
        if data:
            self.keep = False  # nobody asked for what follows

    def _step(self, data: bytes, at: float) -> bytes:
        """Understand one more thing; what is left of the data."""
        match self._mode:
            case Mode.HEAD:
                return self._step_head(data, at)
            case Mode.CHUNKS:
                return self._step_chunk(data, at) if self._left else self._step_size(data)
            case Mode.TRAILERS:
                return self._step_trailer(data, at)
            case Mode.LENGTH:
                piece = data[: self._left]
                self._left -= len(piece)
                self._deliver(piece, at)
                if not self._left:
                    self._finish(at)
                return data[len(piece) :]
            case _:
                self._deliver(data, at)
                return b""

    def _step_head(self, data: bytes, at: float) -> bytes:
        end = data.find(BLANK)
        if end < 0:
            if len(data) > HEAD_BYTES_MAX:
                raise BadResponse("its head is too long")
            return data
        status, self.headers, minor = _head(data[:end])
        if status == SWITCHING:
            raise BadResponse("it changes the protocol")
        if status >= FINAL:
            self.status = status
            self._frame(status, at, minor=minor)
        return data[end + len(BLANK) :]

    def _frame(self, status: int, at: float, *, minor: int) -> None:
        """What the head says of the body."""
        headers = self.headers
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise BadResponse("it is compressed, which was not asked for")
        connection = headers.get(b"connection", b"").lower()
        self.keep = b"close" not in connection and (minor == 1 or b"keep-alive" in connection)
        if headers.get(b"content-type", b"").lower().startswith(EVENTS):
            self._events = EventSplitter(BODY_BYTES_MAX)
        coding, length = headers.get(b"transfer-encoding"), headers.get(b"content-length")
        if coding is not None:
            if coding.lower() != b"chunked":
                raise BadResponse("its transfer coding is not chunked")
            self._mode, self._lazy = Mode.CHUNKS, True
        elif length is not None:
            if not length.isdigit():
                raise BadResponse("its length is no number")
            self._mode, self._left = Mode.LENGTH, int(length)
        else:
            self._mode, self.keep = Mode.TO_END, False
        if status in BODILESS or (self._mode is Mode.LENGTH and not self._left):
            self._finish(at)

    def _step_size(self, data: bytes) -> bytes:
        end = data.find(b"\r\n")
        if end < 0:
            if len(data) > LINE_BYTES_MAX:
                raise BadResponse("a chunk without a size")
            return data
        size = _size(data[:end])
        if size is None:
            raise BadResponse("a chunk's size is no number")
        if size:
            self._left = size + 2
        else:
            self._mode = Mode.TRAILERS
        return data[end + 2 :]

    def _step_chunk(self, data: bytes, at: float) -> bytes:
        """Data of a chunk as far as it has come; its CRLF stays until it is whole."""
        if len(data) < self._left:
            body = min(len(data), self._left - 2)
            self._deliver(data[:body], at)
            self._left -= body
            return data[body:]
        whole, self._left = self._left, 0
        if data[whole - 2 : whole] != b"\r\n":
            raise BadResponse("a chunk is longer than it says")
        self._deliver(data[: whole - 2], at)
        return data[whole:]

    def _step_trailer(self, data: bytes, at: float) -> bytes:
        end = data.find(b"\r\n")
        if end < 0:
            if len(data) > LINE_BYTES_MAX:
                raise BadResponse("its trailers are too long")
            return data
        if not end:
            self._finish(at)
        return data[end + 2 :]

    def _deliver(self, piece: bytes, at: float) -> None:
        if self._events is None:
            self._body_bytes += len(piece)
            if self._body_bytes > BODY_BYTES_MAX:
                raise BadResponse("its body is too long")
            self._body.append(piece)
        elif piece:
            found = payloads(self._events.feed(piece))
            self._payloads += found
            self._payload_times += [at] * len(found)

    def _finish(self, at: float) -> None:
        self._mode, self._lazy = Mode.OVER, False
        if self._body:
            self.answer.whole(b"".join(self._body), at)
            self._body = []


def _head(head: bytes) -> tuple[int, dict[bytes, bytes], int]:
    """Status, headers in lower case, minor version."""
    first, *lines = head.split(b"\r\n")
    status = _STATUS.fullmatch(first)
    if status is None:
        raise BadResponse("it is not HTTP/1")
    headers: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or name != name.strip():
            raise BadResponse("a header line is no header")
        headers[name.lower()] = value.strip()
    return int(status[2]), headers, int(status[1])


def _size(line: bytes) -> int | None:
    size = _sizes.get(line)
    if size is None and (found := _SIZE.fullmatch(line)) is not None:
        size = int(found[1], 16)
        if len(line) <= KNOWN_DIGITS:
            _sizes[line] = size
    return size
