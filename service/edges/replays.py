"""What came of replaying a case: told by `specguard replay`, kept at the case, counted.

    POST /api/cases/ID/replays    {"verdict": "LOAD-DEPENDENT", "p": 0.001, "plan_hash": "...", ...}
    GET  /api/cases/ID/replays    newest first

The harness runs elsewhere and tells only what it counted: no text comes back this way.
"""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final

import structlog
from fastapi import APIRouter, HTTPException
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from service.edges.catalogue import REPLAY_VERDICTS
from service.edges.records import StoreAwayError

if TYPE_CHECKING:
    from service.edges.api import Admin

_log = structlog.get_logger(__name__)

NOTE_S: Final = 10.0
"""How long a note may wait for the writer."""


def _known(verdict: str) -> str:
    if verdict not in REPLAY_VERDICTS:
        raise ValueError(f"one of {', '.join(REPLAY_VERDICTS)}")
    return verdict


Verdict = Annotated[str, AfterValidator(_known)]
Rate = Annotated[float, Field(ge=0, le=10_000)]


class Told(BaseModel):
    """What a replay says of itself."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    verdict: Verdict
    reproduced: bool
    p: Annotated[float, Field(ge=0, le=1)]
    low_per_10k: Rate | None = None
    high_per_10k: Rate | None = None
    requests: Annotated[int, Field(ge=0)]
    seconds: Annotated[float, Field(ge=0)]
    plan_hash: Annotated[str, Field(pattern=r"^[0-9a-f]{1,64}$")]


def add_paths(router: APIRouter, admin: "Admin") -> None:
    """The two paths, behind the admin token like all of /api."""

    @router.post("/cases/{own_id}/replays", status_code=201)
    async def note(own_id: str, told: Told) -> dict[str, str]:
        kept = await _noted(admin, own_id, told)
        if not kept:
            raise HTTPException(404, "no such case")
        admin.metrics.count("replays", told.verdict)
        _log.info("case_replayed", id=own_id, verdict=told.verdict)
        return {"case": own_id, "verdict": told.verdict}

    @router.get("/cases/{own_id}/replays")
    async def replays(own_id: str) -> dict[str, Any]:
        return {"replays": await admin.records.replays(own_id)}


async def _noted(admin: "Admin", case: str, told: Told) -> int:
    try:
        async with asyncio.timeout(NOTE_S):
            rest = told.model_dump(exclude={"verdict"})
            return await asyncio.wrap_future(admin.store.note_replay(case, told.verdict, rest))
    except Exception:  # noqa: BLE001 - whatever the database raised, and the time that ran out
        raise StoreAwayError("the store cannot be written now") from None
