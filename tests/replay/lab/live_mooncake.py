"""The lab over the real Mooncake: exact answers, the race, the fix, and nothing that the network could reach.

`make lab-mooncake` installs the wheel and runs this; where the wheel is missing it fails.
"""

import socket

import httpx

from replay.lab import mooncake
from replay.lab.held import Held
from replay.lab.mooncake import Mooncake
from replay.lab.serve import Lab, Options
from replay.lab.slot import Race
from replay.lab.speculation import reference_answer
from tests.replay.lab.labkit import make_pool, prompt
from tests.replay.lab.test_serve import ask

MOONCAKE = Options(prefill=2, decode=2, pages=128, step_ms=1, transfer="mooncake")


async def test_every_pair_answers_as_the_model_alone() -> None:
    async with Lab(MOONCAKE) as lab, httpx.AsyncClient(trust_env=False, timeout=20) as client:
        for seed, (prefill, decoder) in enumerate((p, d) for p in lab.prefill for d in lab.decode):
            answer = await ask(client, prefill, decoder, seed)
            assert answer.json()["output_ids"] == reference_answer(prompt(seed), 128)


async def test_a_late_write_over_tcp_lands_without_the_fix_and_not_with_it() -> None:
    async with Lab(MOONCAKE) as lab, httpx.AsyncClient(trust_env=False, timeout=60) as client:
        told = await Held(lab, client).play("late-write", Race.UNFIXED)
        assert (told.late, told.victims, told.changed) == (["late"], ["next"], ["next"])
        told = await Held(lab, client).play("late-write", Race.FIXED)
        assert (told.late, told.victims, told.releases) == ([], [], {"late": "drained"})


def test_whatever_it_listens_on_is_on_the_loopback_only() -> None:
    engine = Mooncake(make_pool("test", 8))
    wide = [one for one in mooncake._listening() if one.getsockname()[0] in mooncake.ANYWHERE]
    devices = [one.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16) for one in wide]
    for one in wide:
        one.close()
    assert len(wide) >= 2, engine
    assert {device.rstrip(b"\0") for device in devices} == {b"lo"}
