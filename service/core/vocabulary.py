"""Which token ids a model uses when all is well: those that its clean answers have brought so far.

A part of every vocabulary is hardly ever said (under-trained tokens, other languages; Land and Bartolo,
"Fishing for Magikarp", EMNLP 2024), while a model whose state is broken may say any of it. Ids are seen on
`/generate` alone. One bit an id: 32 KB a model. The bits of a model that nobody asks for any more make room.

Cost: 20 ns an id at the end of a clean stream.
"""

from collections.abc import Iterable
from typing import Final

IDS: Final = 1 << 18
"""Ids told apart: the largest vocabularies have 262,144."""

MODELS_MAX: Final = 32
"""Clients choose the names of models."""


class Vocabulary:
    """The ids of one model."""

    __slots__ = ("_bits", "tokens")

    def __init__(self) -> None:
        self._bits = bytearray(IDS // 8)
        self.tokens = 0  # of clean answers, so far

    def __repr__(self) -> str:
        return f"<Vocabulary of {self.tokens} tokens>"

    def learn(self, ids: Iterable[int]) -> None:
        """A clean answer's."""
        bits = self._bits
        for token in ids:
            self.tokens += 1
            if 0 <= token < IDS:
                bits[token >> 3] |= 1 << (token & 7)

    def holds(self, token: int) -> bool:
        """Whether a clean answer has brought this id; one beyond the table counts as known."""
        return not 0 <= token < IDS or bool(self._bits[token >> 3] >> (token & 7) & 1)


class Vocabularies:
    """Those of all models, the longest unasked first."""

    __slots__ = ("_models",)

    def __init__(self) -> None:
        self._models: dict[str, Vocabulary] = {}

    def __repr__(self) -> str:
        return f"<Vocabularies of {len(self._models)} models>"

    def of(self, model: str) -> Vocabulary:
        """This model's, from now on the newest."""
        own = self._models.pop(model, None) or Vocabulary()
        if len(self._models) >= MODELS_MAX:
            del self._models[next(iter(self._models))]
        self._models[model] = own
        return own
