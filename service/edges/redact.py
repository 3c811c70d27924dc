"""Redaction: secrets leave a text before it is written anywhere.

Only the `full` capture mode keeps text at all; this is its second line. Each pattern is linear: bounded
repeats, no nested ones. A find is replaced by `[redacted:WHAT]`. What looks like a secret but is none is
lost from a case; that is the cheaper mistake.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

PIECE_CHARS: Final = 8 * 1024
"""Texts are scanned in pieces: one scan holds the interpreter, and the stream path waits for it."""


class Secret(NamedTuple):
    """One kind of secret: words one of which must stand in the text (lower case), and the pattern proper."""

    kind: str
    words: tuple[str, ...]
    pattern: re.Pattern[str]
    mark: str = ""


_PEM: Final = (
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]{0,8192}?"
    r"(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)"
)
_ASSIGNED: Final = (
    r"(?i)((?:password|passwd|secret|api[_-]?key|access[_-]?key|auth[_-]?token|private[_-]?key)[\"']?\s{0,4}[:=]\s{0,4})"
    r"(?:\"[^\"\n]{1,500}\"|'[^'\n]{1,500}'|(?!\[redacted)[^\s\"',;}\]]{4,500})"
)
_SECRETS: Final = tuple(
    Secret(kind, words, re.compile(pattern), mark or f"[redacted:{kind}]")
    for kind, words, pattern, mark in (
        ("private_key", ("-----begin",), _PEM, ""),
        ("bearer", ("bearer",), r"(?i)\bbearer\s{1,4}[\w.~+/=-]{8,4000}", ""),
        ("basic_auth", ("basic",), r"(?i)\bbasic\s{1,4}[A-Z0-9+/]{12,2000}={0,2}", ""),
        ("jwt", ("eyj",), r"\beyJ[\w-]{8,2000}\.[\w-]{8,4000}\.[\w-]{8,1000}", ""),
        ("url_password", ("://",), r"(?<=://)[^\s/:@]{1,200}:[^\s/@]{1,200}(?=@)", ""),
        ("api_key", ("k-", "k_"), r"\b[spr]k[-_](?=[\w-]{0,60}\d)[\w-]{16,200}", ""),
        ("aws_key", ("akia", "asia"), r"\bA[KS]IA[A-Z0-9]{16}\b", ""),
        ("github_token", ("gh",), r"\b(?:gh[pousr]_[A-Za-z0-9]{20}|github_pat_)\w{0,255}", ""),
        ("slack_token", ("xox",), r"\bxox[abeoprs]-[\w-]{10,250}", ""),
        ("google_key", ("aiza",), r"\bAIza[\w-]{35}", ""),
        ("hf_token", ("hf_",), r"\bhf_[A-Za-z0-9]{20,100}\b", ""),
        ("assigned", ("pass", "secret", "key", "token"), _ASSIGNED, r"\1[redacted:assigned]"),
        ("email", ("@",), r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}\b", ""),
    )
)  # fmt: skip
_CARD: Final = re.compile(r"\b(?:\d[ -]?){12,18}\d\b")


def redacted(text: str) -> str:
    """The text without what looks like a secret."""
    return "".join(map(_piece, _pieces(text)))


def redacted_json(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Every string in a JSON value, redacted; keys and numbers stay."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, list):
        return [redacted_json(one) for one in value]
    if isinstance(value, dict):
        return {redacted(str(key)): redacted_json(one) for key, one in value.items()}
    return value


def _piece(text: str) -> str:
    words = text.lower()
    for secret in _SECRETS:
        if any(word in words for word in secret.words):
            text = secret.pattern.sub(secret.mark, text)
    return _CARD.sub(_card, text)


def _card(found: re.Match[str]) -> str:
    return "[redacted:card]" if _is_card(found[0]) else found[0]


def _is_card(text: str) -> bool:
    """Luhn's checksum: with every other digit from the right doubled, the digit sum is a multiple of 10."""
    digits = [int(char) for char in text if char.isdigit()][::-1]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces that end at a line's end where there is one, and never inside a PEM block."""
    start = 0
    while len(text) - start > PIECE_CHARS:
        end = start + PIECE_CHARS
        cut = text.rfind("\n", start + PIECE_CHARS // 2, end) + 1 or end
        opened = text.rfind("-----BEGIN", start + 1, cut)
        if opened > text.rfind("-----END", start, cut):
            cut = opened
        yield text[start:cut]
        start = cut
    yield text[start:]
