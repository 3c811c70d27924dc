"""What the sidecar says it saw, from its admin port: incidents with their attempts, and how many cases.

Only rids, levels and detectors are read: the join with the truth needs nothing else. The writer works a
second behind, so the reader waits until as many incidents are stored as the sidecar says it has made.
"""

import asyncio
from dataclasses import dataclass
from time import monotonic
from typing import Any

import httpx

PAGE = 500
STORED_S = 10.0
"""A store that is this far behind has lost something; what it has is read all the same."""

MADE = "specguard_incidents_total"


@dataclass(frozen=True, slots=True)
class SeenAttempt:
    """One attempt as the sidecar judged it."""

    rid: str = ""
    level: str = "clean"
    kind: str = ""
    detector: str = ""
    log10_e: float = 0.0
    accept_length: float | None = None
    tokens: int | None = None
    second_opinion: bool = False
    """Taken back on a suspicion alone: suspect, and another attempt followed."""

    @property
    def verdict(self) -> bool:
        """Whether it was judged corrupt."""
        return self.level == "corrupt"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the sidecar recorded of one request; nothing recorded: no attempts."""

    rid: str
    outcome: str = ""
    attempts: tuple[SeenAttempt, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that the sidecar kept of the run."""

    seen: dict[str, Seen]
    cases: int


async def collect(admin_url: str, *, stored_s: float = STORED_S) -> Evidence:
    """Read every incident and count the cases."""
    async with httpx.AsyncClient(base_url=admin_url, trust_env=False, timeout=30) as client:
        found = await _stored(client, stored_s)
        return Evidence({one["rid"]: read(one) for one in found}, await _count_cases(client))


def read(incident: dict[str, Any]) -> Seen:
    """Read one incident as the admin port tells it."""
    rows = sorted(incident["attempts"], key=lambda row: row["ordinal"])
    attempts = tuple(_attempt(row, last=row is rows[-1]) for row in rows)
    return Seen(incident["rid"], incident["outcome"], attempts)


def _attempt(row: dict[str, Any], *, last: bool) -> SeenAttempt:
    return SeenAttempt(
        rid=row["rid"],
        level=row["level"],
        kind=row["kind"],
        detector=row["detector"],
        log10_e=row["log10_e"],
        accept_length=row["accept_length"],
        tokens=row["tokens"],
        second_opinion=row["level"] == "suspect" and not last,
    )


async def _stored(client: httpx.AsyncClient, stored_s: float) -> list[dict[str, Any]]:
    """Return every incident, once all that were made are stored."""
    until = monotonic() + stored_s
    while True:
        made, found = made_so_far((await client.get("/metrics")).text), await _incidents(client)
        if len(found) >= made or monotonic() > until:
            return found
        await asyncio.sleep(0.2)


def made_so_far(metrics: str) -> int:
    """Read the sidecar's own count of incidents from its Prometheus text."""
    lines = (
        line.rsplit(" ", 1) for line in metrics.splitlines() if line.startswith((MADE + "{", MADE + " "))
    )
    return sum(int(float(value)) for _, value in lines)


async def _incidents(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    before: str | None = ""
    while before is not None:
        page = await _get(client, "/api/incidents", limit=PAGE, **({"before": before} if before else {}))
        found += page["incidents"]
        before = page["next_before"]
    return found


async def _count_cases(client: httpx.AsyncClient) -> int:
    ids: set[str] = set()
    before: str | None = ""
    while before is not None:
        page = await _get(client, "/api/cases", limit=PAGE, **({"before": before} if before else {}))
        ids |= {row["id"] for row in page["cases"]}
        before = page["next_before"]
    return len(ids)


async def _get(client: httpx.AsyncClient, path: str, **wanted: str | int) -> Any:  # noqa: ANN401 (any JSON value)
    return (await client.get(path, params=wanted)).raise_for_status().json()
