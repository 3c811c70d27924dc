"""A child is ready inside its context and gone after it, and a bad start says why."""

import http.client
import os
import signal
import sys
from pathlib import Path
from typing import ClassVar

import httpx
import pytest

from replay.child import Child

SERVES = """
import http.server, sys
class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Ready).serve_forever()
"""


class ScriptError(RuntimeError):
    """The script's."""


class Script(Child):
    """A program given as text."""

    name: ClassVar[str] = "script"
    error: ClassVar[type[RuntimeError]] = ScriptError

    def __init__(self, folder: Path, text: str) -> None:
        super().__init__(folder / "script.log")
        self._text = text

    def command(self) -> list[str]:
        return [sys.executable, "-c", self._text, str(self.port)]

    async def is_ready(self, client: httpx.AsyncClient) -> bool:
        return (await client.get(self.url)).is_success


async def test_it_is_ready_inside_and_gone_after(tmp_path: Path) -> None:
    async with Script(tmp_path, SERVES) as script:
        assert script.alive
        connection = http.client.HTTPConnection("127.0.0.1", script.port, timeout=10)
        connection.request("GET", "/")
        assert connection.getresponse().status == 200
        connection.close()
        pid = script.pid
        assert "up" in repr(script)
    assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert "down" in repr(script)
    await script.stop()  # twice is once


async def test_one_that_ends_at_start_is_named_with_its_last_words_and_its_log(tmp_path: Path) -> None:
    script = Script(tmp_path, "import sys; print('one'); sys.exit('port in use')")
    with pytest.raises(ScriptError, match=r"the script ended at start: port in use \(see .*script.log\)"):
        await script.start()
    assert not script.alive


async def test_one_that_says_nothing_is_said_to_say_nothing(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match="ended at start: it said nothing"):
        await Script(tmp_path, "").start()


async def test_one_that_will_not_end_is_killed(tmp_path: Path) -> None:
    deaf = f"import signal; signal.signal({int(signal.SIGTERM)}, signal.SIG_IGN)\n" + SERVES
    script = Script(tmp_path, deaf)
    await script.start()
    await script.stop(within_s=0.1)
    assert not script.alive
