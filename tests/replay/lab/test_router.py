"""The real router takes the lab for SGLang workers, and a retry can be pinned to another one."""

from pathlib import Path

import httpx
import pytest

from replay.lab.router import Router, RouterError
from replay.lab.serve import Lab, Options
from replay.lab.speculation import reference_answer
from replay.lab.tokenizer import decode
from tests.replay.lab.labkit import prompt
from tests.replay.lab.test_serve import running

TEXT = decode(prompt())


@pytest.mark.e2e
async def test_smg_serves_streams_and_pins_decode_workers(tmp_path: Path) -> None:
    async with Lab(Options(prefill=2, decode=2, pages=64, step_ms=1)) as lab:
        async with Router(lab, tmp_path / "router.log") as router:
            pid = router.pid
            async with httpx.AsyncClient(trust_env=False, timeout=50, base_url=router.url) as client:
                whole = await client.post("/generate", json={"text": TEXT})
                chat = {"messages": [{"role": "user", "content": TEXT}], "rid": "f" * 16, "stream": True}
                streamed = await client.post("/v1/chat/completions", json={**chat, "model": "specguard-lab"})
                landed: dict[str, set[str]] = {"0": set(), "1": set()}
                for index in ("0", "1", "0", "1"):
                    answer = await client.post(
                        "/generate", json={"text": TEXT}, headers={"x-smg-target-worker": index}
                    )
                    landed[index].add(answer.headers["x-smg-routed-worker-id"])
            assert (await _status(router.metrics_url)) == 200
        urls = {worker.url for worker in lab.decode}
    assert whole.json()["output_ids"] == reference_answer(prompt(), 128)
    assert streamed.text.count(f'"id":"{"f" * 16}"') > 3
    assert streamed.text.endswith("data: [DONE]\n\n")
    assert [len(workers) for workers in landed.values()] == [1, 1]
    assert landed["0"] | landed["1"] == urls
    assert pid is not None
    assert not running(pid)


async def _status(url: str) -> int:
    async with httpx.AsyncClient(trust_env=False) as client:
        return (await client.get(url)).status_code


async def test_a_missing_router_is_named_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(RouterError, match="run `make setup`"):
        await Router(Lab(Options()), tmp_path / "router.log", binary=tmp_path / "smg").start()


async def test_a_router_that_ends_at_start_is_named_with_its_log(tmp_path: Path) -> None:
    program = tmp_path / "smg"
    program.write_text("#!/bin/sh\necho no such flag >&2\nexit 3\n")
    program.chmod(0o755)
    log = tmp_path / "router.log"
    async with Lab(Options(prefill=1, decode=1, pages=64)) as lab:
        router = Router(lab, log, binary=program)
        with pytest.raises(RouterError, match=rf"the router ended at start: no such flag \(see {log}\)"):
            await router.start()
    assert log.read_text() == "no such flag\n"
    assert "down" in repr(router)
