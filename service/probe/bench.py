"""What the probe costs the scheduler: `python -m service.probe.bench [REQUESTS]` prints one JSON object.

Requests are stand-ins with the attributes that the probe reads; a step moves every one of them, asks for the
fields of their chunks and sends one datagram to a Unix socket that another process empties. Counted is the
processor time of this thread. The budget is 20 us a scheduler step with 64 requests.
"""

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any, Final

from service.probe.engine import Engine
from service.probe.sender import Sender
from service.probe.settings import Settings, Target
from service.probe.taps import Taps

ROUNDS: Final = 15
STEPS: Final = 200
DEPTH: Final = 3
CHANGE: Final = 4
_EMPTY: Final = """
import socket, sys
sink = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM, fileno=int(sys.argv[1]))
while True:
    sink.recv(2048)
"""


class StandIn:
    """A request, as far as the probe looks."""

    def __init__(self, rid: str) -> None:
        self.rid = rid
        self.bootstrap_room = None
        self.spec_verify_ct = 0
        self.spec_num_correct_drafts = 0

    def verify(self, accepted: int) -> None:
        self.spec_verify_ct += 1
        self.spec_num_correct_drafts += accepted


def measure(requests: int, targets: tuple[Target, ...] = (), *, changing: bool = False) -> float:
    """Microseconds a step: the median of the rounds' means, the stand-ins' own work taken out.

    Changing: every fourth step one request has ended and another one's prefill is a step of its own.
    """
    taps = Taps(Settings(targets=targets), Sender.of(Settings(targets=targets)))
    taps.engine = Engine(stand_in_scheduler())
    streamer = stand_in_streamer()
    batch = [StandIn(f"{place:032x}") for place in range(requests)]
    numbers = count(requests)

    def turn(number: int) -> list[StandIn]:
        """The requests of the next scheduler step, one step on."""
        if changing and number % CHANGE == 0:
            batch.pop(0)
            batch.append(StandIn(f"{next(numbers):032x}"))
            return batch[-1:]
        for request in batch:
            request.verify(number % (DEPTH + 1))
        return batch

    def tell(number: int) -> None:
        reqs = turn(number)
        taps.step(streamer, reqs)
        if taps.wants_meta():
            taps.counts(reqs)

    full, bare = [], []
    for _ in range(ROUNDS):
        full.append(_timed(tell))
        bare.append(_timed(turn))
        batch = [StandIn(f"{next(numbers):032x}") for _ in batch]
    taps.close()
    if not taps.live:
        raise RuntimeError("the probe stood aside")
    return median(full) - median(bare)


def stand_in_streamer() -> Any:  # noqa: ANN401 - stands for an engine's object
    """The engine's streamer, as far as the probe looks."""
    return SimpleNamespace(
        rust_server=None,
        spec_algorithm=SimpleNamespace(is_none=lambda: False),
        disaggregation_mode=SimpleNamespace(value="null"),
        send_to_detokenizer=SimpleNamespace(socket=object()),
        server_args=SimpleNamespace(host="127.0.0.1", port=30000),
    )


def stand_in_scheduler() -> Any:  # noqa: ANN401 - stands for an engine's object
    """The engine's scheduler, as far as the probe looks."""
    return SimpleNamespace(
        draft_worker=SimpleNamespace(speculative_num_steps=DEPTH),
        running_batch=SimpleNamespace(reqs=[]),
        waiting_queue=[],
    )


def main() -> None:
    requests = int(sys.argv[1]) if sys.argv[1:] else 64
    with emptied_socket() as target:
        figures = {
            "requests": requests,
            "us_a_step_meta_only": round(measure(requests), 2),
            "us_a_step_one_sidecar": round(measure(requests, (target,)), 2),
            "us_a_step_changing_batch": round(measure(requests, (target,), changing=True), 2),
            "us_a_step_two_sidecars": round(measure(requests, (target, target)), 2),
        }
    print(json.dumps(figures))  # noqa: T201 - the figures are what the command is for


@contextmanager
def emptied_socket() -> Iterator[Target]:
    """A sidecar's socket that another process reads."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sink:
        path = Path(folder) / "probe.sock"
        sink.bind(str(path))
        path.chmod(0o600)
        reader = subprocess.Popen(  # noqa: S603 - this interpreter, a fixed program
            [sys.executable, "-c", _EMPTY, str(sink.fileno())], pass_fds=[sink.fileno()]
        )
        try:
            yield Target(str(path))
        finally:
            reader.terminate()
            reader.wait()


def _timed(step: Callable[[int], object]) -> float:
    start = time.thread_time()
    for number in range(STEPS):
        step(number)
    return (time.thread_time() - start) / STEPS * 1e6


if __name__ == "__main__":
    main()
