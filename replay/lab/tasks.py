r"""Agent-like tasks in which every prompt has one right answer, and sessions made of them.

Four kinds: `copy` a block, `edit` one field of a numbered record, `extract` fields in a given order, and
`order` shuffled steps, written as JSON lines (`{"1":"words of the step"}`). Comment lines (`# words.`) in
front stand for the history that an agent drags along. Prompts have 53 to 220 tokens, answers 32 to 97.

What makes a tiny model answer them exactly, and keeps clean answers free of loops, is the shape of the
prompt: no pair of neighbouring content words comes twice, no two lines start with the same word, keys are
never words, and every list ends in an explicit `end` line. So two tokens of context always say which token
comes next.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Literal, Self, TypedDict

import numpy as np

from replay.lab.tokenizer import BOS, EOS, FIXED, VOCABULARY_SIZE, decode, encode, token_id

Kind = Literal["copy", "edit", "extract", "order"]
KINDS: tuple[Kind, ...] = ("copy", "edit", "extract", "order")

SUBVOCABULARY_TOKENS = 112
"""Words of one prompt: few enough that most words come twice, so one token of context is not enough."""
KEYS = 16
"""Keys of one prompt, apart from its words: more than the longest record has fields."""
SESSION_TURNS = 4

NEWLINE, FENCE, COLON, HASH, DOT, DASH = (token_id(text) for text in ("\n", "```", ":", "#", ".", "-"))
OPEN, COLON_QUOTED, CLOSE = (token_id(text) for text in ('{"', '":"', '"}'))
END = token_id("end")
ANSWER_CUE = "answer:\n"
"""The generation prompt: it ends every prompt that the model was trained on."""


class Message(TypedDict):
    """One chat message."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Task:
    """A prompt and its only right answer (`answer_ids` ends in `<eos>`)."""

    kind: Kind
    prompt_ids: tuple[int, ...]
    answer_ids: tuple[int, ...]

    @property
    def prompt(self) -> str:
        """The prompt as text, answer cue included: what /generate takes."""
        return decode(self.prompt_ids)

    @property
    def answer(self) -> str:
        """The right answer as text."""
        return decode(self.answer_ids)


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of a session: its chat messages and the task that they flatten to."""

    messages: tuple[Message, ...]
    task: Task


def answer_ok(task: Task, text: str) -> bool:
    """Tell whether a text is the task's right answer; blank space at its ends does not count."""
    return text.strip() == task.answer.strip()


def prompt_ids(text: str) -> list[int]:
    """Turn a whole prompt into the model's tokens."""
    return [BOS, *encode(text)]


def flatten(messages: Sequence[Message]) -> str:
    """Apply the chat template: the contents, a line each, then the answer cue. Roles leave no trace."""
    return "".join(f"{message['content']}\n" for message in messages) + ANSWER_CUE


@dataclass(frozen=True, slots=True, repr=False)
class WordSource:
    """Lines of words from one prompt's sub-vocabulary that keep the rules of the module docstring."""

    rng: np.random.Generator
    words: Sequence[int]
    keys: Sequence[int]
    pairs: set[tuple[int, int]] = field(default_factory=set)
    firsts: set[int] = field(default_factory=set)

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> Self:
        """Draw the words and the keys of one prompt."""
        ids = (len(FIXED) + rng.permutation(VOCABULARY_SIZE - len(FIXED))).tolist()
        return cls(rng, ids[:SUBVOCABULARY_TOKENS], ids[SUBVOCABULARY_TOKENS : SUBVOCABULARY_TOKENS + KEYS])

    def __repr__(self) -> str:
        return f"<WordSource {len(self.firsts)} lines, {len(self.pairs)} pairs>"

    def fork(self) -> "WordSource":
        """Copy the source, so that several tasks may follow the same history."""
        return replace(self, pairs=set(self.pairs), firsts=set(self.firsts))

    def line(self, fewest: int, most: int, end: int = NEWLINE) -> list[int]:
        """Draw a line of fewest to most words that `end` will follow."""
        return self.exact_line(int(self.rng.integers(fewest, most + 1)), end)

    def exact_line(self, words: int, end: int = NEWLINE) -> list[int]:
        line: list[int] = []
        while len(line) < words:
            line.append(self._draw(line[-1] if line else None, end if len(line) == words - 1 else None))
        self.pairs.add((line[-1], end))
        return line

    def _draw(self, last: int | None, end: int | None) -> int:
        while True:
            word = self.words[int(self.rng.random() * SUBVOCABULARY_TOKENS)]
            if self._fits(word, last, end):
                break
        if last is None:
            self.firsts.add(word)
        else:
            self.pairs.add((last, word))
        return word

    def _fits(self, word: int, last: int | None, end: int | None) -> bool:
        """Tell if a word may follow `last` (None: begin a line) and precede `end` (None: not the last)."""
        if end is not None and (word, end) in self.pairs:
            return False
        if last is None:
            return word not in self.firsts
        return word != last and (last, word) not in self.pairs


def note(source: WordSource, fewest: int = 5, most: int = 10) -> list[int]:
    """Draw a comment line, its newline included."""
    return [HASH, *source.line(fewest, most, DOT), DOT, NEWLINE]


