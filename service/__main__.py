"""The console script, `specguard` or `python -m service`.

It imports nothing of ours before it has taken Ctrl-C over: half a second of imports is long enough to change
one's mind in, and a traceback is no answer to that.
"""

import os
import signal
import sys
from types import FrameType
from typing import Final

INTERRUPTED: Final = 130
"""As `service.cli.exits` has it, which would have to be imported."""


def _leave(_: int, __: FrameType | None) -> None:
    os._exit(INTERRUPTED)


def main() -> None:
    """Run the command line; once it is there, Ctrl-C is its own affair again."""
    usual = signal.signal(signal.SIGINT, _leave)
    from service.cli import run

    signal.signal(signal.SIGINT, usual)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
