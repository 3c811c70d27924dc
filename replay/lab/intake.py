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
    cached_details: bool = False
    echo: str = ""
    token_ids: bool = False
    """Send each chunk's token ids, and the prompt's with the first."""
    instructions: str | None = None
    max_output_tokens: int | None = None
    """As the client said it, for an answer that repeats the request."""

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


class RoutedBody(msgspec.Struct):
    """What a router adds to any body, and what all bodies have in common."""

    bootstrap_host: str | None = None
    bootstrap_port: int | None = None
    bootstrap_room: int | None = None
    rid: str | None = None
    stream: bool | None = None
    model: str | None = None


class _Generate(RoutedBody):
    text: str | None = None
    input_ids: list[int] | None = None
    sampling_params: _Sampling = msgspec.field(default_factory=_Sampling)
    return_logprob: bool | None = None


class StreamOptions(msgspec.Struct):
    """OpenAI's `stream_options`."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class BodyPart(msgspec.Struct):
    """One part of a message's content."""

    type: str
    text: str = ""


class BodyMessage(msgspec.Struct):
    """One chat message as it came."""

    role: str
    content: str | list[BodyPart] | None = None


class OpenAiBody(RoutedBody, kw_only=True):
    """What `/v1/chat/completions` and `/v1/completions` have in common, with SGLang's additions."""

    max_tokens: int | None = None
    ignore_eos: bool = False
    temperature: float | None = None
    seed: int | None = None
    n: int | None = None
    stop: str | list[str] | None = None
    stream_options: StreamOptions | None = None
    return_spec_tokens_details: bool = False
    return_cached_tokens_details: bool = False


class _Chat(OpenAiBody, kw_only=True):
    messages: list[BodyMessage]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None


_generate_body = msgspec.json.Decoder(_Generate)
_chat_body = msgspec.json.Decoder(_Chat)


def read_generate(body: bytes) -> Submission:
    """Read a `/generate` body."""
    asked = decode_body(_generate_body, body)
    if (asked.text is None) == (asked.input_ids is None):
        raise RequestError("Either text, input_ids or input_embeds should be provided, and only one of them.")
    refuse_options(asked.sampling_params.n, asked.sampling_params.stop, asked.return_logprob)
    prompt = prompt_ids(asked.text) if asked.text is not None else known_ids(asked.input_ids or [])
    limit = asked.sampling_params.max_new_tokens
    return Submission(
        rid=asked.rid or uuid.uuid4().hex,
        prompt=tuple(prompt),
        max_new_tokens=answer_limit(len(prompt), DEFAULT_NEW_TOKENS if limit is None else limit),
        ignore_eos=asked.sampling_params.ignore_eos,
        stream=bool(asked.stream),
        model=asked.model or MODEL_NAME,
        bootstrap=bootstrap_of(asked),
        temperature=temperature_of(asked.sampling_params.temperature),
        seed=seed_of(asked.sampling_params.sampling_seed),
    )


def read_chat(body: bytes) -> Submission:
    """Read a `/v1/chat/completions` body."""
    asked = decode_body(_chat_body, body)
    if not asked.messages:
        raise RequestError("Messages cannot be empty.")
    refuse_options(asked.n, asked.stop, asked.logprobs)
    prompt = prompt_ids(flatten([text_of(message) for message in asked.messages]))
    options = asked.stream_options or StreamOptions()
    limit = asked.max_completion_tokens if asked.max_tokens is None else asked.max_tokens
    return Submission(
        rid=asked.rid or uuid.uuid4().hex,
        prompt=tuple(prompt),
        max_new_tokens=answer_limit(len(prompt), limit),
        ignore_eos=asked.ignore_eos,
        stream=bool(asked.stream),
        model=asked.model or MODEL_NAME,
        bootstrap=bootstrap_of(asked),
        temperature=temperature_of(asked.temperature),
        seed=seed_of(asked.seed),
        chat=True,
        include_usage=bool(options.include_usage),
        continuous_usage=bool(options.continuous_usage_stats),
        spec_details=asked.return_spec_tokens_details,
        cached_details=asked.return_cached_tokens_details,
    )


def decode_body(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:  # noqa: ANN401 (each caller knows its struct)
    """Read a body; the client hears what is wrong with it."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestError(str(error), kind="Bad Request") from None


def known_ids(ids: list[int]) -> list[int]:
    """Refuse token ids that do not exist."""
    if not all(0 <= token < VOCABULARY_SIZE for token in ids):
        raise RequestError(f"input_ids must be between 0 and {VOCABULARY_SIZE - 1}.")
    return ids


def refuse_options(choices: int | None, stop: str | list[str] | None, logprobs: bool | None) -> None:
    """Refuse by name what the lab cannot honour."""
    if choices not in {None, 1}:
        raise RequestError("The lab gives one choice a request: n must be 1.")
    if stop:
        raise RequestError("The lab's model ends at <eos>: stop strings are not supported.")
    if logprobs:
        raise RequestError("The lab does not return log probabilities.")


def text_of(message: BodyMessage) -> Message:
    """Return a message with its parts joined."""
    match message.content:
        case None:
            content = ""
        case str(content):
            pass
        case parts:
            content = "".join(part.text for part in parts)
    return {"role": message.role, "content": content}


def answer_limit(prompt_tokens: int, asked: int | None) -> int:
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


def temperature_of(asked: float | None) -> float:
    """Return it; the model's default is greedy, and its quality is known there only."""
    if asked is not None and asked < 0:
        raise RequestError(f"temperature must be non-negative, got {asked}.")
    return asked if asked is not None and asked >= GREEDY_BELOW else 0.0


def seed_of(asked: int | None) -> int:
    """Return the seed, or a drawn one."""
    return secrets.randbits(32) if asked is None else abs(asked)


def bootstrap_of(asked: RoutedBody) -> Bootstrap | None:
    """Return the pair that a router chose, if it chose one."""
    if asked.bootstrap_room is None:
        return None
    if asked.bootstrap_host is None or asked.bootstrap_port is None:
        raise RequestError("bootstrap_room needs bootstrap_host and bootstrap_port.")
    if asked.bootstrap_room < 0 or not 0 < asked.bootstrap_port <= MAX_PORT:
        raise RequestError("bootstrap_room or bootstrap_port is out of range.")
    return Bootstrap(asked.bootstrap_host, asked.bootstrap_port, asked.bootstrap_room)
