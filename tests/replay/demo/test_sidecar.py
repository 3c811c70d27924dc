"""The sidecar as a child: its settings are the demo's alone, and a bad start says why."""

import os
import sys
from pathlib import Path

import pytest
import yaml

from replay.demo.sidecar import Sidecar, SidecarError

READY = """
import http.server, os, pathlib, sys, yaml
settings = yaml.safe_load(open(sys.argv[-1]))
pathlib.Path(sys.argv[-1]).with_name("seen").write_text(" ".join(k for k in os.environ if "SPECGUARD" in k))
class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/readyz" else 404); self.end_headers()
http.server.HTTPServer((settings["admin_host"], settings["admin_port"]), Ready).serve_forever()
"""


def command(script: str) -> list[str]:
    return [sys.executable, "-c", script]


async def test_it_is_told_everything_by_its_own_file(tmp_path: Path) -> None:
    async with Sidecar(command(READY), "http://127.0.0.1:9", tmp_path) as sidecar:
        settings = yaml.safe_load((tmp_path / "specguard.yaml").read_text())
        assert settings["router"] == "http://127.0.0.1:9"
        assert (settings["data_port"], settings["admin_port"]) == (sidecar.port, sidecar.admin_port)
        assert settings["allow_policy_header"] == ["protect", "strict"]
        assert str(tmp_path) in settings["store"]
        assert settings["capture"] == "full"
        assert sidecar.alive
        pid = sidecar.pid
    assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_settings_of_whoever_runs_the_demo_stay_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECGUARD_POLICY", "observe")
    async with Sidecar(command(READY), "http://127.0.0.1:9", tmp_path):
        assert (tmp_path / "seen").read_text() == ""


async def test_a_bad_start_says_why(tmp_path: Path) -> None:
    sidecar = Sidecar(
        command("import sys; sys.exit('data port 8400: in use')"), "http://127.0.0.1:9", tmp_path
    )
    with pytest.raises(SidecarError, match="ended at start: data port 8400: in use"):
        await sidecar.start()
    assert not sidecar.alive


async def test_a_child_that_will_not_end_is_killed(tmp_path: Path) -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + READY
    sidecar = Sidecar(command(stubborn), "http://127.0.0.1:9", tmp_path)
    await sidecar.start()
    await sidecar.stop(within_s=0.1)
    assert not sidecar.alive
