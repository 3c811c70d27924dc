"""A small file of each format, as values that a test can spoil."""

import json
import pickle
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

Path = tuple[str | int, ...]

_ASKED: Final = {"rid": "a", "text": "hi", "sampling_params": {"max_new_tokens": 4}, "stream": True}
_META: Final = {
    "prompt_tokens": 1,
    "completion_tokens": 2,
    "finish_reason": {"type": "abort"},
    "e2e_latency": 0.5,
}
_TURN: Final = [{"role": "user", "content": "hi"}]

LINES: Final[dict[str, list[Any]]] = {
    "mooncake": [
        {"timestamp": 0, "input_length": 4, "output_length": 4, "hash_ids": [1]},
        {"timestamp": 5, "messages": _TURN, "session_id": "s", "tools": [], "extra": {}},
        {"delay": 5, "messages": _TURN, "session_id": "s"},
        {"timestamp": 9, "text_input": "a", "extra": {"x": 1}},
        {"timestamp": 9, "payload": {"messages": []}},
    ],
    "bailian": [
        {
            "chat_id": 1,
            "parent_chat_id": -1,
            "timestamp": 0.5,
            "input_length": 9,
            "output_length": 2,
            "turn": 1,
            "hash_ids": [1],
        }
    ],
    "weka": [
        {
            "id": "c",
            "requests": [
                {"t": 0.0, "in": 9, "out": 2, "hash_ids": [1], "api_time": 1.5},
                {"requests": [{"t": 1.0, "in": 5, "out": 5, "hash_ids": []}]},
            ],
        }
    ],
    "timed-bodies": [
        {"timestamp": 1.5, "body": {"messages": _TURN}, "request_id": "a", "completion_tokens": 8}
    ],
    "bodies": [{"messages": _TURN, "max_tokens": 1}],
    "openai-batch": [{"custom_id": "1", "method": "POST", "url": "/v1/completions", "body": {"prompt": "a"}}],
    "case": [
        {
            "v": 1,
            "rid": "r",
            "at": "2026-01-01T00:00:00Z",
            "delivered_bad_tokens": 0,
            "capture": "hashes",
            "request": {
                "dialect": "openai_chat",
                "messages": [{"role": "user", "chars": 9, "blocks": ["ab"]}],
                "max_tokens": 5,
            },
            "attempts": [{"tokens": 5}],
        }
    ],
    "sglang-metrics": [{"request_parameters": json.dumps(_ASKED), "request_received_ts": 1.0, **_META}],
    "sglang-log": [
        {"timestamp": "2026-01-01T00:00:00Z", "event": "request.received", "rid": "a", "obj": _ASKED},
        {
            "timestamp": "2026-01-01T00:00:01Z",
            "event": "request.finished",
            "rid": "a",
            "obj": _ASKED,
            "out": {"text": "yo", "meta_info": _META},
        },
    ],
}
"""One JSON object a line."""

WHOLE: Final[dict[str, Any]] = {
    "sharegpt": [
        {"id": "1", "conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}
    ],
    "aiperf-inputs": {"data": [{"session_id": "1", "payloads": [{"messages": _TURN}]}]},
    "otel": {
        "resourceSpans": [
            {
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "spanId": "a",
                                "traceId": "t",
                                "startTimeUnixNano": "1",
                                "endTimeUnixNano": "2",
                                "attributes": [
                                    {"key": "gen_ai.prompt", "value": {"stringValue": "x"}},
                                    {"key": "gen_ai.usage.input_tokens", "value": {"intValue": 4}},
                                ],
                            }
                        ]
                    }
                ]
            }
        ],
    },
}
"""One JSON value."""

DUMP: Final = {"server_args": None, "requests": [[_ASKED, {"text": "yo", "meta_info": _META}, 1.0, 2.0]]}

FORMS: Final = (*LINES, *WHOLE, "sglang-dump")

NOTHING: Final = object()
"""In place of a value: it is missing."""
JUNK: Final[tuple[Any, ...]] = (NOTHING, None, True, -1, 1e308, 1 << 70, "x", [None], {"a": 1}, "\ud800")


def value_of(form: str) -> Any:  # noqa: ANN401 - any JSON value
    if form == "sglang-dump":
        return DUMP
    return LINES[form] if form in LINES else WHOLE[form]


def written(form: str, value: Any) -> bytes:  # noqa: ANN401 - any JSON value
    """The file that holds a value."""
    if form == "sglang-dump":
        return pickle.dumps(value)
    if form in LINES:
        return b"".join(json.dumps(row).encode() + b"\n" for row in value)
    return json.dumps(value).encode()


def places(value: Any, above: Path = ()) -> Iterator[Path]:  # noqa: ANN401 - any JSON value
    """Where something can be spoilt."""
    if above:
        yield above
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in pairs:
        yield from places(one, (*above, key))


def spoilt(value: Any, place: Path, junk: Any) -> Any:  # noqa: ANN401 - any JSON value
    """A copy with junk in one place."""
    made = deepcopy(value)
    inner = made
    for key in place[:-1]:
        inner = inner[key]
    if junk is NOTHING:
        del inner[place[-1]]
    else:
        inner[place[-1]] = junk
    return made
