"""The play of a scenario: a lab of its own, agents that send work, and what they see.

    async with Stage(SCENARIOS["storm"], seconds=60) as stage:
        seen = await stage.play(print)

In each phase some switches are thrown (`/lab/control`) and agents send the steps of their sessions
(`replay.lab.workloads`), some of them leaving before their answer has ended. An agent works on a tree of
sessions: its trunk, then all branches side by side; each step goes out as several candidates at once if the
phase says so, and the next one follows when a tool has run. Whatever happens, happens by the mechanism: no
answer is scripted.

Traffic goes to the workers as a router would send it, or to a router or sidecar in front (`target`), which
then has to know the workers: give the lab a `port_base`.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from random import Random
from time import monotonic
from typing import Any, Self

import httpx
import msgspec

from replay.lab.canary import TextClass, Witness, classify
from replay.lab.scenario import CLEAN, Phase, Scenario, Switches
from replay.lab.serve import HOST, Endpoint, Lab, Options
from replay.lab.tokenizer import EOS
from replay.lab.workloads import Plan, Step, candidates, sessions

MAX_TOKENS = 120
"""Answers have 20 to 70 tokens; a loop shows as one that runs into this."""

ROOM_BITS = 62


class Seen(msgspec.Struct):
    """What the agents of one phase saw."""

    phase: str
    says: str
    seconds: float = 0.0
    sent: int = 0
    answered: int = 0
    left: int = 0
    failed: int = 0
    verify_steps: int = 0
    accepted: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    host_tokens: int = 0
    first_token_s: float = 0.0
    text: dict[str, int] = {}

    @property
    def cut_off(self) -> int:
        """Requests that were under way when the phase ended."""
        return self.sent - self.answered - self.left - self.failed

    @property
    def accept_length(self) -> float | None:
        """Mean accept length of all answers."""
        return 1 + self.accepted / self.verify_steps if self.verify_steps else None

    def line(self) -> str:
        """One line for a reader."""
        accept = "-" if self.accept_length is None else f"{self.accept_length:.2f}"
        cached, host = (
            (tokens / self.prompt_tokens if self.prompt_tokens else 0.0)
            for tokens in (self.cached_tokens, self.host_tokens)
        )
        first = self.first_token_s / self.answered if self.answered else 0.0
        text = ", ".join(f"{name} {number}" for name, number in self.text.items() if number)
        counts = (
            f"{self.answered} answered, {self.left} left, {self.failed} failed, "
            f"{self.cut_off} cut off by the phase's end, of {self.sent}"
        )
        cache = f"cached {cached:.0%} ({host:.0%} on the host)"
        return f"{self.phase}: {counts}; accept length {accept}, {cache}, first token {first:.2f} s; {text}"


class Stage:
    """A running lab, its agents and the play."""

    def __init__(
        self,
        scenario: Scenario,
        seconds: float,
        *,
        target: str | None = None,
        seed: int = 1,
        options: Options | None = None,
        enough: Callable[[Seen], bool] = lambda _: True,
    ) -> None:
        """Prepare; nothing is started before the context is entered.

        A phase goes on past its time until what was seen is `enough`: slow machines see less in it.
        """
        self.scenario = scenario
        self.lab = Lab(options or scenario.options)
        self._seconds = seconds
        self._target = target
        self._seed = seed
        self._enough = enough
        self._random = Random(seed)
        self._numbers = count()
        self._witness = Witness()

    def __repr__(self) -> str:
        """Show scenario and lab."""
        return f"<Stage {self.scenario.name} {self.lab!r}>"

    async def __aenter__(self) -> Self:
        """Start the lab."""
        await self.lab.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop it."""
        await self.lab.stop()

    async def play(self, say: Callable[[str], object]) -> list[Seen]:
        """Play all phases; say what each is and what was seen in it."""
        shares = sum(phase.share for phase in self.scenario.phases)
        seen = []
        async with httpx.AsyncClient(
            trust_env=False, timeout=60, limits=httpx.Limits(max_connections=256)
        ) as http:
            for phase in self.scenario.phases:
                say(f"{phase.name}: {phase.says}")
                seen.append(await self._act(http, phase, self._seconds * phase.share / shares))
                say(seen[-1].line())
            await self._throw(http, Phase("end", ""))
        return seen

    async def _act(self, http: httpx.AsyncClient, phase: Phase, seconds: float) -> Seen:
        await self._throw(http, phase)
        began, seen = monotonic(), Seen(phase.name, phase.says)
        text: Counter[TextClass] = Counter()
        async with asyncio.TaskGroup() as tasks:
            agents = [
                tasks.create_task(self._agent(http, phase, seen, text), name=f"agent-{at}")
                for at in range(phase.agents)
            ]
            await asyncio.sleep(seconds)
            while not self._enough(seen):  # noqa: ASYNC110 (it is the agents who count)
                await asyncio.sleep(LOOK_S)
            for agent in agents:
                agent.cancel()
        seen.seconds = round(monotonic() - began, 3)
        seen.text = {str(name): text[name] for name in TextClass}
        return seen

    async def _throw(self, http: httpx.AsyncClient, phase: Phase) -> None:
        """Put every switch where this phase wants it."""
        cache = {"hicache": str(self.lab.options.hicache), "load_page_ms": 0.0} if self._has_tier else {}
        for at, worker in enumerate(self.lab.decode):
            mine = phase.decode if phase.only_decode in {None, at} else {}
            await _control(http, worker, {**CLEAN, **mine})
        for worker in self.lab.prefill:
            await _control(http, worker, {"prefill_ms": 0.0, **cache, **phase.prefill})
            if phase.flush:
                await _flush(http, worker)

    @property
    def _has_tier(self) -> bool:
        return self.lab.options.host_pages > 0

    async def _agent(
        self, http: httpx.AsyncClient, phase: Phase, seen: Seen, text: Counter[TextClass]
    ) -> None:
        """Work on one tree of sessions after another: the trunk first, then its branches side by side."""

        async def walk(steps: Sequence[Step]) -> None:
            for step in steps:
                await self._send(http, phase, step, seen, text)

        for plan, (first, *others) in self._trees(phase):
            await walk(first[: plan.fork_at])
            async with asyncio.TaskGroup() as tasks:
                for branch in (first[plan.fork_at :], *others):
                    tasks.create_task(walk(branch), name=f"branch-{len(branch)}")

    def _trees(self, phase: Phase) -> Iterator[tuple[Plan, list[list[Step]]]]:
        while True:
            drift_at = 0 if phase.drift else None
            plan = Plan(self._random.randint(10, 40), phase.branches, drift_at, wanders=phase.drift)
            yield plan, list(sessions(self._seed, next(self._numbers), plan))

    async def _send(
        self, http: httpx.AsyncClient, phase: Phase, step: Step, seen: Seen, text: Counter[TextClass]
    ) -> None:
        """Let the tool run, then send all candidates of the step at once and wait for them."""
        await asyncio.sleep(step.tool_s * phase.tool_pace)
        async with asyncio.TaskGroup() as tasks:
            for one in candidates(step, phase.candidates):
                leaves = self._random.random() < phase.leave_share
                tasks.create_task(self._tell(http, one, seen, text, leaves=leaves), name=one.session)
        await asyncio.sleep(self._random.expovariate(1 / phase.pause_s))

    async def _tell(
        self, http: httpx.AsyncClient, step: Step, seen: Seen, text: Counter[TextClass], *, leaves: bool
    ) -> None:
        seen.sent += 1
        try:
            await self._ask(http, step, seen, text, leaves=leaves)
        except* (httpx.HTTPError, msgspec.DecodeError):  # out of the task group of `_ask`
            seen.failed += 1

    async def _ask(
        self, http: httpx.AsyncClient, step: Step, seen: Seen, text: Counter[TextClass], *, leaves: bool
    ) -> None:
        """Send one request and read its answer; a client that leaves does so after a few chunks."""
        rid = f"{self._random.getrandbits(128):032x}"
        self._witness.know(rid, step.task)
        began, chunks, last = monotonic(), 0, b""
        async with asyncio.TaskGroup() as tasks:
            url, body = self._address(rid, step, http, tasks)
            async with http.stream("POST", url, json=body) as response:
                response.raise_for_status()
                async for line in response.aiter_lines():
                    if not line.startswith("data: {"):
                        continue
                    chunks, last = chunks + 1, line.removeprefix("data: ").encode()
                    if chunks == 1:
                        seen.first_token_s += monotonic() - began
                    if leaves and chunks > LEAVE_AFTER_CHUNKS:
                        seen.left += 1
                        return
        _count(seen, text, step, last, rid, self._witness)

    def _address(
        self, rid: str, step: Step, http: httpx.AsyncClient, tasks: asyncio.TaskGroup
    ) -> tuple[str, dict[str, object]]:
        """Return where the answer comes from; without a target, send the request to a prefill worker too."""
        sampling = {"max_new_tokens": MAX_TOKENS, "temperature": 0}
        body: dict[str, object] = {
            "rid": rid,
            "text": step.task.prompt,
            "sampling_params": sampling,
            "stream": True,
        }
        if self._target is not None:
            return f"{self._target}/generate", body
        prefill, decode = self._random.choice(self.lab.prefill), self._random.choice(self.lab.decode)
        room = self._random.getrandbits(ROOM_BITS)
        body |= {"bootstrap_host": HOST, "bootstrap_port": prefill.bootstrap_port, "bootstrap_room": room}
        tasks.create_task(_drain(http, prefill, body), name=f"prefill-{rid}")
        return f"{decode.url}/generate", body


