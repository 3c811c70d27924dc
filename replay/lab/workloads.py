"""Agent workloads with known answers: long sessions over one document, and what goes wrong with them.

    system     comment lines and a record: the document that all steps of a session share
    history    two short comment lines a step, the log that an agent keeps: the prefix grows
    user       `get fields: ...`, each step other fields in another order, answered from the document

So each answer hangs on pages at the very beginning of the prompt: whatever harms the cached prefix, harms
the answer. When the history is long the agent compacts it, and the prefix starts anew behind the document.
`candidates` sends each step several times at once; `branches` are sessions that fork from a common history;
`drift_at` puts a second blank into the system message from that step on: to a reader the same prompt, to
the tokenizer another one, and to the prefix cache a miss from its page on. With `wanders` it is other blanks
at every step, as with a clock in a system message: no step finds what the one before it left.

Between two steps a tool runs: lognormal, median 2 s, cut at 75 s, which is long enough for the prefix to be
pushed out to the host.

Clean, measured on 12 sessions of 40 steps, every fourth step: 120 of 120 answered exactly, with and without
the drift, prompts of 100 to 337 tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from replay.lab.tasks import (
    COLON,
    DASH,
    END,
    NEWLINE,
    Message,
    Task,
    WordSource,
    flatten,
    note,
    prompt_ids,
)
from replay.lab.tokenizer import EOS, decode, encode, token_id

MIN_STEPS, MAX_STEPS = 1, 100

FIELDS = 8
"""Fields of the document, as in the records that the model was trained on."""

MAX_HISTORY_NOTES = 48
"""Comment lines that the agent keeps; then it compacts. One prompt has words for about 100 lines."""

EARLY_BLANKS = 7
"""Blanks that drift: the first page has them all, so a miss is one of the whole prompt. 127 ways to do it."""

TOOL_MEDIAN_S, TOOL_SIGMA, MAX_TOOL_S = 2.0, 1.6, 75.0
"""Tool calls: half are over in 2 s, one in a hundred runs into the cut."""


@dataclass(frozen=True, slots=True)
class Step:
    """One request of a session: when it may go out, what it says, and what answer is right."""

    session: str
    index: int
    messages: tuple[Message, ...]
    task: Task
    tool_s: float
    """How long the tool ran whose result this step reports."""
    compacted: bool = False
    """The agent has just dropped its history: the prefix is the document again."""

    def __repr__(self) -> str:
        """Leave the text out."""
        return f"<Step {self.session}/{self.index}, {len(self.task.prompt_ids)} tokens>"


@dataclass(frozen=True, slots=True)
class Plan:
    """What sessions look like."""

    steps: int = 10
    branches: int = 1
    """Sessions that fork from the common history after half of the steps."""
    drift_at: int | None = None
    wanders: bool = False

    @property
    def fork_at(self) -> int:
        """First step that the branches do not share."""
        return self.steps // 2 if self.branches > 1 else self.steps

    def __post_init__(self) -> None:
        """Refuse a session that cannot be drawn."""
        if not MIN_STEPS <= self.steps <= MAX_STEPS:
            raise ValueError(f"a session has {MIN_STEPS} to {MAX_STEPS} steps, not {self.steps}")
        if self.branches < 1:
            raise ValueError(f"a session has at least one branch, not {self.branches}")
        if self.drift_at is not None and not 0 <= self.drift_at < self.steps:
            raise ValueError(f"drift at step {self.drift_at} of {self.steps}")


class Document:
    """The record that a session is about, and questions to it."""

    def __init__(self, rng: np.random.Generator) -> None:
        """Draw words, keys and lines."""
        self.source = WordSource.drawn(rng)
        self.front = [*note(self.source), *note(self.source)]
        self.lines = [[self.source.keys[at], COLON, *self.source.line(3, 6), NEWLINE] for at in range(FIELDS)]

    def __repr__(self) -> str:
        """Count the fields."""
        return f"<Document {len(self.lines)} fields>"

    @property
    def message(self) -> Message:
        """The system message."""
        listed = [token for line in self.lines for token in (DASH, *line)]
        return _message("system", [*self.front, *encode("record:\n"), *listed])

    def question(self, rng: np.random.Generator) -> tuple[Message, tuple[int, ...]]:
        """Draw a question and its answer."""
        wanted = rng.permutation(FIELDS)[: int(rng.integers(4, 7))].tolist()
        end = [token_id(str(len(wanted) + 1)), END, NEWLINE]
        ranked = [(token_id(str(rank)), self.lines[at]) for rank, at in enumerate(wanted, 1)]
        asked = [token for rank, line in ranked for token in (rank, line[0])]
        answer = [token for rank, line in ranked for token in (rank, *line)]
        return _message("user", [*encode("get fields:"), *asked, *end]), (*answer, *end, EOS)


def sessions(seed: int, number: int, plan: Plan) -> Iterator[list[Step]]:
    """Draw one tree of sessions: the common trunk with the first branch, then each other branch."""
    rng = np.random.default_rng((seed, number))
    document = Document(rng)
    trunk = _Agent(document, rng)
    stem = [trunk.step(f"{number}.0", at) for at in range(plan.fork_at)]
    for branch in range(plan.branches):
        agent = trunk.fork(np.random.default_rng((seed, number, branch + 1)))
        name = f"{number}.{branch}"
        grown = [agent.step(name, at) for at in range(plan.fork_at, plan.steps)]
        yield _drifted([*(stem if branch == 0 else []), *grown], plan)


def candidates(step: Step, count: int) -> list[Step]:
    """Return one step as several candidates: the same prompt at the same time, for a best of n."""
    return [replace(step, session=f"{step.session}#{at}") for at in range(count)]


class _Agent:
    """Keeps the log of one session."""

    def __init__(self, document: Document, rng: np.random.Generator) -> None:
        self._document = document
        self._rng = rng
        self._source = document.source.fork()
        self._history: list[Message] = []

    def __repr__(self) -> str:
        return f"<_Agent {len(self._history)} messages>"

    def fork(self, rng: np.random.Generator) -> "_Agent":
        """Go on from here in another way."""
        copy = _Agent(self._document, rng)
        copy._source, copy._history = replace(self._source.fork(), rng=rng), list(self._history)
        return copy

    def step(self, session: str, index: int) -> Step:
        """Ask, then log a line of the tool's and a line of one's own."""
        compacted = len(self._history) >= MAX_HISTORY_NOTES
        if compacted:
            self._source = replace(self._document.source.fork(), rng=self._rng)
            self._history = []
        question, answer = self._document.question(self._rng)
        messages = (self._document.message, *self._history, question)
        task = Task("extract", tuple(prompt_ids(flatten(messages))), answer)
        tool_s = 0.0 if index == 0 else _tool_s(self._rng)
        for role in ("user", "assistant"):
            self._history.append(_message(role, note(self._source, 2, 3)))
        return Step(session, index, messages, task, tool_s, compacted)


def _drifted(steps: list[Step], plan: Plan) -> list[Step]:
    first = plan.drift_at
    if first is None:
        return steps
    return [
        step if step.index < first else _with_double_blank(step, step.index - first if plan.wanders else 0)
        for step in steps
    ]


def _with_double_blank(step: Step, which: int) -> Step:
    """Double those of the first blanks of the system message that the binary digits of `which` + 1 name."""
    parts = step.messages[0]["content"].split(" ")
    for at in reversed(range(EARLY_BLANKS)):
        if (which + 1) >> at & 1:
            parts.insert(1 + at, "")
    system: Message = {"role": "system", "content": " ".join(parts)}
    messages = (system, *step.messages[1:])
    task = replace(step.task, prompt_ids=tuple(prompt_ids(flatten(messages))))
    return replace(step, messages=messages, task=task)


def _tool_s(rng: np.random.Generator) -> float:
    return min(MAX_TOOL_S, float(rng.lognormal(np.log(TOOL_MEDIAN_S), TOOL_SIGMA)))


def _message(role: str, ids: Sequence[int]) -> Message:
    return {"role": role, "content": decode(ids).removesuffix("\n")}
