"""What a client may ask: bodies of `/generate` and `/v1/chat/completions`, checked as SGLang checks them.

Unknown fields are ignored, as the engine does (a router adds some of its own). What the lab cannot honour
is refused by name: several choices, batches, log probabilities and stop strings; a silent default would
make a measurement lie. A request with a temperature but no seed is given one, so that the lab can say
later what it would have answered without a fault.

Every refusal is the client's fault and carries the status and the body shape of the endpoint that it came
to.
"""

import secrets
import uuid
from dataclasses import dataclass
from typing import Any

import msgspec

from replay.lab.model import MAX_POSITIONS
from replay.lab.tasks import Message, flatten, prompt_ids
from replay.lab.tokenizer import VOCABULARY_SIZE

CONTEXT_TOKENS = MAX_POSITIONS - 16
"""Prompt and answer together; the rest are positions that the drafts of the last verify steps may touch."""

DEFAULT_NEW_TOKENS = 128
"""`/generate` without `max_new_tokens`, as in SGLang. A chat without a limit may fill the context."""

MODEL_NAME = "specguard-lab"

GREEDY_BELOW = 1e-6
"""A temperature below this is 0, as in SGLang: dividing by it would only overflow."""

MAX_PORT = 65_535


class RequestError(ValueError):
    """The client's request cannot be served: `status` and the text that SGLang would send."""

    def __init__(self, message: str, status: int = 400, kind: str = "BadRequestError") -> None:
        """Keep status and kind for the endpoint's own error shape."""
        super().__init__(message)
        self.status = status
        self.kind = kind


class Bootstrap(msgspec.Struct, frozen=True):
    """The pair that a router chose: which prefill worker, and the number of this hand-over."""

    host: str
    port: int
    room: int


@dataclass(frozen=True, slots=True)
class Submission:
    """One request, as the engine sees it."""

    rid: str
    prompt: tuple[int, ...]
    max_new_tokens: int
    ignore_eos: bool
    stream: bool
    model: str
    bootstrap: Bootstrap | None
    temperature: float = 0.0
    seed: int = 0
    chat: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    spec_details: bool = False

    def __repr__(self) -> str:
        """Leave the prompt out."""
        return f"<Submission {self.rid} {len(self.prompt)}+{self.max_new_tokens} tokens>"


class _Sampling(msgspec.Struct):
    max_new_tokens: int | None = None
    ignore_eos: bool = False
    temperature: float | None = None
    sampling_seed: int | None = None
    n: int | None = None
    stop: str | list[str] | None = None


class _Pair(msgspec.Struct):
    bootstrap_host: str | None = None
    bootstrap_port: int | None = None
    bootstrap_room: int | None = None
    rid: str | None = None
    stream: bool | None = None
    model: str | None = None


class _Generate(_Pair):
    text: str | None = None
    input_ids: list[int] | None = None
    sampling_params: _Sampling = msgspec.field(default_factory=_Sampling)
    return_logprob: bool | None = None


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class _Part(msgspec.Struct):
    type: str
    text: str = ""


class _Message(msgspec.Struct):
    role: str
    content: str | list[_Part] | None = None


class _Chat(_Pair, kw_only=True):
    messages: list[_Message]
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    ignore_eos: bool = False
    temperature: float | None = None
    seed: int | None = None
    n: int | None = None
    stop: str | list[str] | None = None
    logprobs: bool | None = None
    stream_options: _StreamOptions | None = None
    return_spec_tokens_details: bool = False


_generate_body = msgspec.json.Decoder(_Generate)
_chat_body = msgspec.json.Decoder(_Chat)


def read_generate(body: bytes) -> Submission:
    """Read a `/generate` body."""
    asked = _decode(_generate_body, body)
    if (asked.text is None) == (asked.input_ids is None):
        raise RequestError("Either text, input_ids or input_embeds should be provided, and only one of them.")
    _refuse(asked.sampling_params.n, asked.sampling_params.stop, asked.return_logprob)
    prompt = prompt_ids(asked.text) if asked.text is not None else _known(asked.input_ids or [])
    limit = asked.sampling_params.max_new_tokens
    return Submission(
        rid=asked.rid or uuid.uuid4().hex,
        prompt=tuple(prompt),
        max_new_tokens=_limit(len(prompt), DEFAULT_NEW_TOKENS if limit is None else limit),
        ignore_eos=asked.sampling_params.ignore_eos,
        stream=bool(asked.stream),
        model=asked.model or MODEL_NAME,
        bootstrap=_bootstrap(asked),
        temperature=_temperature(asked.sampling_params.temperature),
        seed=_seed(asked.sampling_params.sampling_seed),
    )


