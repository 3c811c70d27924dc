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
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any, Final

from service.probe.sender import Sender
from service.probe.settings import Settings, Target
from service.probe.taps import Taps

ROUNDS: Final = 15
STEPS: Final = 200
DEPTH: Final = 3
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


def measure(requests: int, targets: tuple[Target, ...] = ()) -> float:
    """Microseconds a step: the median of the rounds' means, the stand-ins' own work taken out."""
    taps = Taps(Settings(targets=targets), Sender.of(Settings(targets=targets)))
    streamer = stand_in_streamer()
    batch = [StandIn(f"{place:032x}") for place in range(requests)]

    def step() -> None:
        taps.step(streamer, batch)
        if taps.wants_meta():
            taps.counts(batch)

    full, bare = [], []
    for _ in range(ROUNDS):
        full.append(_timed(batch, step))
        bare.append(_timed(batch, lambda: None))
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


def main() -> None:
    requests = int(sys.argv[1]) if sys.argv[1:] else 64
    with emptied_socket() as target:
        figures = {
            "requests": requests,
            "us_a_step_meta_only": round(measure(requests), 2),
            "us_a_step_one_sidecar": round(measure(requests, (target,)), 2),
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


def _timed(batch: list[StandIn], step: Callable[[], None]) -> float:
    start = time.thread_time()
    for number in range(STEPS):
        for place, request in enumerate(batch):
            request.verify((number + place) % (DEPTH + 1))
        step()
    return (time.thread_time() - start) / STEPS * 1e6


if __name__ == "__main__":
    main()
