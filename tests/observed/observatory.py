"""A real Prometheus and a real Alertmanager, as processes of ours, on the loopback."""

import asyncio
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx
import yaml

from replay.child import free_port, tether

HOST: Final = "127.0.0.1"
READY_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Routed:
    """What the Alertmanager does about an alert."""

    receiver: str
    inhibited: bool


class Observatory:
    """Scrapes the targets every second and evaluates the shipped rules, their `for` left out."""

    def __init__(self, folder: Path, root: Path, targets: Mapping[str, Sequence[str]]) -> None:
        self._folder, self._root, self._targets = folder, root, targets
        self._processes: list[subprocess.Popen[bytes]] = []
        self._prometheus, self._alertmanager = free_port(), free_port()
        self._client = httpx.AsyncClient(trust_env=False, timeout=10)

    async def __aenter__(self) -> Self:
        (self._folder / "prometheus.yaml").write_text(yaml.safe_dump(self._config()))
        self._start(
            "alertmanager",
            f"--config.file={self._root / 'docker/alertmanager/alertmanager.yaml'}",
            f"--storage.path={self._folder / 'alertmanager'}",
            f"--web.listen-address={HOST}:{self._alertmanager}",
            "--cluster.listen-address=",
        )
        self._start(
            "prometheus",
            f"--config.file={self._folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={self._folder / 'tsdb'}",
            f"--web.listen-address={HOST}:{self._prometheus}",
            "--rules.alert.resend-delay=2s",  # the first word may come before the Alertmanager is known
        )
        await self._ready()
        await self._judge_from_now_on()
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.terminate()
            await asyncio.to_thread(process.wait)
        await self._client.aclose()

    async def query(self, expr: str) -> list[dict[str, Any]]:
        """The series of an expression now."""
        answer = await self._client.get(
            f"http://{HOST}:{self._prometheus}/api/v1/query", params={"query": expr}
        )
        found: list[dict[str, Any]] = answer.json()["data"]["result"]
        return found

    async def firing(self) -> set[str]:
        """Alerts that Prometheus holds for firing."""
        return {one["metric"]["alertname"] for one in await self.query('ALERTS{alertstate="firing"}')}

    async def routed(self) -> dict[str, Routed]:
        """Alerts that the Alertmanager has taken, who is told, and whether another alert keeps them quiet."""
        answer = await self._client.get(f"http://{HOST}:{self._alertmanager}/api/v2/alerts")
        return {
            one["labels"]["alertname"]: Routed(
                one["receivers"][0]["name"], inhibited=bool(one["status"]["inhibitedBy"])
            )
            for one in answer.json()
        }

    async def remember(self, series: str, value: float) -> None:
        """Before the start: this series has been at that value for a day, until an hour ago."""
        now = int(datetime.now(UTC).timestamp())
        name = series.partition("{")[0]
        lines = [f"{series} {value} {at}" for at in range(now - 25 * 3600, now - 3600, 60)]
        page = self._folder / "history.txt"
        page.write_text("\n".join([f"# TYPE {name} gauge", *lines, "# EOF", ""]))
        words = (
            "promtool",
            "tsdb",
            "create-blocks-from",
            "openmetrics",
            str(page),
            str(self._folder / "tsdb"),
        )
        making = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.DEVNULL)
        assert await making.wait() == 0

    def _config(self) -> dict[str, Any]:
        return {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(self._folder / "rules.yaml")],
            "alerting": {
                "alertmanagers": [{"static_configs": [{"targets": [f"{HOST}:{self._alertmanager}"]}]}]
            },
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": list(targets)}]}
                for job, targets in self._targets.items()
            ],
        }

    def _start(self, name: str, *arguments: str) -> None:
        command = [*tether(), name if name != "alertmanager" else "prometheus-alertmanager", *arguments]
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes.append(subprocess.Popen(command, stdout=log, stderr=log))

    async def _ready(self) -> None:
        async with asyncio.timeout(READY_S):
            for port in (self._prometheus, self._alertmanager):
                while not await self._answers(f"http://{HOST}:{port}/-/ready"):  # noqa: ASYNC110 - it is remote
                    await asyncio.sleep(0.1)

    async def _judge_from_now_on(self) -> None:
        """Give Prometheus its rules: not before each target was asked, or all of them would be absent."""
        while len(await self.query("up")) < sum(map(len, self._targets.values())):  # noqa: ASYNC110 - it is remote
            await asyncio.sleep(0.1)
        rules = yaml.safe_load((self._root / "alerts.yaml").read_text())
        for group in rules["groups"]:
            for rule in group["rules"]:
                rule.pop("for", None)
        (self._folder / "rules.yaml").write_text(yaml.safe_dump(rules))
        self._processes[-1].send_signal(signal.SIGHUP)

    async def _answers(self, url: str) -> bool:
        try:
            return (await self._client.get(url)).is_success
        except httpx.HTTPError:
            return False