LEAVE_AFTER_CHUNKS = 3
LOOK_S = 0.05


def _count(seen: Seen, text: Counter[TextClass], step: Step, last: bytes, rid: str, witness: Witness) -> None:
    """Judge a whole answer by its last chunk."""
    chunk: dict[str, Any] = msgspec.json.decode(last) if last else {}
    meta, output = chunk.get("meta_info", {}), chunk.get("output_ids", [])
    finish = meta.get("finish_reason") or {}
    if finish.get("type") not in {"stop", "length"}:
        seen.failed += 1
        return
    seen.answered += 1
    seen.verify_steps += meta.get("spec_verify_ct", 0)
    seen.accepted += meta.get("spec_num_correct_drafts", 0)
    seen.prompt_tokens += meta.get("prompt_tokens", 0)
    seen.cached_tokens += meta.get("cached_tokens", 0)
    seen.host_tokens += (meta.get("cached_tokens_details") or {}).get("host", 0)
    answer = [token for token in output if token != EOS]
    whole = [*answer, EOS] if finish["type"] == "stop" else answer
    text[classify(step.task, whole, witness.leaked_from(rid, step.task, whole))] += 1


async def _drain(http: httpx.AsyncClient, worker: Endpoint, body: Mapping[str, object]) -> None:
    """Send the prefill leg and let its answer go by, whatever it is."""
    try:
        await http.post(f"{worker.url}/generate", json={**body, "stream": False})
    except httpx.HTTPError:
        return


async def _control(http: httpx.AsyncClient, worker: Endpoint, switches: Switches) -> None:
    if worker.alive:
        (await http.post(f"{worker.url}/lab/control", json=dict(switches))).raise_for_status()


async def _flush(http: httpx.AsyncClient, worker: Endpoint) -> None:
    """Flush once nobody is busy; give up after a few seconds."""
    for _ in range(FLUSH_TRIES):
        if (await http.post(f"{worker.url}/flush_cache")).is_success:
            return
        await asyncio.sleep(0.05)


FLUSH_TRIES = 60
