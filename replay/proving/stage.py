"""The stage: a lab with the transfer race at hand, the real router in front, and traffic with known answers.

    prefill     4 workers, service times with a long tail (`replay.lab.load`); their queues are the dose
    decode      1 worker; a request that waits longer than `WAITING_S` for its KV is given up
    race        what giving up does is a switch: `unfixed` frees the pages while prefill may still write

Time runs as in `replay.lab.curve`, 160 times as fast as in production, but the waiting timeout is shorter and
answers last longer, so that a run of minutes has something to count. The simulator expects some 380 bad
answers in 10,000 at the peak, in every block of 220 requests, and some 30 idle; behind the real router, which
deals requests out evenly, it is about half as many.
"""

from contextlib import AsyncExitStack
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
from replay.lab.tokenizer import EOS, decode
from replay.trace import FORMAT, TraceHeader, TraceRequest

WAITING_S: Final = 0.75
LONG_WAITING_S: Final = 20.0
"""A timeout that no queue here reaches."""

STEP_S: Final = 0.3
"""An answer takes some five steps; while it lasts, a late write may hit it."""

BACKLOG_S: Final = 0.55
"""Work put before each prefill worker as a block at the peak begins, about its mean wait at that load."""

IDLE, PEAK = 0.30, 0.9
"""Share of time that a prefill worker is busy; as on the load curve."""


def rate_per_s(utilisation: float) -> float:
    """Requests a second that keep the prefill workers so busy."""
    prefill = PrefillTime(PREFILL_S)
    return Load(1, utilisation, PREFILL_WORKERS, prefill, PROMPTS).rate_per_s


def traffic(requests: int, seed: int) -> tuple[TraceHeader, list[TraceRequest]]:
    """Copy tasks whose right answer the model has given alone; Poisson, one a second: plans set the rate."""
    bank, random = make_bank(PROMPTS, seed), Random(seed)
    made, at_s = [], 0.0
    for number in range(requests):
        prompt = bank.prompts[number % len(bank)]
        answer = prompt.answer[:-1] if prompt.answer[-1] == EOS else prompt.answer
        body: dict[str, Any] = {
            "text": decode(prompt.tokens[1:]),  # the first is put in front of any text
            "sampling_params": {"max_new_tokens": ANSWER_TOKENS, "temperature": 0},
            "stream": True,
        }
        expected = decode(answer)
        made.append(TraceRequest(id=str(number), at_s=at_s, path="/generate", body=body, expected=expected))
        at_s += random.expovariate(1.0)
    return TraceHeader(format=FORMAT, source="the lab's copy tasks"), made


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
            "prefill": tuple(f"{one.url}/lab/control" for one in self.lab.prefill),
            "decode": tuple(f"{one.url}/lab/control" for one in self.lab.decode),
        }

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
            for url in self.controls["prefill"]:
                answer = await client.post(url, content=msgspec.json.encode(pace))
                if answer.is_error:
                    raise LabError(f"control refused: {answer.text}")
