"""What works where: router x mode x dialect x telemetry x steering.

Telemetry of a dialect says how verify steps are known: `growth` (an upper bound, exact while chunks do not
merge), `exact` with the probe, or `none`. The rows were observed on smg 1.13.0, sglang-router 0.3.2 and
SGLang 0.5.23; what was never run is marked unsupported rather than hoped for.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

import msgspec

from service.core.doctor.facts import UNTOLD, Engine, Facts, RouterKind
from service.core.doctor.routers import Steering, steering


class Mode(StrEnum):
    REGULAR = "regular"
    PD = "pd"
    GRPC = "grpc"
    DP_AWARE = "dp-aware"


class Telemetry(StrEnum):
    EXACT = "exact"
    GROWTH = "growth"
    NONE = "none"


CHAT: Final = "/v1/chat/completions"
GENERATE: Final = "/generate"


class Capability(msgspec.Struct, frozen=True):
    """One row."""

    router: str
    mode: Mode
    dialect: str
    telemetry: Telemetry  # without the probe
    with_probe: Telemetry
    pins: str  # the policy under which a retry can be pinned; "" where none can
    supported: bool = True
    note: str = ""


_RIDS: Final = "the router drops rid and continuous_usage_stats; the probe joins by the chunk's id"
_UNSEEN: Final = "never run: streams pass unjudged"
_BLIND: Final = "where it passes bodies on as they are; never run"
_RANKS: Final = "never run: a rank has no URL of its own"


def _rows() -> Iterator[Capability]:
    growth, exact, none = Telemetry.GROWTH, Telemetry.EXACT, Telemetry.NONE
    smg, old, direct = RouterKind.SMG, RouterKind.SGLANG_ROUTER, RouterKind.NONE
    for mode in (Mode.REGULAR, Mode.PD):
        yield Capability(smg, mode, CHAT, growth, exact, "consistent_hashing")
        yield Capability(smg, mode, GENERATE, growth, exact, "consistent_hashing")
        yield Capability(old, mode, CHAT, none, exact, "", note=_RIDS)
        yield Capability(old, mode, GENERATE, growth, exact, "")
    yield Capability(direct, Mode.REGULAR, CHAT, growth, exact, "", note="one worker: nowhere to retry")
    yield Capability(direct, Mode.REGULAR, GENERATE, growth, exact, "", note="one worker: nowhere to retry")
    for dialect in (CHAT, GENERATE):
        yield Capability(RouterKind.OTHER, Mode.REGULAR, dialect, growth, exact, "", note=_BLIND)
    for kind in (smg, old):
        for mode, why in ((Mode.GRPC, _UNSEEN), (Mode.DP_AWARE, _RANKS)):
            for dialect in (CHAT, GENERATE):
                yield Capability(kind, mode, dialect, none, none, "", supported=False, note=why)


CAPABILITIES: Final = tuple(_rows())


class Here(msgspec.Struct, frozen=True):
    """Which rows are this fleet's, and what they come to with its settings."""

    router: str
    mode: Mode
    policy: str
    steering: Steering
    engines: tuple[str, ...]
    supported: bool
    rows: tuple[Capability, ...]


def here(facts: Facts, unsupported: frozenset[str]) -> Here:
    """`unsupported`: codes of findings that say so."""
    router = facts.router
    mode = Mode.PD if facts.pd else Mode.REGULAR
    mode = next((one for one in (Mode.GRPC, Mode.DP_AWARE) if one.replace("-", "_") in unsupported), mode)
    rows = tuple(row for row in CAPABILITIES if row.router == router.kind and row.mode is mode)
    engines = sorted({worker.engine for worker in facts.workers if not worker.trouble})
    if Engine.VLLM in engines:
        rows = tuple(_of_vllm(row) for row in rows if row.dialect == CHAT)
    if _all_plain(facts):
        rows = tuple(_of_plain(row) for row in rows)
    return Here(
        router=router.kind,
        mode=mode,
        policy=router.policy or "unknown",
        steering=steering(router.kind, router.policy),
        engines=tuple(engines),
        supported=bool(rows) and all(row.supported for row in rows),
        rows=rows,
    )


def _all_plain(facts: Facts) -> bool:
    """Whether every worker that answers has said that it does not speculate."""
    said = [worker.info for worker in facts.of("decode", "regular") if worker.info is not None]
    return bool(said) and all(info.steps == UNTOLD for info in said)


def _of_plain(row: Capability) -> Capability:
    """The row where there are no verify steps that could be told."""
    none = Telemetry.NONE
    return msgspec.structs.replace(
        row, telemetry=none, with_probe=none, note=row.note or "no speculative decoding"
    )


def _of_vllm(row: Capability) -> Capability:
    """The row as vLLM has it: no /generate of SGLang's, and no probe."""
    return msgspec.structs.replace(
        row, with_probe=row.telemetry, note=row.note or "vLLM: the probe is SGLang's"
    )
