"""One engine with speculation, one feed that hears its probe, one report of what was seen."""

import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from service.core.probe_feed import ProbeFeed
from service.edges.collectors.probe import ProbeReceiver
from tests.sglang.engine import NGRAM, Engine, engine
from tests.sglang.talk import Answer, Talk

REPORT: Final = Path(__file__).parent / "report.json"
CAPTURES: Final = Path(__file__).parents[1] / "fixtures" / "probe"
KEEP: Final = os.environ.get("SPECGUARD_SGLANG_KEEP") == "1"
"""Write the captures and the report that the tree keeps."""


class KeepingFeed(ProbeFeed):
    """A feed that also keeps the datagrams, for the captures."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.datagrams: list[bytes] = []

    def read(self, datagram: bytes, now: float, key: bytes = b"") -> None:
        self.datagrams.append(datagram)
        super().read(datagram, now, key)


class Figures(dict[str, Any]):
    """What was measured, for the report."""

    def keep(self, name: str, answer: Answer, datagrams: list[bytes]) -> None:
        """A capture, for the tests that run without an engine."""
        if KEEP:
            (CAPTURES / f"{name}.sse").write_bytes(answer.raw)
            (CAPTURES / f"{name}.hex").write_text("".join(f"{one.hex()}\n" for one in datagrams))


@pytest.fixture(scope="session")
def home() -> Path:
    """Where the engine is installed: `make test-sglang` says so."""
    return Path(os.environ["SPECGUARD_SGLANG_DIR"])


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sglang")


@pytest.fixture(scope="session")
def figures() -> Iterator[Figures]:
    found = Figures()
    yield found
    if KEEP:
        known = json.loads(REPORT.read_text()) if REPORT.exists() else {}
        REPORT.write_text(json.dumps({**known, **found}, indent=1, sort_keys=True) + "\n")


@pytest.fixture(scope="session")
async def feed(folder: Path) -> AsyncIterator[KeepingFeed]:
    """Hears the probe on this machine."""
    one = KeepingFeed(folder / "probe.sock")
    receiver = ProbeReceiver(one)
    receiver.listen_unix(one.path)
    yield one
    receiver.close()


@pytest.fixture(scope="session")
async def remote(folder: Path) -> AsyncIterator[tuple[ProbeFeed, int]]:
    """A second sidecar, on UDP."""
    key = folder / "key"
    key.write_text("a key for the test, long enough")
    key.chmod(0o600)
    one = ProbeFeed()
    receiver = ProbeReceiver(one)
    port = receiver.listen_udp("127.0.0.1", 0, key.read_bytes())
    yield one, port
    receiver.close()


@pytest.fixture(scope="session")
def sidecar_socket(folder: Path) -> Path:
    """Where a sidecar of its own process will listen; nobody does before."""
    return folder / "sidecar.sock"


@pytest.fixture(scope="session")
def fault(folder: Path) -> Path:
    """Written, it corrupts the KV of the next running request, once; see the kit's serve.sh."""
    return folder / "fault.json"


@pytest.fixture(scope="session")
def probe(
    folder: Path, feed: KeepingFeed, remote: tuple[ProbeFeed, int], sidecar_socket: Path, fault: Path
) -> dict[str, str]:
    """An engine's environment: a probe that tells three sidecars, and a way to break it."""
    return {
        "SPECGUARD_PROBE": f"unix:{feed.path},unix:{sidecar_socket},udp:127.0.0.1:{remote[1]}",
        "SPECGUARD_PROBE_KEY_FILE": str(folder / "key"),
        "SGLANG_CPU_FAULT": str(fault),
    }


@pytest.fixture(scope="session")
def ngram(home: Path, folder: Path, probe: dict[str, str]) -> Iterator[Engine]:
    """SGLang with n-gram speculation."""
    flags = (*NGRAM, "--max-running-requests", "32", "--decode-log-interval", "5")
    with engine(home, folder / "ngram.log", "unified", flags, probe) as one:
        yield one


@pytest.fixture(scope="session")
async def talk(ngram: Engine) -> AsyncIterator[Talk]:
    async with httpx.AsyncClient(base_url=ngram.url, timeout=300, trust_env=False) as client:
        yield Talk(client)
