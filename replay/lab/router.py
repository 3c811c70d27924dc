"""The real router in front of the lab: smg 1.13 in prefill-decode mode, as a process of ours.

    async with Router(lab, log_path) as router:
        router.url

Prefill workers are taken in turn; decode workers by consistent hashing, so that `x-smg-target-worker:
INDEX` pins one (round robin would hit the same decode worker twice in a row for more than half of all
retries). The router's own retries are off: what to do about a bad answer is the sidecar's decision. Its
ports are loopback ones.
"""

import sys
from pathlib import Path
from typing import ClassVar

import httpx

from replay.child import HOST, Child, free_port
from replay.lab.serve import Lab

DEFAULT_BINARY = Path(sys.prefix).with_name(".venv-router") / "bin" / "smg"
"""`make setup` gives the router an environment of its own: two router wheels fight for the name `smg`."""


class RouterError(RuntimeError):
    """The router's: it is missing, does not start, or does not see its workers."""


class Router(Child):
    """One smg process. It is ready once it sees every worker."""

    name: ClassVar[str] = "router"
    error: ClassVar[type[RuntimeError]] = RouterError

    def __init__(self, lab: Lab, log_path: Path, *, binary: Path = DEFAULT_BINARY, port: int = 0) -> None:
        """Prepare a router for a lab that runs; port 0 takes a free one."""
        super().__init__(log_path)
        self._lab = lab
        self._binary = binary
        self.port = port
        self.metrics_port = 0

    @property
    def metrics_url(self) -> str:
        """Where its Prometheus endpoint is."""
        return f"http://{HOST}:{self.metrics_port}/metrics"

    async def stop(self, *, within_s: float = 0.0) -> None:
        """End it at once: asked politely it listens for 5 s more, for load balancers that we do not have."""
        await super().stop(within_s=within_s)

    def command(self) -> list[str]:
        """Return smg's command line; its workers are the lab's."""
        if not self._binary.exists():
            raise RouterError(f"{self._binary} is missing: run `make setup`")
        self.metrics_port = free_port()
        prefill = [
            part for one in self._lab.prefill for part in ("--prefill", one.url, str(one.bootstrap_port))
        ]
        decode = [part for one in self._lab.decode for part in ("--decode", one.url)]
        return [
            *(str(self._binary), "launch", "--pd-disaggregation", *prefill, *decode),
            *("--prefill-policy", "round_robin", "--decode-policy", "consistent_hashing"),
            *("--disable-retries", "--disable-tokenizer-autoload", "--worker-startup-check-interval", "1"),
            *("--host", HOST, "--port", str(self.port)),
            *("--prometheus-host", HOST, "--prometheus-port", str(self.metrics_port)),
        ]

    def environment(self) -> dict[str, str]:
        """Return ours, and no colours in the log."""
        return {**super().environment(), "NO_COLOR": "1"}

    async def is_ready(self, client: httpx.AsyncClient) -> bool:
        """Ask how many workers it holds for healthy."""
        answer = await client.get(f"{self.url}/readiness")
        return int(answer.json().get("healthy_workers", 0)) >= len(self._lab.workers)
