import json

import numpy as np

from replay.bench import guarded
from replay.bench.detectors import load
from replay.bench.guarded import Client, Seen, Setting, request
from replay.lab.speculation import DRAFT_TOKENS
from replay.lab.tasks import KINDS, sample
from replay.lab.tokenizer import EOS, PAD, decode, encode
from service.core.dialects import OPENAI_CHAT
from service.core.events import Drafter, Level, Policy, WorkerFacts

TASK = sample(np.random.default_rng(1), KINDS[0])
SETTING = Setting(*load(), WorkerFacts("http://lab", Drafter.MODEL, DRAFT_TOKENS))


def run(answer: list[int], policy: Policy, accepted: int = 2) -> Seen:
    body = request(TASK.prompt)
    client = Client(body, OPENAI_CHAT.request(body), SETTING, policy)
    return client.run(answer, [accepted] * (len(answer) // (accepted + 1) + 1))


def test_a_right_answer_goes_out_whole_under_every_policy() -> None:
    answer = list(TASK.answer_ids)
    for policy in Policy:
        assert run(answer, policy) == Seen(Level.CLEAN, "", "", len(answer))


def test_the_events_hold_the_answers_text_and_count_its_tokens() -> None:
    answer = list(TASK.answer_ids)
    *texts, last, done = [data for _, data, _ in guarded.events(answer, [2] * 40)]
    deltas = [json.loads(data[6:])["choices"][0]["delta"] for data in texts]
    assert "".join(delta.get("content", "") for delta in deltas) == decode(answer)
    assert json.loads(last[6:])["usage"]["completion_tokens"] == len(answer)
    assert done == guarded.DONE


def test_a_loop_is_taken_back_where_it_is_held_and_noted_where_it_is_not() -> None:
    answer = [*encode(TASK.answer)[:12], *encode("value tree ") * 120]
    held, seen = run(answer, Policy.STRICT), run(answer, Policy.OBSERVE)
    assert held.reason == "verdict"
    assert held.delivered_tokens == 0
    assert (seen.level, seen.reason, seen.delivered_tokens) == (Level.CORRUPT, "", len(answer))
    assert held.acted
    assert seen.acted


def test_tokens_without_text_are_silence() -> None:
    silent = run([*encode(TASK.answer)[:6], *[PAD] * 150], Policy.STRICT)
    assert silent.acted
    assert EOS not in encode(TASK.answer)
