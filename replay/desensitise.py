"""A trace without what it said: lengths, scripts, structure and shared prefixes stay, wording goes.

Texts go through `masking`, block hashes and names through the same salt; answers are left out, as they answer
another wording, and so are images. The salt is made anew each time and is not kept, unless its owner gives
one so that files of several days fit each other: who has it can try guesses, and no more.

What was kept and what is gone is counted on the way and can be printed: the proof.
"""

import secrets
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from replay.masking import Chain, Masker
from replay.trace import TraceHeader, TraceRequest
from replay.wording import BLOCKS, KEPT
from service.core.recorded import PSEUDO_TOKEN

SALT_BYTES: Final = 32
TEXTS: Final = frozenset(
    {"content", "text", "prompt", "input", "arguments", "description", "reasoning_content", "thinking",
     "instructions", "suffix", "system", "title"}
)  # fmt: skip
"""Keys whose strings are read by the model; every other string is a name or a choice."""
CHOICES: Final = frozenset(
    {"role", "type", "model", "object", "finish_reason", "tool_choice", "response_format", "reasoning_effort",
     "format", "detail", "lora_path", "service_tier"}
)  # fmt: skip
"""Keys whose strings the engine acts on; a name of a person is not among them."""
NAMED: Final = frozenset({"properties", "metadata", "$defs", "definitions", "dependentRequired"})
"""Objects whose keys are somebody's words."""
GRAMMARS: Final = frozenset(
    {"regex", "ebnf", "structural_tag", "pattern", "grammar", "guided_regex", "guided_grammar"}
)
"""Strings that an answer has to match: masked, they would force an answer that nobody gave."""
SCHEMAS: Final = frozenset({"json_schema", "guided_json"})
"""Schemas, also where they are written as a string."""
MEDIA: Final = frozenset({"image_url", "input_audio", "file", "image", "audio", "video_url"})
SHINGLE: Final = 24
"""Characters that texts have in common by more than chance."""
SAMPLED: Final = 2000
"""Requests whose shingles are compared; the rest is counted only."""
VOCABULARY: Final = 32_000


class Proof(msgspec.Struct):
    """Before and after, for people to look at."""

    requests: int = 0
    chars: int = 0
    chars_after: int = 0
    tokens: int = 0  # as `core.recorded` counts them without a vocabulary
    tokens_after: int = 0
    words: int = 0
    words_left: int = 0  # the same word at the same place, marks of code aside
    shingles: int = 0
    shingles_left: int = 0
    shared_prefix_chars: int = 0  # of each request with the one before it
    shared_prefix_chars_after: int = 0
    scripts: dict[str, int] = {}
    scripts_after: dict[str, int] = {}
    answers_left_out: int = 0
    media_left_out: int = 0
    grammars_left_out: int = 0

    def holds(self) -> bool:
        """Whether shape was kept and wording is gone."""
        return (
            self.chars == self.chars_after
            and self.shared_prefix_chars <= self.shared_prefix_chars_after
            and self.scripts == self.scripts_after
            and self.shingles_left == 0
        )


