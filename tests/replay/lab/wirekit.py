"""What the tests of all dialects share: a generation that says steps, and a reader of its events."""

import json
from typing import Any

from replay.lab.generate_wire import DONE
from replay.lab.intake import Submission
from replay.lab.scheduler import RUNNING_ABORT, Aborted, Generation, Phase
from replay.lab.speculation import StepResult
from replay.lab.tokenizer import EOS, encode
from replay.lab.wire import Wire

WORDS = encode("set the record fields answer steps by number exactly")
FAILED = Aborted("Decode transfer failed for request rank=0", 500)


def generation(**rest: object) -> Generation:
    fields: dict[str, object] = {
        "rid": "r0000000000000001",
        "prompt": (1, 2, 3),
        "max_new_tokens": 60,
        "ignore_eos": False,
        "stream": True,
        "model": "lab",
        "bootstrap": None,
    }
    return Generation(Submission(**(fields | rest)), Phase.RUNNING)  # type: ignore[arg-type]  # (named above)


def spoken(made: Generation, wire: Wire, *steps: list[int]) -> list[tuple[str | None, dict[str, Any]]]:
    """Say each step, read after each; return (event name, data) without [DONE]."""
    raw = b""
    for at, tokens in enumerate(steps):
        if at:
            made.spec.add(StepResult(4, len(tokens) - 1, tuple(tokens)))
        made.say(tokens)
        if made.finish:
            made.end(made.finish)
        raw += b"".join(wire.chunks())
    if not made.finish:
        made.end(RUNNING_ABORT)
        raw += b"".join(wire.chunks())
    return events(raw)


def events(raw: bytes) -> list[tuple[str | None, dict[str, Any]]]:
    parsed: list[tuple[str | None, dict[str, Any]]] = []
    for block in raw.removesuffix(DONE).split(b"\n\n"):
        lines = block.decode().splitlines()
        name = next((line.removeprefix("event: ") for line in lines if line.startswith("event: ")), None)
        data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        if data:
            parsed.append((name, json.loads(data[0])))
    return parsed


ANSWER = (WORDS[:1], WORDS[1:4], [*WORDS[4:6], EOS])
