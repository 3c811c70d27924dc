"""How a command ends."""

from typing import Final

DONE: Final = 0
FOUND: Final = 1
"""The command did its work and something is wrong with what it looked at, or with the service."""
BAD_INPUT: Final = 2

# Of replay alone: what a run may show of itself, and what a verdict may be.
NOT_KEPT: Final = 3
"""The client did not keep its schedule: nothing is concluded."""
FAILING: Final = 4
"""The backend failed too many requests."""
NOT_ALLOWED: Final = 5
"""The target is not allowed, or the plan too fast: nothing was sent."""
UNDECIDED: Final = 6
"""Too few requests for a verdict."""

INTERRUPTED: Final = 130


class Unfit(Exception):  # noqa: N818 - named for what it says
    """A command cannot do what it was asked; the message is one line for the user."""

    def __init__(self, message: str, code: int = BAD_INPUT) -> None:
        super().__init__(message)
        self.code = code
