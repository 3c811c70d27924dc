"""What the edges' tests share: a plain counter in place of Metrics, incidents made to measure."""

from collections import Counter

from service.core.events import (
    Attempt,
    Channel,
    Ending,
    Finding,
    Incident,
    Judgement,
    Kind,
    Level,
    Outcome,
    Policy,
    RequestFacts,
)

LOOP = Judgement(Level.CORRUPT, Kind.REPETITION, "loop", 7.5, at_token=90, onset_token=40, unit="ab12")
SUSPECT = Judgement(Level.SUSPECT, Kind.LOW_ACCEPTANCE, "acceptance", 3.0)
FINDING = Finding("loop", Channel.TEXT, Kind.REPETITION, 7.5, 90, 40, "ab12")


class Counts:
    """Metrics as far as edges use them."""

    def __init__(self) -> None:
        self.counted: Counter[tuple[str, ...]] = Counter()
        self.gauges: dict[tuple[str, ...], float] = {}

    def count(self, *key: str, by: float = 1) -> None:
        self.counted[key] += int(by)

    def set(self, *key: str, value: float) -> None:
        self.gauges[key] = value


def incident(rid: str = "r1", judgement: Judgement = LOOP, model: str = "glm-5") -> Incident:
    bad = Attempt(f"{rid}-a", "http://w:1", 200, judgement, 120, 60, 1.9, (FINDING,), Ending.COMPLETE)
    good = Attempt(f"{rid}-b", "", 200)
    return Incident(rid, "agents", Policy.PROTECT, model, Outcome.RECOVERED, judgement, (bad, good), 0, 1.25)


def facts(prompt: str = "") -> RequestFacts:
    return RequestFacts(dialect="openai_chat", model="glm-5", stream=True, max_tokens=200, prompt=prompt)
