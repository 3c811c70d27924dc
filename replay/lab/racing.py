"""One block of racing: a planned load against a running lab, and the truth about every request of it.

The driver does what a router does that does not look at queues: the same request to a prefill and a decode
worker, and the prefill answer read to its end whatever decode says. Requests leave at their planned times
(open loop). Truth comes twice: every answer is compared with the model's own for that prompt, and the
ledger says whose late write landed in whose pages. An answer that changed without a landed write would be a
fault that nobody planned; it is counted apart (`unexplained`).

Cost: about 12 ms of processor time a request, all processes together.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import aiohttp
import msgspec

from replay.lab.bank import ANSWER_TOKENS, Bank
from replay.lab.decode import LATE_WRITE
from replay.lab.load import Load, Plan, plan
from replay.lab.serve import HOST, Endpoint, Lab, LabError
from replay.lab.slot import Race

GRACE_S = 90.0
"""After the last planned request a block has this long, and its timeout, to come to an end."""

SETTLE_S = 0.02
"""Between two looks at the ledger's pending requests."""

OK = 200

_answer = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True)
class Block:
    """What to run."""

    name: str
    race: Race
    load: Load
    waiting_s: float
    layer_s: float = 0.0


class Tally(msgspec.Struct, kw_only=True):
    """What came of a block; counts of requests unless the name says otherwise."""

    sent: int = 0
    answered: int = 0
    timed_out: int = 0
    failed: int = 0
    """Answered with any other error."""
    prefill_failed: int = 0
    """Prefill answers other than 200: under the fix those of timed-out requests, else none."""
    corrupted: int = 0
    """Answers that are not the model's own."""
    late_writes: int = 0
    """Lost requests that prefill wrote for after their pages had gone back."""
    touched: int = 0
    """Requests with a late write in their pages while they were live."""
    unexplained: int = 0
    """Corrupted and not touched."""
    seconds: float = 0.0
    lag_ms: float = 0.0
    """Longest delay of a request behind its planned time."""

    def add(self, other: "Tally") -> None:
        """Sum up; the longest lag stays."""
        for name in self.__struct_fields__:
            both = getattr(self, name), getattr(other, name)
            setattr(self, name, max(both) if name == "lag_ms" else sum(both))


@dataclass(slots=True)
class _Sent:
    """What the driver knows of each request, by rid."""

    corrupted: set[str] = field(default_factory=set)
    tally: Tally = field(default_factory=Tally)


