"""The sidecar under test: `specguard serve` as a process of ours, told everything by a file.

The caller says how the command is started, for replay knows the service over the wire only. Settings of
whoever runs the demo (SPECGUARD_*) are kept away from it: the demo is the same everywhere.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import httpx
import yaml

from replay.child import HOST, Child, free_port

GRACE_S = 2.0
"""For open streams once it is told to end: whoever read them has gone by then."""


class SidecarError(RuntimeError):
    """Ours: the sidecar does not start, or has ended."""


class Sidecar(Child):
    """One `specguard serve`."""

    name: ClassVar[str] = "sidecar"
    error: ClassVar[type[RuntimeError]] = SidecarError

    def __init__(
        self,
        command: Sequence[str],
        router_url: str,
        folder: Path,
        *,
        data_port: int = 0,
        admin_port: int = 0,
    ) -> None:
        """Prepare; port 0 takes a free one. Everything it writes goes into `folder`."""
        super().__init__(folder / "specguard.log")
        self._command = command
        self._router_url = router_url
        self._folder = folder
        self.port = data_port
        self.admin_port = admin_port

    @property
    def admin_url(self) -> str:
        """Where incidents, health and metrics are."""
        return f"http://{HOST}:{self.admin_port}"

    def command(self) -> list[str]:
        """Return `serve` with its settings in a file of their own."""
        self.admin_port = self.admin_port or free_port()
        file = self._folder / "specguard.yaml"
        file.write_text(yaml.safe_dump(self._settings()), encoding="utf-8")
        return [*self._command, "--config", str(file)]

    def environment(self) -> dict[str, str]:
        """Return ours without SPECGUARD_*; threads for mathematics only cost here."""
        ours = super().environment().items()
        kept = {name: value for name, value in ours if not name.startswith("SPECGUARD_")}
        return {**kept, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

    async def is_ready(self, client: httpx.AsyncClient) -> bool:
        """Ask its admin port."""
        return (await client.get(f"{self.admin_url}/readyz")).is_success

    def _settings(self) -> dict[str, Any]:
        """Capture everything: these prompts are nobody's. Clients say which policy they want."""
        return {
            "router": self._router_url,
            "data_host": HOST,
            "data_port": self.port,
            "admin_host": HOST,
            "admin_port": self.admin_port,
            "store": f"sqlite+aiosqlite:///{self._folder / 'specguard.db'}",
            "capture": "full",
            "policy": "protect",
            "allow_policy_header": ["protect", "strict"],
            "timeouts": {"drain_s": GRACE_S},
        }
