"""Hold-back: the newest tokens of a stream stay in the proxy until what follows them has been judged.

Bytes are held in the batches that inspections look at. A batch may go once the newest batch is
`window_tokens` tokens or `window_s` seconds ahead of it. Seconds run on the arrival of data, not on the
clock: a stream that falls silent keeps its last window held, because silence is evidence and must not flush
what it casts doubt on.

Tool calls are atomic: from the first batch of an open call on, nothing goes until the call is closed or too
large or too old to be held whole, after which it flows like text.

Where the engine tells no token counts, each batch counts as one token an event.
"""

from collections import deque

import msgspec

from service.core.events import UNKNOWN


class Batch(msgspec.Struct):
    """Events judged together: their bytes, the completion tokens at their end, when the last arrived."""

    data: bytes
    tokens: int
    at: float
    in_tool: bool


class HoldBack:
    """Bytes between engine and client; first in, first out."""

    __slots__ = ("_batches", "_tool_bytes", "_tool_since", "bytes", "released_tokens", "tokens")

    def __init__(self) -> None:
        self._batches: deque[Batch] = deque()
        self._tool_since: float | None = None
        self._tool_bytes = 0
        self.bytes = 0
        self.tokens = 0  # newest count seen
        self.released_tokens = 0  # count at the end of the newest batch that went out

    def __repr__(self) -> str:
        tool = self._tool_since is not None
        return f"<HoldBack {len(self._batches)} batches, {self.bytes} bytes, tool={tool}>"

    def push(self, data: bytes, *, events: int, tokens: int, at: float, tool_open: bool) -> None:
        """Take one judged batch; `tool_open` says whether a tool call is still open at its end."""
        self.tokens = self.tokens + events if tokens == UNKNOWN else max(tokens, self.tokens)
        if tool_open and self._tool_since is None:
            self._tool_since, self._tool_bytes = at, 0
        in_tool = self._tool_since is not None
        self._tool_bytes += len(data) if in_tool else 0
        self._batches.append(Batch(data, self.tokens, at, in_tool))
        self.bytes += len(data)
        if in_tool and not tool_open:
            self._close_tool()

    def spans(self, tokens: int, seconds: float) -> bool:
        """Whether what has come in, nothing released yet, is so many tokens or so many seconds long."""
        batches = self._batches
        return bool(batches) and (self.tokens >= tokens or batches[-1].at - batches[0].at >= seconds)

    def due(self, *, window_tokens: int, window_s: float, tool_bytes: int, tool_s: float) -> bytes:
        """Take out what is older than the window, an open tool call excepted."""
        if not self._batches:
            return b""
        newest = self._batches[-1]
        if self._tool_since is not None and (
            self._tool_bytes > tool_bytes or newest.at - self._tool_since > tool_s
        ):
            self._close_tool()
        out = []
        while self._batches:
            head = self._batches[0]
            aged = newest.tokens - head.tokens >= window_tokens or newest.at - head.at >= window_s
            if head.in_tool or not aged:
                break
            out.append(self._pop())
        return b"".join(out)

    def drain(self) -> bytes:
        """Take out everything, oldest first."""
        out = [self._pop() for _ in range(len(self._batches))]
        self._tool_since = None
        return b"".join(out)

    def drop(self) -> None:
        """Forget everything that is held; it is never sent."""
        self._batches.clear()
        self.bytes = 0
        self._tool_since = None

    def _pop(self) -> bytes:
        batch = self._batches.popleft()
        self.bytes -= len(batch.data)
        self.released_tokens = batch.tokens
        return batch.data

    def _close_tool(self) -> None:
        self._tool_since = None
        for batch in self._batches:
            batch.in_tool = False
