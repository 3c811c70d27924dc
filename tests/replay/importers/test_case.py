"""Case bundles."""

import json
from typing import Any

import pytest

from replay.importers import SourceError
from tests.replay.importers.conftest import Importing


def _bundle(rid: str, second: int, **request: object) -> dict[str, Any]:
    return {
        "v": 1,
        "capture": "hashes",
        "at": f"2026-11-29T10:00:0{second}.000+00:00",
        "rid": rid,
        "delivered_bad_tokens": 0,
        "request": {"dialect": "openai_chat", "max_tokens": 50, **request},
        "attempts": [{"tokens": 20}, {"tokens": 31}],
    }


def test_a_bundle_with_its_text_gives_the_request_itself(importing: Importing) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}]}
    read = importing("case", json.dumps(_bundle("r", 1, body=body)))
    assert (read[0].body, read[0].output_tokens, read[0].path) == (body, 50, "/v1/chat/completions")


def test_a_bundle_of_hashes_keeps_what_shared_a_prefix_with_what(importing: Importing) -> None:
    def messages(last: str) -> list[dict[str, Any]]:
        return [{"role": "user", "chars": 510, "blocks": ["00000000000000aa", last]}]

    lines = [
        json.dumps(_bundle("a", 1, messages=messages("ffffffffffffffff"), max_tokens=None)),
        json.dumps(_bundle("b", 3, messages=messages("00000000000000cc"))),
    ]
    read = importing("case", "\n".join(lines) + "\n")
    assert read[0].blocks[0] == read[1].blocks[0] != read[1].blocks[1]
    assert (read[0].prompt_tokens, read[0].output_tokens, read[1].at_s) == (128, 31, 2.0)


@pytest.mark.parametrize(
    ("bundle", "says"),
    [
        (_bundle("a", 1) | {"v": 2}, "bundle 1 has version 2; this release reads 1"),
        (_bundle("a", 1) | {"request": None}, "bundle 1 says nothing of its request"),
        (_bundle("a", 1) | {"at": "noon"}, "at must be a date and time"),
    ],
)
def test_another_shape_is_named(bundle: dict[str, Any], says: str, importing: Importing) -> None:
    with pytest.raises(SourceError, match=says):
        importing("case", json.dumps(bundle))
