"""A small corpus made on the spot: healthy texts that are easy to mistake, and corruptions of every kind."""

import random
from collections.abc import Sequence
from typing import Any, Final

from service.config.rules import load_rules
from service.core.events import Delta, Judgement, RequestFacts, WorkerFacts
from service.core.inspector import Inspector
from service.core.recorded import PSEUDO_TOKEN, Rules

RULESET: Final = load_rules("default")
RULES: Final = Rules(RULESET.detectors, RULESET.fusion)
VOCABULARY: Final = tuple(
    """
    the old bridge over river was closed in spring because its wooden beams had grown too weak for carts and
    people who wanted to reach market on other side took small boat that a fisherman rowed twice every hour
    while children waited under trees counting coins they hoped would buy ripe pears from garden near mill
    """.split()  # noqa: SIM905 - a text reads better than ninety quoted words
)
SYLLABLES: Final = [
    "ka",
    "lo",
    "mi",
    "ren",
    "tu",
    "sab",
    "vel",
    "qui",
    "dor",
    "nes",
    "pha",
    "zin",
    "gar",
    "ot",
]


def prose(seed: int, words: int) -> str:
    """English-looking words without a loop."""
    rng = random.Random(seed)
    out = [rng.choice(VOCABULARY) for _ in range(words)]
    return " ".join(word + ("." if place % 13 == 12 else "") for place, word in enumerate(out))


def unit(seed: int, words: int) -> str:
    """A unit of this many made-up words, none twice."""
    rng = random.Random(seed)
    made = {f"{rng.choice(SYLLABLES)}{rng.choice(SYLLABLES)}{index}x" for index in range(words)}
    return " ".join(sorted(made, key=lambda _: rng.random())).translate(
        str.maketrans("0123456789", "abcdefghij")
    )


def loop(seed: int, words: int, copies: int, before: int = 60) -> str:
    return prose(seed, before) + " " + (unit(seed, words) + " ") * copies


def salad(seed: int, tokens: int) -> str:
    """Pieces of many scripts glued together, as a model with a broken cache writes."""
    rng = random.Random(seed)
    strange = ["ста", "ぼ", "ได", "한", "ক্ষ", "ꔀ", "ጋ", "დე", "ներ", "\u2a3f", "ᏣᎳ", "தமி"]
    pieces = [*SYLLABLES, *strange, "ing", "tion", " ", " de", "(", "为"]
    return "".join(rng.choice(pieces) for _ in range(tokens))


ZERO_TABLE: Final = "".join(f"{row:06o} " + " ".join(["00"] * 16) + "\n" for row in range(0, 1280, 16))
HEX_DUMP: Final = "".join(
    f"{row * 16:08x}: " + " ".join(f"{(row * 37 + column * 11) % 256:02x}" for column in range(16)) + "\n"
    for row in range(60)
)
ZERO_ARRAY: Final = "static const uint16_t pad[512] = {\n" + ("    " + "0x0000, " * 8 + "\n") * 30 + "};\n"
GRID: Final = "\n".join(["🟦" * 12] * 12)
MAZE: Final = ("+---" * 12 + "+\n" + "|   " * 12 + "|\n") * 12 + "+---" * 12 + "+\n"
DIVIDERS: Final = f"Section A\n{'=' * 120}\n{prose(3, 40)}\n{'-' * 120}\n{prose(4, 40)}\n{'=' * 120}\nEnd."
REFRAIN: Final = "\n".join(
    [prose(5, 20), *["Row, row, row the boat,", "gently down the stream,"] * 4, prose(6, 20)]
)
HEARTBEATS: Final = "".join(
    f"2025-03-12T10:00:{second:02d}Z INFO worker: heartbeat ok (lag=0ms, queue=0)\n" for second in range(60)
)
CHINESE: Final = (
    "清晨的市场里已经有不少人，卖菜的老人把新摘的青菜摆得整整齐齐。服务重启之后需要检查连接池的大小，"
    "如果日志里仍然出现超时，就用 kubectl 把最大连接数调低一些，再观察十分钟。"
)
RUSSIAN: Final = (
    "Запустите docker compose и проверьте JSON в логах: если порт занят, смените его в yaml-файле."
)
IPA: Final = "though /ðoʊ/, through /θɹuː/, tough /tʌf/, thorough /ˈθʌɹə/, bough /baʊ/, μm, Δt, σ-field."
CODE: Final = """
def merge(ranges):
    out = []
    for start, stop in sorted(ranges):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], stop))
        else:
            out.append((start, stop))
    return out
"""
HEALTHY: Final = {
    "prose": prose(1, 400),
    "code": CODE,
    "chinese": CHINESE,
    "russian": RUSSIAN,
    "ipa": IPA,
    "zero table": ZERO_TABLE,
    "hex dump": HEX_DUMP,
    "zero array": ZERO_ARRAY,
    "emoji grid": GRID,
    "maze": MAZE,
    "dividers": DIVIDERS,
    "refrain": REFRAIN,
    "heartbeats": HEARTBEATS,
    "one replacement character": prose(7, 30) + " na\ufffdve " + prose(8, 30),
    "quoted tokens": "BERT pads with [PAD] and GPT-2 ends with <|endoftext|>. " + prose(9, 30),
}
CORRUPTED: Final = {
    "loop of one word": (loop(11, 1, 90), "repetition"),
    "loop of nine words": (loop(12, 9, 30), "repetition"),
    "loop of a paragraph": (loop(13, 230, 5), "repetition"),
    "NaN's exclamation marks": (prose(14, 20) + "!" * 300, "repetition"),
    "replacement characters": (prose(15, 30) + " na\ufffdt \ufffdund\ufffd so " + prose(16, 30), "garbled"),
    "glued scripts": (prose(17, 30) + " gutterぼdia ремonta ballгот vielขnom " + prose(18, 10), "garbled"),
    "many scripts": (salad(19, 200), "rare_char"),
    "control tokens": (prose(20, 10) + " [unused7] tes [control_31]ka [PAD] lo <|fim|> re ", "rare_char"),
    "vocabulary pieces": ("theĠend ofĠit.ĊThe æĺ¯ä½łæĺ¯ä½ł ▁na ▁lo ▁ver", "rare_char"),
}


def deltas(text: str, size: int = 1) -> list[Delta]:
    """The text as data events of `size` pseudo-tokens, token growth reported."""
    pieces = PSEUDO_TOKEN.findall(text)
    return [
        Delta(text="".join(pieces[at : at + size]), tokens=min(at + size, len(pieces)))
        for at in range(0, len(pieces), size)
    ]


def inspect(
    text: str,
    cuts: Sequence[int] = (),
    prompt: str = "",
    detectors: Sequence[Any] = RULES.detectors,
    worker: WorkerFacts | None = None,
) -> Inspector:
    """An inspector that has read the text, its events grouped as `cuts` says (each a number of events)."""
    facts = RequestFacts(dialect="test", prompt=prompt)
    inspector = Inspector(facts, worker or WorkerFacts(), detectors, RULES.fusion)
    events, at, sizes = deltas(text), 0, iter(cuts)
    while at < len(events):
        size = max(next(sizes, 8), 1)
        inspector.read(events[at : at + size], at * 0.02)
        at += size
    inspector.finish(len(events) * 0.02, clean=True)
    return inspector


def judged(text: str, cuts: Sequence[int] = (), prompt: str = "") -> Judgement:
    return inspect(text, cuts, prompt).judgement
