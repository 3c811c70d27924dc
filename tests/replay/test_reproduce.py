"""A kept case, put under load."""

import json
from pathlib import Path
from typing import Any

import pytest

from replay.importers import SourceError
from replay.plan import read_plan
from replay.reproduce import WITHOUT_TEXT, CaseWishes, reproduction

WISHES = CaseWishes(requests=40, rate_per_s=10.0, peak=4.0, rounds=4)
BODY = {"messages": [{"role": "user", "content": "hi"}], "ignore_eos": True}


def _bundle(folder: Path, **request: Any) -> Path:  # noqa: ANN401 - fields of any type
    path = folder / "case.json"
    bundle = {
        "v": 1,
        "capture": "full",
        "at": "2026-11-29T10:00:00.000+00:00",
        "rid": "r-1",
        "delivered_bad_tokens": 0,
        "request": {"dialect": "openai_chat", "max_tokens": 50, **request},
        "attempts": [{"tokens": 20}],
    }
    path.write_text(json.dumps(bundle))
    return path


def test_both_arms_ask_the_case_itself_equally_often_at_their_rates(tmp_path: Path) -> None:
    made = reproduction(_bundle(tmp_path, body=BODY), tmp_path, WISHES)
    _, sends = read_plan(made.plan)
    listed = [send for send in sends if not send.id.startswith("return")]
    assert {send.arm for send in listed} == {"idle", "peak"}
    assert len([send for send in listed if send.arm == "idle"]) == 40
    assert all(send.body is not None and send.body["messages"] == BODY["messages"] for send in listed)
    assert not any("ignore_eos" in (send.body or {}) for send in listed)
    spans = {
        arm: max(s.at_s for s in listed if s.arm == arm and s.block == block) - first
        for arm, block, first in (
            (b.arm, b.index, min(s.at_s for s in listed if s.block == b.index))
            for b in made.header.blocks[:2]
        )
    }
    assert spans["idle"] == pytest.approx(4 * spans["peak"], rel=0.01)


def test_the_price_is_told_before_anything_is_sent(tmp_path: Path) -> None:
    price = reproduction(_bundle(tmp_path, body=BODY), tmp_path, WISHES).price
    assert price.requests >= 80
    assert price.seconds > 5
    assert price.output_tokens == 50 * price.requests
    assert price.prompt_tokens > 0
    assert 0 <= price.power <= 1
    assert price.plan_hash


def test_a_case_without_text_is_replayed_by_its_shape_and_says_so(tmp_path: Path) -> None:
    messages = [{"role": "user", "chars": 510, "blocks": ["00000000000000aa", "00000000000000bb"]}]
    made = reproduction(_bundle(tmp_path, messages=messages), tmp_path, WISHES)
    _, sends = read_plan(made.plan)
    first = next(sends)
    assert first.recipe is not None
    assert (first.recipe.prompt_tokens, len(first.recipe.blocks)) == (128, 2)
    assert WITHOUT_TEXT in made.price.notes


def test_what_is_no_case_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    path.write_text('{"v": 2}')
    with pytest.raises(SourceError, match="version 2"):
        reproduction(path, tmp_path, WISHES)
