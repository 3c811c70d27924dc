"""A response body that is not streamed, kept whole up to a cap until it is judged."""


class WholeBody:
    """Bytes of one response; past the cap it says so and, told to give up, keeps nothing any more."""

    __slots__ = ("_cap", "_parts", "held")

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._parts: list[bytes] = []
        self.held = 0

    def __repr__(self) -> str:
        return f"<WholeBody {self.held} of {self._cap} bytes>"

    def add(self, data: bytes) -> bool:
        """Keep it; False once the cap is passed (what was kept by then stays until `give_up`)."""
        if self._cap < 0:
            return False
        self._parts.append(data)
        self.held += len(data)
        return self.held <= self._cap

    def take(self) -> bytes:
        body, self._parts, self.held = b"".join(self._parts), [], 0
        return body

    def give_up(self) -> bytes:
        """Hand out what was kept and keep nothing any more."""
        self._cap = -1
        return self.take()
