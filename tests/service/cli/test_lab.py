"""`specguard lab serve`: says where the workers are, ends on Ctrl-C, names bad input."""

import asyncio
import signal
import sys
from pathlib import Path

import httpx
import pytest

from service.cli import run
from service.cli.exits import BAD_INPUT

COMMAND = Path(sys.prefix) / "bin" / "specguard"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--fault", "gremlins"], "gremlins"),
        (["--onset", "9", "3"], "onset"),
        (["--decode", "0"], "--decode"),
        (["--step-ms", "-1"], "--step-ms"),
    ],
)
def test_bad_input_is_named(words: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "serve", *words]) == BAD_INPUT
    errors = capsys.readouterr().err
    assert named in errors
    assert "Traceback" not in errors


@pytest.mark.e2e
async def test_the_lab_serves_until_ctrl_c() -> None:
    lab = await asyncio.create_subprocess_exec(
        *(str(COMMAND), "lab", "serve", "--prefill", "1", "--decode", "1", "--fault", "nan"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert lab.stdout is not None
    lines = [(await lab.stdout.readline()).decode() for _ in range(4)]
    (url,) = (line.split()[1] for line in lines if line.startswith("decode-0"))
    async with httpx.AsyncClient(trust_env=False) as client:
        assert (await client.get(f"{url}/lab/control")).json()["fault"] == "nan:1"
    lab.send_signal(signal.SIGINT)
    assert await lab.wait() == 0
