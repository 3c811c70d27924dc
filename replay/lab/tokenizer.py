r"""A word-level tokenizer whose text round-trips: encode(decode(ids)) == ids for every visible token.

512 tokens: specials, punctuation, the instruction words of the four tasks, the numbers 1 to 12 and content
words (`weights/words.txt`, the most frequent short words of a standard library's source). A blank stands
between two tokens unless one of them clings (`key:`, `{"1":"copy the line"}`), so the text of a token
depends on the token before it only, and decode(ids[:n]) is a prefix of decode(ids): a stream never has to
take a character back.

`<pad>`, `<bos>` and `<eos>` are special: the detokenizer skips them, as an engine with skip_special_tokens
does. `<pad>` is id 0 on purpose: a row of NaN logits has its argmax at 0, so a request with NaN in its KV
emits tokens for ever and not one character of text.

Client text is never refused for its words: an unknown word or sign becomes one `<unk>`, as with any
tokenizer that has no bytes to fall back on. So does a run of two or more blanks: a client that formats a
prompt anew sends other tokens, which is how a changed space kills a prefix hit. `<unk>` is visible and was
never trained.
"""

import hashlib
import re
from collections.abc import Iterable
from importlib import resources

PUNCTUATION = ("\n", "```", ":", "#", ".", "-", '{"', '":"', '"}')
INSTRUCTIONS = "repeat the block exactly set edit record get fields order steps by number answer end"
MAX_NUMBER = 12
"""Eleven lines and the line that ends them: the longest list a task has."""

_SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
_NUMBERS = tuple(str(number) for number in range(1, MAX_NUMBER + 1))
_WORDS = tuple(resources.files("replay.lab").joinpath("weights/words.txt").read_text("ascii").split())

FIXED: tuple[str, ...] = (*_SPECIALS, *PUNCTUATION, *INSTRUCTIONS.split(), *_NUMBERS)
TOKENS: tuple[str, ...] = (*FIXED, *_WORDS)
VOCABULARY_SIZE = len(TOKENS)
VOCABULARY_SHA256 = hashlib.sha256("\0".join(TOKENS).encode()).hexdigest()
"""Weights name the vocabulary that they were trained with; see `model.Weights.load`."""

PAD, BOS, EOS, UNK = range(4)
_INVISIBLE = frozenset((PAD, BOS, EOS))
_IDS = {text: index for index, text in enumerate(TOKENS) if index not in _INVISIBLE}
_NO_BLANK_BEFORE = frozenset(_IDS[text] for text in ("\n", ":", ".", '":"', '"}'))
_NO_BLANK_AFTER = frozenset(_IDS[text] for text in ("\n", '{"', '":"'))
_PIECE = re.compile(r'<unk>|\n|```|\{"|":"|"\}|\w+| {2,}|\S')


def token_id(text: str) -> int:
    """Return the id of one known visible token."""
    return _IDS[text]


def encode(text: str) -> list[int]:
    """Split text into known tokens; anything else is one `<unk>` for each word, sign or run of blanks."""
    return [_IDS.get(piece, UNK) for piece in _PIECE.findall(text)]


def decode(ids: Iterable[int]) -> str:
    """Join tokens into text, special tokens skipped."""
    detokenizer = Detokenizer()
    return "".join(detokenizer.feed(index) for index in ids)


class Detokenizer:
    """The text of one stream, token by token: feed() returns what the token adds."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        """Start before the first visible token."""
        self._last: int | None = None

    def __repr__(self) -> str:
        """Say only whether text has begun."""
        return f"<Detokenizer {'empty' if self._last is None else 'in text'}>"

    def feed(self, index: int) -> str:
        """Return the text that this token appends, blank included; nothing for a special token."""
        if index in _INVISIBLE:
            return ""
        last, self._last = self._last, index
        clings = last is None or last in _NO_BLANK_AFTER or index in _NO_BLANK_BEFORE
        return TOKENS[index] if clings else f" {TOKENS[index]}"