def read_chat(body: bytes) -> Submission:
    """Read a `/v1/chat/completions` body."""
    asked = _decode(_chat_body, body)
    if not asked.messages:
        raise RequestError("Messages cannot be empty.")
    _refuse(asked.n, asked.stop, asked.logprobs)
    prompt = prompt_ids(flatten([_text(message) for message in asked.messages]))
    options = asked.stream_options or _StreamOptions()
    limit = asked.max_completion_tokens if asked.max_tokens is None else asked.max_tokens
    return Submission(
        rid=asked.rid or uuid.uuid4().hex,
        prompt=tuple(prompt),
        max_new_tokens=_limit(len(prompt), limit),
        ignore_eos=asked.ignore_eos,
        stream=bool(asked.stream),
        model=asked.model or MODEL_NAME,
        bootstrap=_bootstrap(asked),
        temperature=_temperature(asked.temperature),
        seed=_seed(asked.seed),
        chat=True,
        include_usage=bool(options.include_usage),
        continuous_usage=bool(options.continuous_usage_stats),
        spec_details=asked.return_spec_tokens_details,
    )


def _decode(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:  # noqa: ANN401 (each caller knows its struct)
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestError(str(error), kind="Bad Request") from None


def _known(ids: list[int]) -> list[int]:
    if not all(0 <= token < VOCABULARY_SIZE for token in ids):
        raise RequestError(f"input_ids must be between 0 and {VOCABULARY_SIZE - 1}.")
    return ids


def _refuse(choices: int | None, stop: str | list[str] | None, logprobs: bool | None) -> None:
    if choices not in {None, 1}:
        raise RequestError("The lab gives one choice a request: n must be 1.")
    if stop:
        raise RequestError("The lab's model ends at <eos>: stop strings are not supported.")
    if logprobs:
        raise RequestError("The lab does not return log probabilities.")


def _text(message: _Message) -> Message:
    match message.content:
        case None:
            content = ""
        case str(content):
            pass
        case parts:
            content = "".join(part.text for part in parts)
    return {"role": message.role, "content": content}


def _limit(prompt_tokens: int, asked: int | None) -> int:
    """Return how many tokens the answer may have; refuse what the context cannot hold."""
    if prompt_tokens == 0:
        raise RequestError("The prompt is empty.")
    room = CONTEXT_TOKENS - prompt_tokens
    if room < 1:
        text = f"The input ({prompt_tokens} tokens) is longer than the model's context length"
        raise RequestError(f"{text} ({CONTEXT_TOKENS} tokens).")
    if asked is None:
        return room
    if asked < 1:
        raise RequestError(f"max_new_tokens must be at least 1, got {asked}.")
    if asked > room:
        text = f"Requested token count exceeds the model's maximum context length of {CONTEXT_TOKENS} tokens."
        total = (
            f"{prompt_tokens + asked} tokens: {prompt_tokens} from the input and {asked} for the completion."
        )
        raise RequestError(f"{text} You requested a total of {total}")
    return asked


def _temperature(asked: float | None) -> float:
    """Return it; the model's default is greedy, and its quality is known there only."""
    if asked is not None and asked < 0:
        raise RequestError(f"temperature must be non-negative, got {asked}.")
    return asked if asked is not None and asked >= GREEDY_BELOW else 0.0


def _seed(asked: int | None) -> int:
    return secrets.randbits(32) if asked is None else abs(asked)


def _bootstrap(asked: _Pair) -> Bootstrap | None:
    if asked.bootstrap_room is None:
        return None
    if asked.bootstrap_host is None or asked.bootstrap_port is None:
        raise RequestError("bootstrap_room needs bootstrap_host and bootstrap_port.")
    if asked.bootstrap_room < 0 or not 0 < asked.bootstrap_port <= MAX_PORT:
        raise RequestError("bootstrap_room or bootstrap_port is out of range.")
    return Bootstrap(asked.bootstrap_host, asked.bootstrap_port, asked.bootstrap_room)