def body(kind: Kind, source: WordSource, scale: float = 1.0) -> tuple[list[int], list[int]]:
    """Draw one task without history: its prompt up to the answer cue, and its answer with `<eos>`.

    `scale` below 1 makes the task smaller: the curriculum of the training script.
    """
    prompt, answer = _BODIES[kind](source, scale)
    return prompt, [*answer, EOS]


def sample(rng: np.random.Generator, kind: Kind | None = None, scale: float = 1.0) -> Task:
    """Draw one task with comment lines in front, up to a prompt length drawn from 60 to 200 tokens."""
    kind = KINDS[int(rng.integers(len(KINDS)))] if kind is None else kind
    source = WordSource.drawn(rng)
    prompt, answer = body(kind, source, scale)
    room = int(rng.integers(60, 201) * scale) - len(prompt) - len(_CUE) - 1
    history: list[int] = []
    while room - len(history) > 8:  # noqa: PLR2004 (the shortest comment line)
        words = min(room - len(history) - 3, int(rng.integers(5, 11)))
        history += note(source, words, words)
    return Task(kind, (BOS, *history, *prompt, *_CUE), tuple(answer))


def session(rng: np.random.Generator, turns: int = SESSION_TURNS) -> list[Turn]:
    """Draw an agent-like session: each turn asks a task of its own behind the same, growing history.

    A system message of two comment lines comes first; each turn that is over leaves a user line and an
    assistant line (the log that an agent keeps instead of whole answers), so a turn's prompt starts with
    the history of the turn before it. More than 6 turns would leave the prompt lengths that the model was
    trained on.
    """
    source = WordSource.drawn(rng)
    history = [_message("system", note(source) + note(source))]
    drawn = []
    for _ in range(turns):
        kind = KINDS[int(rng.integers(len(KINDS)))]
        prompt, answer = body(kind, source.fork())
        messages = (*history, _message("user", prompt))
        drawn.append(Turn(messages, Task(kind, tuple(prompt_ids(flatten(messages))), tuple(answer))))
        history += [_message("user", note(source, 4, 6)), _message("assistant", note(source, 4, 6))]
    return drawn


def _message(role: str, ids: list[int]) -> Message:
    return {"role": role, "content": decode(ids).removesuffix("\n")}


def _number(number: int) -> int:
    return token_id(str(number))


def _joined(lines: Iterable[list[int]]) -> list[int]:
    return list(chain.from_iterable(lines))


def _draw_size(source: WordSource, fewest: int, most: int, scale: float) -> int:
    return int(source.rng.integers(max(2, round(fewest * scale)), max(2, round(most * scale)) + 1))


def _copy(source: WordSource, scale: float) -> tuple[list[int], list[int]]:
    left = _draw_size(source, 30, 64, scale)
    block: list[int] = []
    while left > 0:
        words = min(left, int(source.rng.integers(4, 9)))
        words = left if left - words < 2 else words  # noqa: PLR2004 (no line of one word)
        block += [*source.exact_line(words), NEWLINE]
        left -= words
    return [*encode("repeat the block exactly:\n```\n"), *block, FENCE, NEWLINE], block


def _edit(source: WordSource, scale: float) -> tuple[list[int], list[int]]:
    fields = _draw_size(source, 5, 9, scale)
    values = [source.line(2, 5) for _ in range(fields)]
    edited, value = int(source.rng.integers(fields)), source.line(2, 5)

    before = _record(source.keys, values)
    values[edited] = value
    change = [token_id("set"), source.keys[edited], COLON, *value, NEWLINE]
    return [*encode("edit the record:\n"), *before, *change], _record(source.keys, values)


def _record(keys: Sequence[int], values: Sequence[list[int]]) -> list[int]:
    lines = [[_number(at), keys[at - 1], COLON, *value, NEWLINE] for at, value in enumerate(values, 1)]
    return [*_joined(lines), _number(len(values) + 1), END, NEWLINE]


def _extract(source: WordSource, scale: float) -> tuple[list[int], list[int]]:
    fields = _draw_size(source, 6, 10, scale)
    wanted = source.rng.permutation(fields)[: _draw_size(source, 4, 6, scale)].tolist()
    lines = [[source.keys[at], COLON, *source.line(3, 6), NEWLINE] for at in range(fields)]
    order = [[_number(rank), source.keys[at]] for rank, at in enumerate(wanted, 1)]
    end = [_number(len(wanted) + 1), END, NEWLINE]
    prompt = [*encode("record:\n"), *_joined([DASH, *line] for line in lines), *encode("get fields:")]
    answer = _joined([_number(rank), *lines[at]] for rank, at in enumerate(wanted, 1))
    return [*prompt, *_joined(order), *end], [*answer, *end]


def _order(source: WordSource, scale: float) -> tuple[list[int], list[int]]:
    steps = _draw_size(source, 5, 8, scale)
    texts = [*(source.line(3, 6, CLOSE) for _ in range(steps)), [END]]
    lines = [[OPEN, _number(at), COLON_QUOTED, *text, CLOSE, NEWLINE] for at, text in enumerate(texts, 1)]
    shuffled = source.rng.permutation(steps + 1).tolist()
    prompt = [*encode("order the steps by number:\n"), *_joined(lines[at] for at in shuffled)]
    return prompt, _joined(lines)


_CUE = tuple(encode(ANSWER_CUE))
_BODIES: dict[Kind, Callable[[WordSource, float], tuple[list[int], list[int]]]] = {
    "copy": _copy,
    "edit": _edit,
    "extract": _extract,
    "order": _order,
}