class Driver:
    """Runs blocks one after the other against one lab with one decode worker."""

    def __init__(self, lab: Lab, bank: Bank, http: aiohttp.ClientSession) -> None:
        """Use a lab that runs."""
        self._lab = lab
        self._bank = bank
        self._http = http
        self._ledger_seq = 0

    def __repr__(self) -> str:
        """Show the lab."""
        return f"<Driver {self._lab!r}>"

    async def run(self, block: Block) -> Tally:
        """Run a block to its end; a lab that does not come to an end is an error, not a wait."""
        drawn = plan(block.load)
        limit_s = float(drawn.at_s[-1]) + block.waiting_s + GRACE_S
        try:
            async with asyncio.timeout(limit_s):
                return await self._run(block, drawn)
        except TimeoutError:
            raise LabError(f"block {block.name} did not end within {limit_s:.0f} s; {self._lab!r}") from None
        except (aiohttp.ClientError, ExceptionGroup) as error:
            raise LabError(f"block {block.name} broke off: {_first(error)!r}; {self._lab!r}") from error

    async def _run(self, block: Block, drawn: Plan) -> Tally:
        await self._prepare(block, drawn)
        sent, began = _Sent(), monotonic()
        async with asyncio.TaskGroup() as tasks:
            for number, at_s in enumerate(drawn.at_s.tolist()):
                await asyncio.sleep(max(0.0, began + at_s - monotonic()))
                sent.tally.lag_ms = max(sent.tally.lag_ms, (monotonic() - began - at_s) * 1e3)
                self._send(tasks, drawn, number, sent)
        await self._reckon(sent)
        sent.tally.sent, sent.tally.seconds = len(drawn.at_s), monotonic() - began
        return sent.tally

    async def _prepare(self, block: Block, drawn: Plan) -> None:
        decode = {"race": block.race, "waiting_s": block.waiting_s, "fault": "none"}
        await self._change(self._lab.decode[0], decode)
        time = block.load.prefill
        for worker, backlog_s in zip(self._lab.prefill, drawn.backlog_s.tolist(), strict=True):
            service = {
                "prefill_ms": time.mean_s * 1e3,
                "tail_share": time.tail_share,
                "tail_factor": time.tail_factor,
                "seed": time.seed,
                "layer_ms": block.layer_s * 1e3,
                "backlog_ms": backlog_s * 1e3,
            }
            await self._change(worker, service)

    async def _change(self, worker: Endpoint, fields: dict[str, object]) -> None:
        async with self._http.post(f"{worker.url}/lab/control", json=fields) as answer:
            if answer.status != OK:
                raise LabError(f"{worker.name} refused {sorted(fields)}: {await answer.text()}")

    def _send(self, tasks: asyncio.TaskGroup, drawn: Plan, number: int, sent: _Sent) -> None:
        prompt, room = int(drawn.prompt[number]), int(drawn.room[number])
        prefill = self._lab.prefill[int(drawn.worker[number])]
        rid = f"{room:032x}"
        body = msgspec.json.encode(
            {
                "rid": rid,
                "input_ids": self._bank.prompts[prompt].tokens,
                "sampling_params": {"max_new_tokens": ANSWER_TOKENS, "temperature": 0},
                "bootstrap_host": HOST,
                "bootstrap_port": prefill.bootstrap_port,
                "bootstrap_room": room,
            }
        )
        tasks.create_task(self._drain(prefill, body, sent), name=f"prefill-{rid}")
        tasks.create_task(self._judge(body, prompt, rid, sent), name=f"decode-{rid}")

    async def _post(self, worker: Endpoint, body: bytes) -> tuple[int, bytes]:
        headers = {"content-type": "application/json"}
        async with self._http.post(f"{worker.url}/generate", data=body, headers=headers) as answer:
            return answer.status, await answer.read()

    async def _drain(self, worker: Endpoint, body: bytes, sent: _Sent) -> None:
        """Read the prefill answer to its end, as a router does."""
        status, _ = await self._post(worker, body)
        sent.tally.prefill_failed += status != OK

    async def _judge(self, body: bytes, prompt: int, rid: str, sent: _Sent) -> None:
        status, said = await self._post(self._lab.decode[0], body)
        tally = sent.tally
        if status == OK:
            tally.answered += 1
            if tuple(_answer.decode(said)["output_ids"]) != self._bank.prompts[prompt].answer:
                tally.corrupted += 1
                sent.corrupted.add(rid)
        elif b"KVPoll.WaitingForInput" in said:
            tally.timed_out += 1
        else:
            tally.failed += 1

    async def _reckon(self, sent: _Sent) -> None:
        """Read the ledger of this block once it is complete."""
        lines = await self._lines()
        touched = {line["rid"] for line in lines if line["kind"] == LATE_WRITE and line["applied"]}
        sent.tally.late_writes = sum(line["late_layers"] > 0 for line in lines)
        sent.tally.touched = len(touched)
        sent.tally.unexplained = len(sent.corrupted - touched)

    async def _lines(self) -> Sequence[dict[str, Any]]:
        url = self._lab.decode[0].url
        while True:
            async with self._http.get(f"{url}/lab/control") as answer:
                state = await answer.json()
            if not state["pending"] + state["live"]:
                break
            await asyncio.sleep(SETTLE_S)
        async with self._http.get(f"{url}/lab/ledger", params={"since": self._ledger_seq}) as answer:
            text = await answer.text()
        lines = [_answer.decode(line) for line in text.splitlines()]
        self._ledger_seq = max([self._ledger_seq, *(line["seq"] for line in lines)])
        return lines


def _first(error: Exception) -> BaseException:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def session() -> aiohttp.ClientSession:
    """Return a client without limits of its own: the plan decides what is sent and when."""
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30)
    return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))
