"""The clients that are compared, each in an environment of its own, and what a run of one costs.

CPU and memory are the kernel's own count of a finished process and all its children (`wait4`).
"""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import msgspec

from replay.bench.replaying import Pace, make_plan
from replay.mock import CHUNKS, PACE_MS

STREAMS: Final = 100
STREAM_S: Final = CHUNKS * PACE_MS / 1e3
RATE_PER_S: Final = STREAMS / (1.02 * STREAM_S)
"""A stream begins when one has ended; a fiftieth is for what that takes."""
QUICK_SHARE: Final = 4
"""A quick look has so much fewer requests."""
RUN_S: Final = 900.0
ENVIRONMENTS: Final = Path(sys.prefix).parent
WORDS: Final = 32
"""Of a prompt."""
TOKENIZER: Final = Path(__file__).with_name("small_tokenizer.py")
RUST: Final = Path(__file__).with_name("sglang_rust.py")


class ArmError(RuntimeError):
    """A client could not be run."""


class Spent(NamedTuple):
    """What one run of a client took."""

    cpu_s: float
    peak_mb: float
    requests: int
    told: dict[str, Any]


class Arm(msgspec.Struct, frozen=True):
    """One client."""

    name: str
    command: Callable[["Field", int], Sequence[str | Path]]
    python: str = ""  # its environment; "" for ours
    small: int = 200
    large: int = 2000
    slow: bool = False

    def sizes(self, *, quick: bool) -> tuple[int, int]:
        return (
            (self.small, self.small + (self.large - self.small) // QUICK_SHARE)
            if quick
            else (self.small, self.large)
        )


class Field:
    """The mock, a folder, and clients one after the other."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.cpu_s = 0.0
        self._mock: subprocess.Popen[str] | None = None
        self.url = ""

    def __repr__(self) -> str:
        return f"<Field {self.url}>"

    def __enter__(self) -> Self:
        self._mock, self.url = _mock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._mock is not None:
            self._mock.kill()
            self._mock.communicate()

    def run(self, arm: Arm, requests: int) -> Spent:
        """One run of one client."""
        before = asked(self.url)
        spent = finished(arm.command(self, requests), self.home)
        self.cpu_s += spent.cpu_s
        came = asked(self.url) - before
        if came < requests:
            raise ArmError(f"{arm.name} sent {came} of {requests} requests")
        return spent._replace(requests=came)

    def plan(self, requests: int, at_once: int = STREAMS) -> Path:
        """A plan that holds `STREAMS` streams open."""
        path = self.home / f"{requests}-{at_once}.plan"
        return path if path.exists() else make_plan(path, Pace(requests, RATE_PER_S, at_once))

    def paced(self, plan: Path) -> Spent:
        """The plan over a mock that answers at once."""
        mock, url = _mock("--chunks", "8", "--pace-ms", "20")
        try:
            spent = finished(_replaying(url, plan, self.home), self.home)
        finally:
            mock.kill()
            mock.communicate()
        self.cpu_s += spent.cpu_s
        return spent

    def tokenizer(self, python: Path) -> Path:
        """A small one, made with the client's own libraries: nothing is downloaded."""
        folder = self.home / "tokenizer"
        if not folder.exists():
            finished([python, TOKENIZER, folder], self.home)
        return folder


def asked(url: str) -> int:
    """How many requests the mock has got."""
    with urllib.request.urlopen(f"{url}/count", timeout=10) as page:  # noqa: S310 - a loopback http URL
        return int(json.loads(page.read())["requests"])


def finished(command: Sequence[str | Path], home: Path) -> Spent:
    """Run a command to its end; its last line is what it tells, where that is JSON."""
    out = home / "out.txt"
    words = [str(word) for word in command]
    try:
        with out.open("wb") as file:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    except OSError as error:
        raise ArmError(f"{words[0]}: {error.strerror}; `make bench-replay` installs it") from None
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    lines = out.read_text(errors="replace").splitlines()
    if process.returncode:
        raise ArmError(f"{Path(words[0]).name} failed: {' '.join(lines[-3:])[-500:]}")
    return Spent(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, 0, _json(lines[-1:]))


def _json(lines: Sequence[str]) -> dict[str, Any]:
    try:
        value = json.loads(lines[0])
    except (IndexError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _mock(*words: str) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "replay.mock", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    if process.stdout is None or not (url := process.stdout.readline().strip()):
        raise ArmError("the mock did not come up")
    return process, url


def _replaying(url: str, plan: Path, home: Path, *more: str) -> list[str | Path]:
    results = home / "results"
    results.unlink(missing_ok=True)
    return [sys.executable, "-m", "replay.bench.replaying", url, plan, results, *more]


def _ours(field: Field, requests: int) -> list[str | Path]:
    return _replaying(field.url, field.plan(requests), field.home)


def _staggered(field: Field, requests: int) -> list[str | Path]:
    return _replaying(field.url, field.plan(requests, 0), field.home)


def _judged(field: Field, requests: int) -> list[str | Path]:
    return _replaying(field.url, field.plan(requests), field.home, "--judge")


def _rust_at_once(field: Field, requests: int) -> list[str | Path]:
    return _rust(field, requests, "--max-concurrency", str(STREAMS))


def _rust_staggered(field: Field, requests: int) -> list[str | Path]:
    return _rust(field, requests, "--request-rate", str(RATE_PER_S))


def _rust(field: Field, requests: int, *load: str) -> list[str | Path]:
    extension = next(
        (ENVIRONMENTS / ".venv-bench-sglang").glob(
            "lib/*/site-packages/sglang/srt/rust_extensions/_bench.*.so"
        ),
        None,
    )
    if extension is None:
        raise ArmError(".venv-bench-sglang holds no sglang._bench; `make bench-replay` installs it")
    return [
        *(ENVIRONMENTS / ".venv-bench-sglang" / "bin" / "python", RUST, extension),
        *("--backend", "sglang-oai", "--base-url", field.url, "--model", "mock"),
        *("--dataset-name", "random-ids", "--tokenize-prompt", "--vocab-size", "1000"),
        *("--random-input-len", str(WORDS), "--random-output-len", str(CHUNKS), "--random-range-ratio", "1"),
        *("--num-prompts", str(requests), "--worker-threads", "1", *load),
        *("--warmup-requests", "0", "--disable-tqdm", "--output-details"),
        *("--output-file", field.home / "rust.jsonl"),
    ]


def _aiperf(field: Field, requests: int) -> list[str | Path]:
    home = ENVIRONMENTS / ".venv-bench-aiperf" / "bin"
    return [
        *(home / "aiperf", "profile", "--model", "mock", "--url", field.url),
        *("--endpoint-type", "chat", "--streaming", "--tokenizer", field.tokenizer(home / "python")),
        *("--concurrency", str(STREAMS), "--request-count", str(requests), "--ui", "none"),
        *("--synthetic-input-tokens-mean", str(WORDS), "--output-tokens-mean", str(CHUNKS)),
        *("--artifact-dir", field.home / "aiperf"),
    ]


def _guidellm(field: Field, requests: int) -> list[str | Path]:
    home = ENVIRONMENTS / ".venv-bench-guidellm" / "bin"
    return [
        *(home / "guidellm", "run", "--backend", f"kind=openai_http,target={field.url},model=mock"),
        *("--tokenizer", f"kind=hf_auto,model={field.tokenizer(home / 'python')}"),
        *("--profile", f"kind=concurrent,streams={STREAMS}"),
        *("--constraint", f"kind=max_requests,count={requests}"),
        *("--data", f"kind=synthetic_text,prompt_tokens={WORDS},output_tokens={CHUNKS}"),
        *(
            "--output",
            f"kind=json,path={field.home / 'guidellm.json'}",
            "--disable-progress",
            "--disable-console",
        ),
    ]


ARMS: Final = (
    Arm("ours", _ours),
    Arm("sglang_rust", _rust_at_once, ".venv-bench-sglang"),
    Arm("judged", _judged),
    Arm("ours_staggered", _staggered),
    Arm("sglang_rust_staggered", _rust_staggered, ".venv-bench-sglang"),
    Arm("aiperf", _aiperf, ".venv-bench-aiperf", 100, 900, slow=True),
    Arm("guidellm", _guidellm, ".venv-bench-guidellm", 100, 900, slow=True),
)
