"""What all dialects of an answer have in common: news as events, and the whole as one body."""

from typing import Protocol


class Wire(Protocol):
    """One request's answer in one dialect."""

    def chunks(self) -> list[bytes]:
        """Return the events that tell what is new since the last call."""

    def whole(self) -> tuple[int, bytes]:
        """Return status and body of an answer that is not streamed."""
