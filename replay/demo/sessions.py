"""What the demo asks: agent-like sessions, each turn a task with one right answer behind a growing history.

Session n is drawn from (seed, n) alone, so neither pace nor concurrency changes what is asked. Odd sessions
ask for `strict`, even ones for `protect`. Most turns are streamed chat, as agents do it; some take
`/generate`, some want the answer in one piece.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np

from replay.lab.intake import MODEL_NAME
from replay.lab.tasks import Task, Turn, session
from service.core.events import Policy

Shape = Literal["chat", "generate", "whole"]
SHAPES: tuple[tuple[Shape, float], ...] = (("chat", 0.7), ("generate", 0.15), ("whole", 0.15))
"""Streamed chat, streamed /generate, chat in one piece; and their shares."""

MAX_TOKENS = 256
"""Room for a loop to show: a right answer has at most 97."""

THINK_S = (0.1, 0.5)
"""Between an answer and the next turn: an agent runs its tool."""

RID_BYTES = 16
"""Fixed width: the engine aborts by prefix, so no rid may begin with another."""

POLICY_HEADER = "x-specguard-policy"


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: what goes out, and what would be right."""

    rid: str
    session: int
    shape: Shape
    policy: Policy
    task: Task
    path: str
    body: bytes
    think_s: float

    def __repr__(self) -> str:
        """Leave prompt and answer out."""
        return f"<Ask {self.rid} session {self.session} {self.shape} {self.policy}>"

    @property
    def headers(self) -> dict[str, str]:
        """The request's headers."""
        return {"content-type": "application/json", POLICY_HEADER: str(self.policy)}


def asks(seed: int, number: int) -> Iterator[Ask]:
    """Draw the turns of one session."""
    rng = np.random.default_rng((seed, number))
    policy = Policy.STRICT if number % 2 else Policy.PROTECT
    for turn in session(rng):
        shape, rid = _shape(float(rng.random())), rng.bytes(RID_BYTES).hex()
        path, body = _generate(turn, rid) if shape == "generate" else _chat(turn, rid, stream=shape == "chat")
        think_s = float(rng.uniform(*THINK_S))
        yield Ask(rid, number, shape, policy, turn.task, path, msgspec.json.encode(body), think_s)


def _shape(at: float) -> Shape:
    for shape, share in SHAPES:
        at -= share
        if at < 0:
            return shape
    return SHAPES[0][0]


def _chat(turn: Turn, rid: str, *, stream: bool) -> tuple[str, dict[str, Any]]:
    return "/v1/chat/completions", {
        "model": MODEL_NAME,
        "messages": turn.messages,
        "max_tokens": MAX_TOKENS,
        "temperature": 0,
        "stream": stream,
        "rid": rid,
    }


def _generate(turn: Turn, rid: str) -> tuple[str, dict[str, Any]]:
    return "/generate", {
        "text": turn.task.prompt,
        "sampling_params": {"max_new_tokens": MAX_TOKENS, "temperature": 0},
        "stream": True,
        "rid": rid,
    }
