"""Two races decided by a held write, not by luck: the same victims on every machine, in seconds.

    late-write    a request times out while its prefill is not written; the next one gets its pages; the write
                  is let go while that one decodes (sglang#24527)
    cancel-retry  two clients of a shared prefix leave in mid-flight and ask again, a stranger in between;
                  prefill notices late that they have left (the shape of sglang#23392)

Each step waits until `/lab/control` shows the one before it: nothing waits for a time to pass. Who was hit is
what the ledger says.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import httpx
import msgspec
import numpy as np

from replay.lab.decode import LATE_WRITE
from replay.lab.serve import HOST, Endpoint, Lab, LabError, Options
from replay.lab.slot import Race
from replay.lab.tasks import sample

LONG_S = 60.0
"""A wait that no step comes near, and the limit of a play."""

SOON_S = 0.1
"""The waiting timeout of the request that is to time out."""

STILL_MS = 1_000.0
"""The victims' pace until the late writes have landed: hardly any."""

POLL_S = 0.005
ANSWER_TOKENS = 80
SHARED_TOKENS = 64
"""Four pages of prefix, with as many tokens of each request's own behind them."""

_rooms = count(1 << 60)


class Told(msgspec.Struct, kw_only=True):
    """What the ledger says of one play, by the parts of it."""

    play: str
    race: Race
    releases: dict[str, str | None]
    """How the pages of the lost requests came back."""
    late: list[str]
    """Lost requests that were written for after that."""
    victims: list[str]
    """Requests with a stranger's write in their pages."""
    changed: list[str]
    """Victims whose answers changed."""


@dataclass(frozen=True, slots=True, repr=False)
class Part:
    """One request of a play."""

    name: str
    tokens: tuple[int, ...]
    room: int

    def __repr__(self) -> str:
        return f"<Part {self.name}>"

    @property
    def rid(self) -> str:
        """Its request id."""
        return f"{self.room:032x}"


def part(name: str, seed: int, own: int | None = None) -> Part:
    """Draw a request; with `own`, behind the prefix that all of the same seed share."""
    tokens = sample(np.random.default_rng(seed), "copy").prompt_ids
    if own is not None:
        rest = sample(np.random.default_rng((seed, own)), "copy").prompt_ids
        tokens = (*tokens[:SHARED_TOKENS], *rest[:SHARED_TOKENS])
    return Part(name, tokens, next(_rooms))


