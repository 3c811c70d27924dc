"""The stage: a lab with the transfer race at hand, the real router in front, and traffic with known answers.

    prefill     4 workers, service times with a long tail (`replay.lab.load`); the router takes them in turn
    backlog     at the peak one of them has seconds of work in front of it, as after some long contexts: what
                is dealt to it waits longer than decode does
    decode      1 worker; a request that waits longer than `WAITING_S` for its KV is given up
    race        what giving up does is a switch: `unfixed` frees the pages while prefill may still write

Time runs as in `replay.lab.curve`, 160 times as fast as in production, but the waiting timeout is shorter and
answers last longer, so that a run of minutes has something to count. The simulator expects some 760 bad
answers in 10,000 at the peak, some in every block, with one request in five given up, and none idle.
"""

from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final, Self

import httpx
import msgspec

from replay.lab.bank import ANSWER_TOKENS, make_bank
from replay.lab.curve import LAYER_S, PREFILL_S, PREFILL_WORKERS, PROMPTS
from replay.lab.load import Load, PrefillTime
from replay.lab.router import Router
from replay.lab.serve import Lab, LabError, Options
from replay.lab.tokenizer import decode

WAITING_S: Final = 1.2
LONG_WAITING_S: Final = 20.0
"""A timeout that no queue here reaches."""

STEP_S: Final = 0.3
"""An answer takes some five steps; while it lasts, a late write may hit it."""

BACKLOG_S: Final = 1.8
"""Work in front of one prefill worker when a block at the peak begins: more, and a quarter of all requests is
given up, which is a backend that fails; less, and some blocks pass without a bad answer, or the fence takes
most of the failures along, as a trigger does."""

IDLE, PEAK = 0.30, 0.75
"""Share of time that a prefill worker is busy."""

HOT: Final = "prefill-0"
"""The control role of the worker with the backlog."""

ANSWERED_S: Final = 0.05
_LOGGED: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""When the logged traffic says it was; only the distances count."""


def rate_per_s(utilisation: float) -> float:
    """Requests a second that keep the prefill workers so busy."""
    prefill = PrefillTime(PREFILL_S)
    return Load(1, utilisation, PREFILL_WORKERS, prefill, PROMPTS).rate_per_s


def write_log(path: Path, requests: int, seed: int) -> None:
    """Copy tasks and their right answers as SGLang's request log would have them; one a second, Poisson."""
    bank, random, at_s = make_bank(PROMPTS, seed), Random(seed), 0.0
    with path.open("wb") as log:
        for number in range(requests):
            prompt = bank.prompts[number % len(bank)]
            came, ended = (_LOGGED + timedelta(seconds=at_s + took_s) for took_s in (0.0, ANSWERED_S))
            asked = {
                "rid": f"logged-{number}",
                "text": decode(prompt.tokens[1:]),  # the first is put in front of any text
                "sampling_params": {"max_new_tokens": ANSWER_TOKENS, "temperature": 0.0},
                "stream": True,
            }
            told = {"prompt_tokens": len(prompt.tokens), "completion_tokens": len(prompt.answer)}
            answer = {"text": decode(prompt.answer), "meta_info": told}
            log.write(_event("request.received", came, {"obj": asked}))
            log.write(_event("request.finished", ended, {"obj": asked, "out": answer}))
            at_s += random.expovariate(1.0)


def _event(name: str, at: datetime, fields: dict[str, Any]) -> bytes:
    rid = fields["obj"]["rid"]
    return msgspec.json.encode({"timestamp": at.isoformat(), "event": name, "rid": rid, **fields}) + b"\n"


class Stage:
    """Lab and router, started and stopped together."""

    def __init__(self, log_path: Path) -> None:
        self._log_path = log_path
        self._stack = AsyncExitStack()
        self.lab = Lab(Options(prefill=PREFILL_WORKERS, decode=1, step_ms=STEP_S * 1e3, log_path=log_path))
        self.target = ""

    def __repr__(self) -> str:
        return f"<Stage {self.target or 'not started'} {self.lab!r}>"

    @property
    def controls(self) -> dict[str, tuple[str, ...]]:
        """Where the knobs are, by role."""
        return {
            **{one.name: (f"{one.url}/lab/control",) for one in self.lab.prefill},
            "decode": tuple(f"{one.url}/lab/control" for one in self.lab.decode),
        }

    @property
    def metrics(self) -> tuple[str, ...]:
        """The pages of the worker that will have the backlog, and of decode."""
        return tuple(f"{one.url}/metrics" for one in (self.lab.prefill[0], *self.lab.decode))

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.lab)
            router = await stack.enter_async_context(Router(self.lab, self._log_path))
            self.target = router.url
            await self._set_pace()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _set_pace(self) -> None:
        time = PrefillTime(PREFILL_S)
        pace = {
            "prefill_ms": time.mean_s * 1e3,
            "tail_share": time.tail_share,
            "tail_factor": time.tail_factor,
            "layer_ms": LAYER_S * 1e3,
        }
        async with httpx.AsyncClient(trust_env=False) as client:
            for worker in self.lab.prefill:
                answer = await client.post(f"{worker.url}/lab/control", content=msgspec.json.encode(pace))
                if answer.is_error:
                    raise LabError(f"control refused: {answer.text}")
