import random

from replay.bench import falsealarm
from replay.bench.telemetry import K


def test_clean_traffic_raises_no_alarm() -> None:
    figures = falsealarm.measure(80, seed=3)
    assert figures["alarms"] == figures["detector_faults"] == 0
    assert figures["requests"] >= 40
    assert figures["rate_at_most"] == round(3 / figures["requests"], 8)


def test_an_answer_comes_whole_in_steps_of_healthy_acceptance() -> None:
    text = "The mill by the stream has stood idle since the flood. " * 40
    deltas = falsealarm.steps(text, random.Random(1))
    assert "".join(delta.text for delta in deltas) == text
    accepted = [n for delta in deltas for n in delta.exact]
    assert max(accepted) <= K
    assert 1.2 < sum(accepted) / len(accepted) < 2
    assert deltas[-1].finish == "stop"
