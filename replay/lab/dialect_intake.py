"""Bodies of `/v1/completions`, `/v1/messages` and `/v1/responses`, turned into the engine's own request.

All three end as a prompt for the same model: a completion's prompt is the prompt, the other two are chats
that go through the lab's template (contents, a line each). Content that is no text leaves no trace: images,
thinking, and the arguments of old tool calls. Tool definitions are taken and not used, the model calls none.
"""

import uuid
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from replay.lab.intake import (
    MODEL_NAME,
    BodyPart,
    OpenAiBody,
    RequestError,
    RoutedBody,
    StreamOptions,
    Submission,
    answer_limit,
    bootstrap_of,
    decode_body,
    known_ids,
    refuse_options,
    seed_of,
    temperature_of,
)
from replay.lab.tasks import Message, flatten, prompt_ids
from replay.lab.tokenizer import decode

COMPLETION_TOKENS = 16
"""`/v1/completions` without `max_tokens`, as in SGLang and OpenAI."""


class _Completion(OpenAiBody, kw_only=True):
    prompt: str | list[str | int | list[int]]
    max_tokens: int | None = COMPLETION_TOKENS
    echo: bool = False
    logprobs: int | None = None
    return_token_ids: bool = False


class _Block(msgspec.Struct):
    """A content block of a message, an item's content part or a tool's result."""

    type: str = "text"
    text: str = ""
    content: str | list[BodyPart] | None = None


class _Said(msgspec.Struct):
    """A message, or an input item of `/v1/responses`."""

    role: str = "user"
    content: str | list[_Block] | None = None
    type: str = "message"
    output: str | list[BodyPart] | None = None
    """What a tool returned, in `/v1/responses`."""


class _Messages(RoutedBody, kw_only=True):
    messages: list[_Said]
    max_tokens: int
    system: str | list[_Block] | None = None
    temperature: float | None = None
    stop_sequences: list[str] | None = None


class _CountTokens(msgspec.Struct, kw_only=True):
    messages: list[_Said]
    system: str | list[_Block] | None = None


class _Responses(RoutedBody, kw_only=True):
    input: str | list[_Said]
    instructions: str | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    stop: str | list[str] | None = None
    previous_response_id: str | None = None
    request_id: str | None = None


_completion_body = msgspec.json.Decoder(_Completion)
_messages_body = msgspec.json.Decoder(_Messages)
_count_body = msgspec.json.Decoder(_CountTokens)
_responses_body = msgspec.json.Decoder(_Responses)


def read_completion(body: bytes) -> Submission:
    """Read a `/v1/completions` body."""
    asked: _Completion = decode_body(_completion_body, body)
    refuse_options(asked.n, asked.stop, asked.logprobs is not None)
    prompt = _one_prompt(asked.prompt)
    options = asked.stream_options or StreamOptions()
    return Submission(
        rid=asked.rid or uuid.uuid4().hex,
        prompt=tuple(prompt),
        max_new_tokens=answer_limit(len(prompt), asked.max_tokens),
        ignore_eos=asked.ignore_eos,
        stream=bool(asked.stream),
        model=asked.model or MODEL_NAME,
        bootstrap=bootstrap_of(asked),
        temperature=temperature_of(asked.temperature),
        seed=seed_of(asked.seed),
        include_usage=bool(options.include_usage),
        continuous_usage=bool(options.continuous_usage_stats),
        spec_details=asked.return_spec_tokens_details,
        cached_details=asked.return_cached_tokens_details,
        echo=decode(prompt) if asked.echo else "",
        token_ids=asked.return_token_ids,
    )


def read_messages(body: bytes) -> Submission:
    """Read a `/v1/messages` body."""
    asked: _Messages = decode_body(_messages_body, body)
    refuse_options(None, asked.stop_sequences, None)
    return _chat(asked, _anthropic_chat(asked.system, asked.messages), asked.max_tokens, asked.temperature)


def count_messages_tokens(body: bytes) -> int:
    """Read a `/v1/messages/count_tokens` body and count."""
    asked: _CountTokens = decode_body(_count_body, body)
    return len(prompt_ids(flatten(_anthropic_chat(asked.system, asked.messages))))


def read_responses(body: bytes) -> Submission:
    """Read a `/v1/responses` body."""
    asked: _Responses = decode_body(_responses_body, body)
    refuse_options(None, asked.stop, None)
    if asked.previous_response_id is not None:
        text = "The lab keeps no responses: previous_response_id is not supported. Send the whole input."
        raise RequestError(text)
    asked.rid = asked.rid or asked.request_id or f"resp_{uuid.uuid4().hex}"
    system = [asked.instructions] if asked.instructions else []
    said = [asked.input] if isinstance(asked.input, str) else [_joined(item) for item in asked.input]
    chat = [*(_message("system", text) for text in system), *(_message("user", text) for text in said)]
    made = _chat(asked, chat, asked.max_output_tokens, asked.temperature)
    return replace(made, instructions=asked.instructions, max_output_tokens=asked.max_output_tokens)


def _chat(
    asked: RoutedBody, chat: Sequence[Message], limit: int | None, temperature: float | None
) -> Submission:
    if not chat:
        raise RequestError("Messages cannot be empty.")
    prompt = prompt_ids(flatten(chat))
    return Submission(
        rid=asked.rid or uuid.uuid4().hex,
        prompt=tuple(prompt),
        max_new_tokens=answer_limit(len(prompt), limit),
        ignore_eos=False,
        stream=bool(asked.stream),
        model=asked.model or MODEL_NAME,
        bootstrap=bootstrap_of(asked),
        temperature=temperature_of(temperature),
        seed=seed_of(None),
        chat=True,
    )


def _one_prompt(prompt: str | list[str | int | list[int]]) -> list[int]:
    """Return the tokens of the only prompt: a text, token ids, or a list of one of these."""
    items = [prompt] if isinstance(prompt, str) else prompt
    ids = [item for item in items if isinstance(item, int)]
    if not items:
        raise RequestError("Prompt cannot be empty")
    if ids and len(ids) == len(items):
        return known_ids(ids)
    if len(items) > 1 or isinstance(items[0], int):
        raise RequestError("The lab takes one prompt a request.")
    return prompt_ids(items[0]) if isinstance(items[0], str) else known_ids(items[0])


def _anthropic_chat(system: str | list[_Block] | None, messages: Sequence[_Said]) -> list[Message]:
    front = [_message("system", _text(system))] if system else []
    return [*front, *(_message(said.role, _joined(said)) for said in messages)]


def _joined(said: _Said) -> str:
    """Return all text of a message or an item."""
    if said.output is not None:
        return said.output if isinstance(said.output, str) else "".join(part.text for part in said.output)
    return _text(said.content)


def _text(content: str | Sequence[_Block] | None) -> str:
    match content:
        case None:
            return ""
        case str(text):
            return text
        case blocks:
            return "\n".join(text for block in blocks if (text := _block_text(block)))


def _block_text(block: _Block) -> str:
    match block.content:
        case None:
            return block.text
        case str(text):
            return text
        case parts:
            return "".join(part.text for part in parts)


def _message(role: str, content: str) -> Message:
    return {"role": role, "content": content}