class Desensitiser:
    """Takes the wording out of requests, one at a time."""

    def __init__(self, salt: bytes | None = None) -> None:
        self._masker = Masker(salt or secrets.token_bytes(SALT_BYTES))
        self.proof = Proof()
        self._scripts: tuple[Counter[str], Counter[str]] = Counter(), Counter()
        self._last = "", ""

    def header(self, header: TraceHeader) -> TraceHeader:
        note = "wording taken out; answers left out"
        return msgspec.structs.replace(header, salted=True, notes=[*header.notes, note])

    def requests(self, requests: Iterable[TraceRequest]) -> Iterator[TraceRequest]:
        for request in requests:
            yield self.request(request)

    def request(self, request: TraceRequest) -> TraceRequest:
        name, proof = self._masker.name, self.proof
        proof.requests += 1
        proof.answers_left_out += request.expected is not None
        made = TraceRequest(
            id=name(request.id),
            at_s=request.at_s,
            session=name(request.session),
            turn=request.turn,
            parent=name(request.parent),
            group=name(request.group),
            path=request.path,
            prompt_tokens=request.prompt_tokens,
            output_tokens=request.output_tokens,
            cached_tokens=request.cached_tokens,
            blocks=tuple(map(self._masker.number, request.blocks)),
            body=None if request.body is None else self._body(request.body),
            abort_after_s=request.abort_after_s,
        )
        self._count(request.body, made.body)
        return made

    # --- bodies ---

    def _body(self, body: dict[str, Any]) -> dict[str, Any]:
        chain = self._masker.start()
        try:
            made: dict[str, Any] = self._value(body, "", chain)
        except RecursionError:
            raise ValueError(
                f"request {self.proof.requests} is nested deeper than any body that is meant"
            ) from None
        return made

    def _value(self, value: Any, key: str, chain: Chain) -> Any:  # noqa: ANN401 - any JSON value
        if isinstance(value, dict):
            kept = {name: one for name, one in value.items() if not self._forces(name, one)}
            return {self._key(name, key): self._value(one, name, chain) for name, one in kept.items()}
        if isinstance(value, list):
            if key == "input_ids" and all(isinstance(one, int) for one in value):
                return chain.ids(value, VOCABULARY)
            return [self._value(one, key, chain) for one in value]
        if key in MEDIA or (key == "url" and isinstance(value, str)):
            self.proof.media_left_out += 1
            return ""
        return self._string(value, key, chain) if isinstance(value, str) else value

    def _string(self, value: str, key: str, chain: Chain) -> str:
        if key in TEXTS or key in {"messages", "stop", "texts"}:
            return chain.text(value)
        if key in SCHEMAS:
            return msgspec.json.encode(self._value(_schema(value), key, chain)).decode()
        if key == "$ref":  # "#/$defs/NAME": the way stays, so that it leads to the key's new name
            way, slash, name = value.rpartition("/")
            return f"{way}{slash}{self._masker.name(name)}"
        return value if key in CHOICES else self._masker.name(value)

    def _key(self, name: str, key: str) -> str:
        """Names of a tool's parameters are somebody's words; keys of the API are not."""
        return self._masker.name(name) if key in NAMED else name

    def _forces(self, name: str, value: Any) -> bool:  # noqa: ANN401 - any JSON value
        """Whether it is a grammar that cannot be masked, which is left out and counted."""
        if not isinstance(value, str):
            return False
        left_out = name in GRAMMARS or (name in SCHEMAS and _schema(value) is None)
        self.proof.grammars_left_out += left_out
        return left_out

    # --- the proof ---

    def _count(self, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        if before is None or after is None:
            return
        old, new = texts_of(before), texts_of(after)
        measure(self.proof, old, new, self._scripts, sampled=self.proof.requests <= SAMPLED)
        self.proof.shared_prefix_chars += common(self._last[0], old)
        self.proof.shared_prefix_chars_after += common(self._last[1], new)
        self._last = old, new


def _schema(text: str) -> dict[str, Any] | None:
    """A schema that is written as a string; None for what is none."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        return None


def texts_of(value: Any, key: str = "") -> str:  # noqa: ANN401 - any JSON value
    """All that a model would read of a body, in order."""
    if isinstance(value, dict):
        return "".join(texts_of(one, name) for name, one in value.items())
    if isinstance(value, list):
        return "".join(texts_of(one, key) for one in value)
    return value if isinstance(value, str) and (key in TEXTS or key == "messages") else ""


def common(one: str, other: str) -> int:
    """Characters of the common beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def measure(
    proof: Proof, old: str, new: str, scripts: tuple[Counter[str], Counter[str]], *, sampled: bool
) -> None:
    proof.chars += len(old)
    proof.chars_after += len(new)
    proof.tokens += len(PSEUDO_TOKEN.findall(old))
    proof.tokens_after += len(PSEUDO_TOKEN.findall(new))
    scripts[0].update(scripts_of(old))
    scripts[1].update(scripts_of(new))
    proof.scripts, proof.scripts_after = dict(scripts[0]), dict(scripts[1])
    pairs = list(zip(old.split(), new.split(), strict=False))
    proof.words += len(pairs)
    proof.words_left += sum(a == b and a.isalpha() and a.lower() not in KEPT for a, b in pairs)
    if sampled:
        shingles = {old[at : at + SHINGLE] for at in range(0, len(old) - SHINGLE, SHINGLE // 2)}
        wordy = {one for one in shingles if sum(map(str.isalpha, one)) > SHINGLE // 2}
        proof.shingles += len(wordy)
        proof.shingles_left += sum(one in new for one in wordy)


def scripts_of(text: str) -> dict[str, int]:
    """Letters by the first of their block, "a" for Latin ones."""
    found: Counter[str] = Counter()
    for letter in set(text):
        if letter.isalpha():
            code = ord(letter)
            found[next((letters[0] for first, last, letters in BLOCKS if first <= code <= last), "a")] += (
                text.count(letter)
            )
    return found
