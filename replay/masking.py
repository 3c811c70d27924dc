"""Text in place of text: as long, of the same scripts and shape, and saying nothing.

Words become common words of their length and case, digits other digits, letters of other scripts letters of
the same block; blanks, punctuation and the marks of code stay. What stands where is drawn by a keyed hash, so
that the way back takes the salt, which is thrown away, and a guess.

A key holds for a block of 512 characters and is made of the salt and of all text before the block. So texts
with a common beginning keep one, to the letter, as a prefix cache sees it; a word that recurs within a block
recurs, as a copy does; and no letter or word is counted across blocks to guess what it was.
"""

import re
from hashlib import blake2b, shake_128
from typing import Final

from replay.wording import BLOCKS, BY_LENGTH, KEPT, LATIN, LENGTHS

BLOCK_CHARS: Final = 512
"""About 128 tokens: eight pages of SGLang's radix cache."""
BLOCK_IDS: Final = BLOCK_CHARS // 4
KEY_BYTES: Final = 32
DRAWN_BYTES: Final = 16
SALT_BYTES_MIN: Final = 16
NAME_BITS: Final = (1 << 60) - 1
NUMBER_BITS: Final = (1 << 63) - 1
LAST_OF_PLANE: Final = 0xFFFF
RARE_HAN: Final = 0x20000
RARE_HAN_COUNT: Final = 0xA000
"""Han beyond the first plane: as many bytes as every other letter there, and as rare a sign."""

PART: Final = re.compile(
    r"\\u[0-9a-fA-F]{4}|\\[a-zA-Z\"\\/]"  # an escape within quoted JSON
    r"|[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+"  # camelCase and snake_case are read in their words
    r"|[^\W\d_]"  # a letter of another script
)


class Masker:
    """Masks texts and names under one salt."""

    def __init__(self, salt: bytes) -> None:
        if len(salt) < SALT_BYTES_MIN:
            raise ValueError(f"a salt has {SALT_BYTES_MIN} bytes at least")
        self._key = blake2b(salt, digest_size=KEY_BYTES, person=b"specguard-mask").digest()

    def __repr__(self) -> str:
        return "<Masker>"

    def start(self) -> "Chain":
        """A chain for one request: texts that follow each other in a prompt are masked through it."""
        return Chain(self._key)

    def name(self, text: str) -> str:
        """An identifier for an identifier, the same wherever it stands; nothing for nothing."""
        return f"n{drawn(self._key, text) & NAME_BITS:015x}" if text else text

    def number(self, value: int) -> int:
        """A number for a hash, the same wherever it stands."""
        return drawn(self._key, str(value)) & NUMBER_BITS


class Chain:
    """Where a prompt stands: the key of its next block."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def text(self, text: str) -> str:
        """The text, masked; what comes next depends on it."""
        return "".join(
            [self._block(text[start : start + BLOCK_CHARS]) for start in range(0, len(text), BLOCK_CHARS)]
        )

    def ids(self, ids: list[int], below: int) -> list[int]:
        """Token ids for token ids, each under `below`."""
        made = list[int]()
        for start in range(0, len(ids), BLOCK_IDS):
            block = ids[start : start + BLOCK_IDS]
            made += [drawn(self._key, str(one)) % below for one in block]
            self._turn(repr(block))
        return made

    def _block(self, block: str) -> str:
        known = dict[str, str]()

        def part(match: re.Match[str]) -> str:
            found = known.get(match[0])
            if found is None:
                found = known[match[0]] = _masked(match[0], drawn(self._key, match[0]))
            return found

        masked = PART.sub(part, block)
        self._turn(block)
        return masked

    def _turn(self, block: str) -> None:
        self._key = blake2b(_bytes(block), digest_size=KEY_BYTES, key=self._key).digest()


def drawn(key: bytes, text: str) -> int:
    """A number as large as the text is long, that only the key and the text give."""
    data = _bytes(text)
    return int.from_bytes(shake_128(key + data).digest(DRAWN_BYTES + len(data)))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _masked(part: str, value: int) -> str:
    if part[0] == "\\":
        return _escape(part, value)
    if not part.isascii():
        return _letter(part, value)
    if part.isdigit():
        return _digits(part, value)
    return part if part.lower() in KEPT else _word(part, value)


def _word(word: str, value: int) -> str:
    """A common word of the same length and case; a longer one is made of several."""
    made, left = "", len(word)
    while left:
        length = next(length for length in LENGTHS if length <= left)
        value, index = divmod(value, len(BY_LENGTH[length]))
        made, left = made + BY_LENGTH[length][index], left - length
    if word.isupper():
        return made.upper()
    return made.capitalize() if word[0].isupper() else made


def _digits(digits: str, value: int) -> str:
    """Other digits; a number that does not start with 0 does not now."""
    length = len(digits)
    if digits == "0":
        return digits
    if digits[0] == "0":
        return f"0{value % 10 ** (length - 1):0{length - 1}d}"
    return str(10 ** (length - 1) + value % (9 * 10 ** (length - 1)))


def _letter(letter: str, value: int) -> str:
    code = ord(letter)
    if code > LAST_OF_PLANE:
        return chr(RARE_HAN + value % RARE_HAN_COUNT)
    letters = next((letters for first, last, letters in BLOCKS if first <= code <= last), LATIN)
    found = letters[value % len(letters)]
    return found.upper() if letter.isupper() else found


def _escape(escape: str, value: int) -> str:
    """Escapes of control signs stay; an escaped letter is a letter."""
    if escape[1] != "u":
        return escape
    letter = chr(int(escape.removeprefix("\\u"), base=16))
    return f"\\u{ord(_letter(letter, value)):04x}" if letter.isalpha() else escape
