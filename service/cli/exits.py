"""How a command ends."""

from typing import Final

DONE: Final = 0
FOUND: Final = 1
"""The command did its work and something is wrong with what it looked at, or with the service."""
BAD_INPUT: Final = 2
INTERRUPTED: Final = 130


class Unfit(Exception):  # noqa: N818 - named for what it says
    """A command cannot do what it was asked; the message is one line for the user."""

    def __init__(self, message: str, code: int = BAD_INPUT) -> None:
        super().__init__(message)
        self.code = code
