"""Server-sent events: cut a byte stream into raw events, and read the data of one.

An event ends at a blank line; a line ends at LF, CRLF or a bare CR (WHATWG HTML, 9.2.6 "Interpreting an
event stream"). Two promises carry everything above: the returned events and `rest()` joined are the very
bytes that were fed, and where the reads were cut changes nothing. Hence a CR at the very end of what is known
waits for the byte after it, which may be its LF: a stream of bare CRs (nobody sends one) is one read behind.

Cost: O(bytes). The usual read, whole LF events of one line each, is one `find` or one `split` (0.3 us an
event, and as much for its payload); an event torn over reads is searched from just before the seam only.
"""

import re
from collections.abc import Sequence
from typing import Final

MAX_EVENT_BYTES: Final = (
    1024 * 1024
)  # 3,000 usual chunks; only `/generate` past some 100,000 tokens repeats more
LF: Final = 0x0A  # as numbers: `13 in data` costs a sixth of `b"\r" in data`
CR: Final = 0x0D
SEAM_BYTES: Final = 3  # the longest beginning of a blank line that a read can end in: CR LF CR

# Atomic groups keep CRLF whole: "\r\n" must never be taken for a line end followed by a blank line.
_BLANK_LINE: Final = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r(?=[^\n]))")
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_LAST_LINES: Final = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)\Z")
_BOM: Final = b"\xef\xbb\xbf"


class EventSplitter:
    """Cuts one response body into raw events, framing included."""

    __slots__ = ("_inside_oversize", "_pending", "max_event_bytes", "oversize")

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.max_event_bytes = max_event_bytes
        self.oversize = 0  # events that outgrew the bound and went through in opaque pieces
        self._pending = bytearray()
        self._inside_oversize = False

    def __repr__(self) -> str:
        return f"<EventSplitter {len(self._pending)} bytes pending, {self.oversize} oversize>"

    def is_plain(self, data: bytes) -> bool:
        """Whether `data` is one whole event with one line of data: the usual read, which needs no `feed`."""
        return (
            data.find(LF) == len(data) - 2
            and data[-1] == LF
            and data[:6] == b"data: "
            and CR not in data
            and not self._pending
            and len(data) <= self.max_event_bytes
        )

    def feed(self, data: bytes) -> list[bytes]:
        """The events that `data` completes, and the pieces of an oversize one."""
        if not self._pending and CR not in data and len(data) <= self.max_event_bytes:
            if data.find(LF) == len(data) - 2 and data[-1] == LF:
                return [data]
            lines = data.split(b"\n")
            if len(lines) % 2 and not lines[-1] and not any(lines[1::2]):
                return [line + b"\n\n" for line in lines[:-1:2]]
        return self._feed_torn(data)

    def rest(self) -> bytes:
        """What has come of an event that is not complete."""
        return bytes(self._pending)

    def _feed_torn(self, data: bytes) -> list[bytes]:
        pending = self._pending
        seam = bytes(pending[-SEAM_BYTES:]) + data
        if _BLANK_LINE.search(seam) is None if CR in seam else b"\n\n" not in seam:
            pending += data
            return self._spill()
        pending += data
        events, start = [], 0
        for end in _event_ends(bytes(pending)):
            events += self._bound(bytes(pending[start:end]))
            start = end
        del pending[:start]
        return events + self._spill()

    def _bound(self, event: bytes) -> list[bytes]:
        """A complete event; one over the bound is let go without its end, so that nobody reads it."""
        if len(event) <= self.max_event_bytes and not self._inside_oversize:
            return [event]
        self.oversize += not self._inside_oversize
        self._inside_oversize = False
        return [event[:-SEAM_BYTES], event[-SEAM_BYTES:]]

    def _spill(self) -> list[bytes]:
        """Lets go what is pending once it has outgrown the bound, less what a blank line may begin with."""
        pending = self._pending
        if not self._inside_oversize:
            if len(pending) <= self.max_event_bytes:
                return []
            self._inside_oversize = True
            self.oversize += 1
        if len(pending) <= SEAM_BYTES:
            return []
        piece = bytes(pending[:-SEAM_BYTES])
        del pending[:-SEAM_BYTES]
        return [piece]


def payload(event: bytes) -> bytes | None:
    """The data of one raw event, its lines joined by LF; None where it has none or is not complete.

    A byte order mark is dropped wherever an event starts with one: this function does not know which event
    was the stream's first, and reading too much is the safe side.
    """
    if event.find(LF) == len(event) - 2 and event[-1] == LF and CR not in event and event[:6] == b"data: ":
        return event[6:-2]
    if _LAST_LINES.search(event) is None:
        return None
    lines = _LINE_END.split(event.removeprefix(_BOM))
    fields = [line.partition(b":") for line in lines]
    data = [value.removeprefix(b" ") for name, _, value in fields if name == b"data"]
    return b"\n".join(data) if data else None


def payloads(events: Sequence[bytes]) -> list[bytes]:
    """The data of these events, as `payload` gives it one by one; a third of its cost where all are plain.

    Each has two line feeds at its end, and there are no more of them: so there is one `data: ` line in each.
    """
    parts = [event[6:-2] for event in events if event[:6] == b"data: " and event[-2:] == b"\n\n"]
    if len(parts) == len(events):
        whole = b"".join(events)
        if whole.count(LF) == 2 * len(events) and CR not in whole:
            return parts
    return [found for event in events if (found := payload(event)) is not None]


def _event_ends(data: bytes) -> list[int]:
    if CR in data:
        return [match.end() for match in _BLANK_LINE.finditer(data)]
    ends, at = [], data.find(b"\n\n")
    while at >= 0:
        ends.append(at + 2)
        at = data.find(b"\n\n", at + 2)
    return ends
