import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from service.cli import run
from service.core.baseline import Baselines


def lines(streams: int, **more: object) -> str:
    rng = random.Random(1)
    out = []
    for _ in range(streams):
        steps = [[3, min(3, rng.choice((0, 1, 2, 3, 3, 3)))] for _ in range(80)]
        out.append(json.dumps({"steps": steps, "model": "m", "worker": "http://w", **more}))
    return "\n".join(out) + "\n"


def test_recorded_streams_become_baselines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "clean.jsonl", tmp_path / "baselines.json"
    file.write_text(lines(60, temperature=0.0) + lines(60))
    assert run(["calibrate", str(file), "--out", str(out), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["streams"] == 120
    assert {row["stratum"] for row in said["strata"]} == {"greedy/free/prose", "warm/free/prose"}
    anchors = Baselines.load(out.read_bytes()).anchors("http://w", 3)
    assert anchors is not None
    assert anchors.of("m", 0.0, grammar=False)


def test_a_run_goes_on_from_an_earlier_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "clean.jsonl", tmp_path / "baselines.json"
    file.write_text(lines(30))
    assert run(["calibrate", str(file), "--out", str(out)]) == 0
    assert run(["calibrate", str(file), "--from", str(out), "--out", str(out)]) == 0
    (sheet,) = Baselines.load(out.read_bytes()).sheets.values()
    assert 59 < sheet.streams < 60
    assert "30 streams learned" in capsys.readouterr().out


def test_only_clean_streams_teach_anything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "mixed.jsonl", tmp_path / "baselines.json"
    bad = lines(1, text="and on and on " * 60)
    short = json.dumps({"steps": [[3, 1]]}) + "\n"
    file.write_text(lines(2, text="All is well here.") + bad + short + '{"steps": [[1, 2]]}\nno json\n')
    assert run(["calibrate", str(file), "--out", str(out), "--json"]) == 0
    streams = capsys.readouterr()
    said = json.loads(streams.out)
    assert [said[key] for key in ("streams", "not_clean", "too_short", "unreadable")] == [2, 1, 1, 2]
    assert f"{file}:5" in streams.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [([], 2), (["missing.jsonl"], 2), (["empty.jsonl"], 1), (["empty.jsonl", "--from", "empty.jsonl"], 2)],
)
def test_nothing_to_learn_from_is_told_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.jsonl").write_text("")
    assert run(["calibrate", *arguments]) == code
    assert capsys.readouterr().err.count("\n") == 1


def test_a_sidecar_that_does_not_answer_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", "--live", "http://127.0.0.1:9", "--seconds", "1"]) == 2
    assert "127.0.0.1:9" in capsys.readouterr().err


def snapshots() -> bytes:
    """Three looks at two streams, of which one comes under suspicion, as the admin port tells them."""
    out = []
    for tokens in (40, 80, 120):
        rows = [
            {
                "rid": rid,
                "attempt": 1,
                "worker": "http://w",
                "tokens": tokens,
                "accept_length": 2.5,
                "level": level,
            }
            for rid, level in (("a", "clean"), ("b", "suspect" if tokens == 80 else "clean"))
        ]
        out.append(f"data: {json.dumps({'open_streams': 2, 'streams': rows})}\n\n")
    return "".join(out).encode()


@contextmanager
def admin_port(token: str) -> Iterator[str]:
    """A sidecar's admin port that has three snapshots to tell and then ends."""

    class Admin(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            allowed = self.headers["authorization"] == f"Bearer {token}" and self.path == "/api/streams"
            self.send_response(200 if allowed else 401)
            self.end_headers()
            if allowed:
                self.wfile.write(snapshots())

        def log_message(self, *_: object) -> None:
            """Nothing to say."""

    server = HTTPServer(("127.0.0.1", 0), Admin)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_live_streams_teach_and_suspected_ones_do_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "baselines.json"
    with admin_port("secret") as url:
        assert run(["calibrate", "--live", url, "--token", "secret", "--out", str(out), "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert run(["calibrate", "--live", url, "--token", "wrong", "--out", str(out)]) == 2
    assert "401" in capsys.readouterr().err
    assert (said["streams"], said["not_clean"]) == (1, 1)
    (key,) = Baselines.load(out.read_bytes()).sheets
    assert (key.worker, key.depth) == ("http://w", 3)