class Held:
    """Plays against one prefill and one decode worker."""

    def __init__(self, lab: Lab, http: httpx.AsyncClient) -> None:
        """Use a lab that runs and is idle."""
        self._prefill, self._decode = lab.prefill[0], lab.decode[0]
        self._http = http

    def __repr__(self) -> str:
        """Name the pair."""
        return f"<Held {self._prefill.name} {self._decode.name}>"

    async def play(self, name: str, race: Race) -> Told:
        """Play one of `PLAYS`; a step that is never seen is an error, not a wait."""
        try:
            async with asyncio.timeout(LONG_S):
                return await PLAYS[name](self, race)
        except TimeoutError:
            raise LabError(f"{name}, {race}: a step was not seen within {LONG_S:.0f} s") from None

    async def late_write(self, race: Race) -> Told:
        """Time one request out, let the next decode, then let the first one's write go."""
        lost, other = part("late", 1), part("next", 2)
        await self._set(self._decode, race=race, waiting_s=SOON_S, step_ms=STILL_MS)
        await self._set(self._prefill, hold=[lost.room])
        async with asyncio.TaskGroup() as tasks:
            self._send(tasks, self._prefill, lost)
            await self._post(self._decode, lost)
            await self._set(self._decode, waiting_s=LONG_S)
            await self._until_ready(tasks, [other])
            await self._let_go([lost])
        return await self._told("late-write", race, [lost], [other])

    async def cancel_and_retry(self, race: Race) -> Told:
        """Two of one prefix leave and ask again, a stranger in between; then the old writes go."""
        lost = [part(f"cancelled-{at}", 3, at) for at in (1, 2)]
        others = [part("retry-1", 3, 1), part("stranger", 9), part("retry-2", 3, 2)]
        await self._set(self._decode, race=race, waiting_s=LONG_S, step_ms=STILL_MS)
        await self._set(self._prefill, hold=[one.room for one in lost], hangup_ms=LONG_S * 1e3)
        async with asyncio.TaskGroup() as tasks:
            legs = [self._send(tasks, where, one) for one in lost for where in (self._prefill, self._decode)]
            await self._until(self._prefill, lambda state: len(state["waiting"]) == len(lost))
            for leg in legs:
                leg.cancel()
            await self._until(self._decode, lambda state: state["live"] == 0)
            await self._until_ready(tasks, others)
            await self._let_go(lost)
        await self._set(self._prefill, hangup_ms=0)
        return await self._told("cancel-retry", race, lost, others)

    async def _until_ready(self, tasks: asyncio.TaskGroup, parts: Sequence[Part]) -> None:
        """Send requests one after the other, each when the KV of the one before it is complete."""
        for number, one in enumerate(parts, 1):
            self._send(tasks, self._prefill, one)
            self._send(tasks, self._decode, one)
            await self._until(self._decode, _ready(number))

    async def _let_go(self, lost: Sequence[Part]) -> None:
        """Release the held writes; when their last word is in, let the others run to their ends."""
        await self._set(self._prefill, release=[one.room for one in lost])
        await self._until(self._decode, lambda state: state["pending"] == 0)
        await self._set(self._decode, step_ms=0)

    def _send(self, tasks: asyncio.TaskGroup, worker: Endpoint, one: Part) -> asyncio.Task[None]:
        return tasks.create_task(self._post(worker, one), name=f"{worker.name}-{one.name}")

    async def _post(self, worker: Endpoint, one: Part) -> None:
        body = {
            "rid": one.rid,
            "input_ids": one.tokens,
            "sampling_params": {"max_new_tokens": ANSWER_TOKENS, "ignore_eos": True},
            "bootstrap_host": HOST,
            "bootstrap_port": self._prefill.bootstrap_port,
            "bootstrap_room": one.room,
        }
        await self._http.post(f"{worker.url}/generate", json=body)

    async def _set(self, worker: Endpoint, **fields: object) -> None:
        answer = await self._http.post(f"{worker.url}/lab/control", json=fields)
        if answer.is_error:
            raise LabError(f"{worker.name} refused {sorted(fields)}: {answer.text}")

    async def _until(self, worker: Endpoint, seen: Callable[[dict[str, Any]], bool]) -> None:
        while not seen((await self._http.get(f"{worker.url}/lab/control")).json()):  # noqa: ASYNC110 (no event of ours)
            await asyncio.sleep(POLL_S)

    async def _told(self, play: str, race: Race, lost: Sequence[Part], others: Sequence[Part]) -> Told:
        await self._until(self._decode, lambda state: state["pending"] + state["live"] == 0)
        text = (await self._http.get(f"{self._decode.url}/lab/ledger")).text
        lines = {line["rid"]: line for line in map(msgspec.json.decode, text.splitlines())}
        hit = [one for one in others if lines[one.rid]["kind"] == LATE_WRITE]
        return Told(
            play=play,
            race=race,
            releases={one.name: lines[one.rid]["release"] for one in lost},
            late=[one.name for one in lost if lines[one.rid]["late_layers"]],
            victims=[one.name for one in hit],
            changed=[one.name for one in hit if lines[one.rid]["answer_changed"]],
        )


def _ready(number: int) -> Callable[[dict[str, Any]], bool]:
    return lambda state: bool(state["ready"] == number)


PLAYS: dict[str, Callable[[Held, Race], Awaitable[Told]]] = {
    "late-write": Held.late_write,
    "cancel-retry": Held.cancel_and_retry,
}


async def play_all(options: Options, races: Sequence[Race]) -> list[dict[str, Any]]:
    """Play everything under each protocol on a lab of its own."""
    async with Lab(options) as lab, httpx.AsyncClient(trust_env=False, timeout=LONG_S) as http:
        held = Held(lab, http)
        return [msgspec.to_builtins(await held.play(name, race)) for name in PLAYS for race in races]
