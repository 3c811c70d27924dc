r"""K-grams of text: what two requests must share before one is suspected of speaking with the other's voice.

Text is normalised so that layout does not hide a copy: letters of ASCII in lower case, digits and every byte
above 0x7F kept, anything else a blank, blanks in a row one blank; an escape of JSON (`\n` inside tool call
arguments, `\\n` in JSON inside JSON) is a blank too. A k-gram is 32 normalised bytes from an *anchor* on: the
first byte of an ASCII word, or the lead byte of a non-ASCII character whose second byte ends in two zero bits
(one character in four, so that scripts without blanks have anchors as well). Whether a byte is an anchor
depends on its neighbours alone, so a passage has the same anchors wherever it stands.

Guarantee, where winnowing promises one fingerprint a window: both sides hash every anchor, so a passage of N
shared bytes gives a fingerprint for each anchor in its first N - 31 bytes, and at least one as soon as
N >= 31 + g, with g the longest gap between its anchors. In prose g is one word and its blank: 48 shared bytes
are never missed, and give three. In scripts without blanks a gap of more than 20 characters has a chance of
0.75 ** 20 = 0.3 %. Density: one in 6 bytes of prose (winnowing over 11 bytes has the same).

The hash chains the four 64-bit words of the gram: h = mix((h ^ word) * m), mix(x) = x ^ (x >> 32), with m odd
and m and the first h drawn from a salt, so that nobody outside the process can tell or plant a fingerprint.
Cost: 10 ns a byte of text in bulk.
"""

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.core.origin import GRAM_BYTES

Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Hashes = NDArray[np.uint64]
Places = NDArray[np.int64]

SHORT_BYTES: Final = 16
"""A text changed in every sixth word has no gram of 32 bytes in common with itself, but many of this size."""
FENCE: Final = b"\0"
"""Between texts that are hashed together; folded text has none."""
NO_GRAMS: Final[Hashes] = np.empty(0, np.uint64)

_BLANK: Final = 0x20
_ASCII: Final = 0x80
_LEAD: Final = 0xC0
_LOW_BITS: Final = 3
_HALF: Final = np.uint64(32)
_ESCAPE: Final = re.compile(rb"\\+[nrtbf\"'/]?")
_KEPT: Final = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyz") | frozenset(range(_ASCII, 256))
_FOLD: Final = bytes(
    low if (low := ord(chr(byte).lower()) if byte < _ASCII else byte) in _KEPT else _BLANK
    for byte in range(256)
)


class Grams(NamedTuple):
    """The k-grams of some texts, in order."""

    hashes: Hashes
    text: Places  # which text
    place: Places  # where in it, in normalised bytes

    def at(self, which: Places) -> "Grams":
        """Some of them."""
        return Grams(self.hashes[which], self.text[which], self.place[which])


