"""Questions that any chat model answers plainly, in sessions that grow: what the check of a GPU pair sends.

Made-up words would do for a load, but a model that is shown a list of words goes on with the list, and that
looks like a loop. Here each session has a system message in common, each turn asks one thing about one topic
and holds the turns before it, with answers written here, so that prefixes grow as an agent's do.
"""

from collections.abc import Iterator
from typing import Any, Final

from replay.trace import FORMAT, TraceHeader, TraceRequest

SYSTEM: Final = (
    "You are the assistant of a workshop that repairs machines of every kind. You answer in plain English,"
    " in whole sentences, to people who know their trade but not this machine. You say what a part is for"
    " before you say what to do with it. Where there is a risk you name it first. You do not guess: where"
    " something depends on the maker, you say so and tell where the maker writes it. Answers are short enough"
    " to be read at the bench, with dirty hands, by somebody who has to go on working. Units are metric."
    " Numbers come with the reason for them, so that the reader can tell when they do not hold."
)
TOPICS: Final = (
    *("a bicycle hub", "a water pump", "a sewing machine", "a petrol mower", "a coffee grinder", "a lathe"),
    *("a chain saw", "a ceiling fan", "a wall clock", "a hand drill", "a typewriter", "a garage door"),
    *("a washing machine", "a record player", "a paper shredder", "a band saw", "a table lamp", "a hoist"),
)
ASKED: Final = (
    "Explain how {topic} works, part by part.",
    "Which three faults does {topic} have most often, and how does one tell them apart?",
    "Write down, step by step, how to clean {topic}.",
    "What must one never do when repairing {topic}, and why?",
    "Which tools does one need for {topic}, and what is each of them for?",
)
ANSWERED: Final = (
    "It turns one kind of motion into another, and every part serves that. Begin with the shaft, since all"
    " other parts hang on it, and go outward from there; what you take off first goes back on last."
)
OUTPUT_TOKENS: Final = 128


def header() -> TraceHeader:
    """Of these questions."""
    return TraceHeader(format=FORMAT, source="questions", notes=["made up for the check of a GPU pair"])


def questions(count: int) -> Iterator[TraceRequest]:
    """So many requests; sessions of as many turns as there are questions, a second apart."""
    for number in range(count):
        session, turn = divmod(number, len(ASKED))
        topics = [TOPICS[(session + step) % len(TOPICS)] for step in range(turn + 1)]
        yield TraceRequest(
            id=f"q{number}",
            at_s=float(number),
            session=f"s{session}",
            turn=turn,
            body=_body(session, topics),
        )


def _body(session: int, topics: list[str]) -> dict[str, Any]:
    messages = [{"role": "system", "content": f"{SYSTEM} This is bench {session + 1}."}]
    for place, topic in enumerate(topics):
        if place:
            messages.append({"role": "assistant", "content": ANSWERED})
        messages.append({"role": "user", "content": ASKED[place].format(topic=topic)})
    return {
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
        "max_tokens": OUTPUT_TOKENS,
    }
