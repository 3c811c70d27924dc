"""A prefill and a decode worker in this process, joined by a real bootstrap channel and real shared pools."""

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count

import httpx
import numpy as np

from replay.lab.api import Api
from replay.lab.bootstrap import BootstrapServer, Timeouts
from replay.lab.decode import DecodeWorker, Pace
from replay.lab.intake import Bootstrap, Submission
from replay.lab.kvpool import KVPool, PoolShape, make_memory
from replay.lab.prefill import PrefillWorker
from replay.lab.scheduler import Generation
from replay.lab.speculation import load_models
from replay.lab.tasks import Kind, sample
from replay.lab.worker import Server, worker_config

TIMEOUTS = Timeouts(bootstrap_s=20, waiting_s=20, drain_s=20)
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Loopback speaks plain HTTP; loading the certificate store costs more than a test."""
_numbers = count(1)


def prompt(seed: int = 1, kind: Kind = "extract") -> tuple[int, ...]:
    """A prompt of the model's own domain."""
    return sample(np.random.default_rng(seed), kind).prompt_ids


def make_pool(name: str, pages: int) -> KVPool:
    target, draft = load_models()
    shape = PoolShape(target.shape, draft.shape, pages)
    fd = make_memory(shape, name)
    pool = KVPool(fd, shape)
    os.close(fd)
    return pool


@dataclass(slots=True)
class Pair:
    """Both workers, and the tasks that their requests run in."""

    prefill: PrefillWorker
    decode: DecodeWorker
    pool: KVPool
    tasks: asyncio.TaskGroup
    port: int

    def asked(self, tokens: tuple[int, ...], **rest: object) -> Submission:
        """A submission for the next bootstrap room."""
        number = next(_numbers)
        fields: dict[str, object] = {
            "rid": f"{number:016x}",
            "prompt": tokens,
            "max_new_tokens": 120,
            "ignore_eos": False,
            "stream": False,
            "model": "lab",
            "bootstrap": Bootstrap("127.0.0.1", self.port, number),
        }
        return Submission(**(fields | rest))  # type: ignore[arg-type]  # (a test names its fields)

    def send(self, asked: Submission) -> tuple[Generation, Generation]:
        """Do what a router does: the same request to both."""
        return self.prefill.start(asked, self.tasks), self.decode.start(asked, self.tasks)

    async def answer(self, asked: Submission) -> Generation:
        """Send one request and wait for decode's answer."""
        first, second = self.send(asked)
        await finished(first)
        return await finished(second)


async def finished(generation: Generation) -> Generation:
    while generation.stamps.finished is None:
        await generation.changed.wait()
        generation.changed.clear()
    return generation


@asynccontextmanager
async def running_pair(*, pages: int = 256, timeouts: Timeouts = TIMEOUTS) -> AsyncIterator[Pair]:
    """Both workers at full speed; at the end every task of theirs is ended."""
    rooms, pool, models = BootstrapServer(timeouts), make_pool("decode-0", pages), load_models()
    listener = await asyncio.start_server(rooms.serve, "127.0.0.1", 0)
    port = int(listener.sockets[0].getsockname()[1])
    prefill = PrefillWorker(models, make_pool("prefill-0", pages), {"decode-0": pool}, rooms)
    decode = DecodeWorker("decode-0", 0, models, pool, timeouts)
    decode.pace = Pace(0)
    async with listener, asyncio.TaskGroup() as tasks:
        engine = tasks.create_task(decode.run(), name="engine")
        yield Pair(prefill, decode, pool, tasks, port)
        engine.cancel()


@dataclass(slots=True)
class Site:
    """Both workers behind real HTTP servers on the loopback."""

    pair: Pair
    prefill_url: str
    decode_url: str
    client: httpx.AsyncClient

    def body(self, **fields: object) -> dict[str, object]:
        """A body with a bootstrap pair of its own, as a router would add it."""
        room = next(_numbers)
        pair = {"bootstrap_host": "127.0.0.1", "bootstrap_port": self.pair.port, "bootstrap_room": room}
        return {**pair, **fields}

    async def both(self, path: str, **fields: object) -> tuple[httpx.Response, httpx.Response]:
        """Send one request to both workers."""
        body = self.body(**fields)
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(self.client.post(self.prefill_url + path, json=body))
            second = tasks.create_task(self.client.post(self.decode_url + path, json=body))
        return first.result(), second.result()


@asynccontextmanager
async def running_site(*, timeouts: Timeouts = TIMEOUTS) -> AsyncIterator[Site]:
    """A pair with its HTTP servers."""
    async with running_pair(timeouts=timeouts) as pair:
        servers = []
        for worker, port in ((pair.prefill, pair.port), (pair.decode, None)):
            server = Server(worker_config(Api(worker, pair.tasks, port)))
            listener = socket.create_server(("127.0.0.1", 0))
            task = pair.tasks.create_task(server.serve(sockets=[listener]), name="http")
            servers.append((server, task, listener.getsockname()[1]))
        prefill_url, decode_url = (f"http://127.0.0.1:{port}" for _, _, port in servers)
        async with httpx.AsyncClient(trust_env=False, timeout=50, verify=NO_TLS) as client:
            yield Site(pair, prefill_url, decode_url, client)
        for server, _, _ in servers:
            server.stop()
        await asyncio.gather(*(task for _, task, _ in servers))