class Hasher:
    """Fingerprints under one salt."""

    __slots__ = ("_factor", "_start")

    def __init__(self, salt: bytes) -> None:
        digest = blake2b(salt, digest_size=16, person=b"k-grams").digest()
        self._start = int.from_bytes(digest[:8], "little")
        self._factor = np.uint64(int.from_bytes(digest[8:], "little") | 1)

    def __repr__(self) -> str:
        """The salt stays out."""
        return "<Hasher>"

    def grams(self, texts: Sequence[bytes]) -> tuple[Grams, list[bytes]]:
        """The k-grams of folded texts, and each text normalised.

        The first byte of a text is what stood before it, a blank at its beginning.
        """
        laid = _Laid(texts)
        at = laid.anchors(GRAM_BYTES)
        return laid.grams(at, self._hashes(laid.whole, at, GRAM_BYTES)), laid.pieces()

    def short_grams(self, text: bytes) -> Grams:
        """The short grams of one text."""
        laid = _Laid([text])
        at = laid.anchors(SHORT_BYTES)
        return laid.grams(at, self._hashes(laid.whole, at, SHORT_BYTES))

    def both(self, texts: Sequence[bytes]) -> tuple[Grams, Grams, list[bytes]]:
        """The k-grams, and the short grams that they begin with or that find no room to become one."""
        laid = _Laid(texts)
        at = laid.anchors(SHORT_BYTES)
        short = self._hashes(laid.whole, at, SHORT_BYTES)
        long = laid.fit(at, GRAM_BYTES)
        rest = self._hashes(laid.whole, at[long], GRAM_BYTES, short[long], SHORT_BYTES)
        return laid.grams(at[long], rest), laid.grams(at, short), laid.pieces()

    def _hashes(
        self, data: bytes, at: Places, size: int, begun: Hashes | None = None, done: int = 0
    ) -> Hashes:
        """Of `size` bytes from each place; `begun` is what their first `done` bytes gave."""
        if not at.size:
            return NO_GRAMS
        every = np.ndarray((len(data) - size + 1,), f"V{size}", data, strides=(1,))
        words = every[at].view("<u8").reshape(len(at), -1)
        value: Hashes = np.full(len(at), self._start, np.uint64) if begun is None else begun
        for place in range(done // 8, size // 8):
            value = (value ^ words[:, place]) * self._factor
            value ^= value >> _HALF
        return value


class _Laid:
    """Some texts laid out in a row, normalised."""

    __slots__ = ("_begins", "_data", "_ends", "whole")

    def __init__(self, texts: Sequence[bytes]) -> None:
        self._data = data = _collapsed(np.frombuffer(FENCE.join([*texts, b""]), np.uint8))
        self._ends = np.flatnonzero(data == FENCE[0])
        self._begins = np.concatenate(([0], self._ends[:-1] + 1))
        self.whole = data.tobytes()

    def anchors(self, size: int) -> Places:
        """Anchors with so many bytes before their text's end; its first byte is none."""
        at = _anchors(self._data)
        begins = (at == 0) | (self._data[at - 1] == FENCE[0])
        anchors: Places = at[self.fit(at, size) & ~begins]
        return anchors

    def fit(self, at: Places, size: int) -> Flags:
        return at + size <= self._ends[self._text(at)]

    def grams(self, at: Places, hashes: Hashes) -> Grams:
        text = self._text(at)
        return Grams(hashes, text, at - self._begins[text])

    def pieces(self) -> list[bytes]:
        bounds = zip(self._begins.tolist(), self._ends.tolist(), strict=True)
        return [self.whole[begin:end] for begin, end in bounds]

    def _text(self, at: Places) -> Places:
        return np.searchsorted(self._ends, at)


def distinct(values: Hashes) -> Hashes:
    """Sorted, each once. Sorting lets the interpreter lock go, which `np.unique` does not, and is faster."""
    values = np.sort(values)
    keep = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=keep[1:])
    once: Hashes = values[keep]
    return once


def folded(text: str) -> bytes:
    """UTF-8 with everything but letters and digits turned into blanks; byte for byte, save for escapes."""
    data = text.encode("utf-8", "replace")
    if b"\\" in data:
        data = _ESCAPE.sub(b" ", data)
    return data.translate(_FOLD)


def open_escape(text: str) -> int:
    """How many characters at its end begin an escape, so that they must wait for the next."""
    return len(text) - len(text.rstrip("\\"))


def _collapsed(data: Bytes) -> Bytes:
    """Without the second and further blanks of a row."""
    blank = data == _BLANK
    blank[1:] &= blank[:-1].copy()
    blank[:1] = False
    kept: Bytes = data[~blank]
    return kept


def _anchors(data: Bytes) -> Places:
    """Where an ASCII word begins, or a non-ASCII character whose second byte ends in two zero bits."""
    found = (data > _BLANK) & (data < _ASCII)
    found[1:] &= data[:-1] == _BLANK
    lead = data >= _LEAD
    if lead.any():
        lead[:-1] &= (data[1:] & _LOW_BITS) == 0
        found |= lead
    return np.flatnonzero(found)
