"""Corrupted texts made to order: the same clean sentences, broken in every way that the product knows.

    loop, counter    a unit of so many words after a sentence that breaks off, exact or numbered
    stutter          every piece said several times
    replaced         from some point on a share of the characters is exchanged for rare Han, symbols, scripts
    splice           one text breaks off inside a word and another goes on

Nothing here is anybody's data, so that detectors are developed and measured on it freely. `tests` hold floors
on it; how far it is from what engines do, only recorded cases can tell.
"""

import random
import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from service.core.events import Kind

ENGLISH: Final = (
    "The mill by the stream has stood idle since the flood, and its wheel is green with moss. ",
    "Two brothers inherited the orchard and could not agree on what to plant between the rows. ",
    "When the census taker came up the hill she counted nine houses, four goats and one sleeping dog. ",
    "Before winter the roof must be mended, because snow lies heavy on the eastern side. ",
    "The baker opens at five, but the smell of bread reaches the square long before that. ",
    "To clean the lens, breathe on it gently and wipe it with a soft cloth in small circles. ",
    "Our server writes its log to a ring buffer, so old lines vanish once the buffer is full. ",
    "A patient teacher lets silence work; pupils often answer when nobody hurries them. ",
    "Trains from the coast arrive late on Fridays, when half the city wants to be elsewhere. ",
    "If the pump rattles, close the upper valve, wait a minute, and open it a quarter turn. ",
)
CHINESE: Final = (
    "河边的磨坊自从发大水以后就停了，水轮上长满了青苔。",  # noqa: RUF001 - Chinese has commas of its own
    "两兄弟继承了果园，却一直商量不好行间应该种些什么。",  # noqa: RUF001
    "冬天到来之前必须把屋顶修好，因为东边的积雪总是很厚。",  # noqa: RUF001
    "如果水泵发出响声，先关上面的阀门，等一分钟再慢慢打开。",  # noqa: RUF001
    "面包店五点开门，不过香味早就飘到广场上了。",  # noqa: RUF001
    "这个服务把日志写进环形缓冲区，写满以后旧的内容就会消失。",  # noqa: RUF001
    "耐心的老师会等待学生自己说出答案，而不是急着往下讲。",  # noqa: RUF001
    "周五从海边回来的火车总是晚点，因为大家都想出城。",  # noqa: RUF001
)
CODE: Final = (
    """\
def spread(values, count):
    \'\'\'Share values out over count bins.\'\'\'
    bins = [[] for _ in range(count)]
    for place, value in enumerate(values):
        bins[place % count].append(value)
    return bins
""",
    """\
async function load(url) {
  const answer = await fetch(url);
  if (!answer.ok) {
    throw new Error(`status ${answer.status}`);
  }
  return answer.json();
}
""",
    """\
type Cache struct {
\tmu    sync.Mutex
\titems map[string]int
}

func (c *Cache) Get(key string) (int, bool) {
\tc.mu.Lock()
\tdefer c.mu.Unlock()
\tvalue, ok := c.items[key]
\treturn value, ok
}
""",
)
SOURCES: Final = {"en": ENGLISH, "zh": CHINESE, "code": CODE}
PIECES: Final = {"zh": re.compile("[\u3400-\u9fff]{1,2}|[^\u3400-\u9fff]")}
WORDS: Final = re.compile(r"\s*\w+|\s*[^\w\s]|\s+")
UNTOUCHED: Final = frozenset(" \n\t.,，。:；\"'")  # noqa: RUF001
PERIODS: Final = (1, 2, 3, 5, 8, 15, 40, 90, 200, 500)
COUNTED: Final = (8, 20, 40, 90, 200)
SHARES: Final = (15, 25, 40, 60, 80)
LABELS: Final = {
    "en": ("Attempt {:02d}: ", "{}. ", "Step {:02d}: "),
    "zh": ("步骤{:02d}\uff1a", "{}、", "第{}次\uff1a"),
}

BLOCKS: Final[dict[str, tuple[tuple[int, int], ...]]] = {
    "han_ext_a": ((0x3400, 0x4DB6),),
    "han_ext_b": ((0x20000, 0x2A6D7),),
    "symbols": ((0x2190, 0x2300), (0x2300, 0x23CF), (0x2500, 0x2800), (0x2800, 0x2900), (0x2980, 0x2B00)),
    "scripts": (
        (0x1200, 0x1249), (0x10D0, 0x10F1), (0x531, 0x557), (0xA000, 0xA48D), (0xE01, 0xE2F),
        (0x13A0, 0x13F5), (0x985, 0x98D), (0x430, 0x450),
    ),
}  # fmt: skip


class Sample(NamedTuple):
    """A text and what is wrong with it."""

    kind: Kind
    cat: str
    text: str


def clean(rng: random.Random, language: str, sentences: int = 4) -> str:
    """Some sentences, or a piece of code."""
    source = SOURCES[language]
    return (
        rng.choice(source) if language == "code" else "".join(rng.sample(source, min(sentences, len(source))))
    )


def pieces(text: str, language: str) -> list[str]:
    """What one token might hold."""
    return PIECES.get(language, WORDS).findall(text)


def unit(rng: random.Random, language: str, size: int) -> str:
    """So many pieces of running text; a long one is shuffled, as there are not sentences enough."""
    if size < 60:  # noqa: PLR2004 - what the sentences give without repeating
        text = pieces(clean(rng, language, 10), language)
        start = rng.randrange(0, max(len(text) - size, 1))
        return "".join(text[start : start + size])
    words = pieces("".join(SOURCES[language]), language)
    return "".join(rng.choice(words) for _ in range(size))


def broken_off(rng: random.Random, language: str) -> str:
    text = clean(rng, language, 2)
    return text[: rng.randrange(20, len(text))]


def loop(rng: random.Random, language: str, size: int) -> str:
    """A sentence breaks off and a unit goes round."""
    one = unit(rng, language, size) + ("" if language == "zh" else " ")
    copies = max(4, -(-120 // size)) + rng.randrange(6)
    return broken_off(rng, language) + one * copies + one[: rng.randrange(len(one))]


def counter(rng: random.Random, language: str, size: int) -> str:
    """The same, a numbered line each."""
    one, label = unit(rng, language, size).strip(), rng.choice(LABELS[language])
    copies = max(4, -(-120 // size)) + rng.randrange(6)
    return (
        broken_off(rng, language) + "\n" + "".join(f"{label.format(n)}{one}.\n" for n in range(1, copies + 1))
    )


def stutter(rng: random.Random, language: str, times: int) -> str:
    """Every piece so many times, from some point on."""
    text = pieces(clean(rng, language, 2), language)[: rng.randrange(25, 60)]
    start = rng.randrange(12)
    return "".join(text[:start]) + "".join(piece * times for piece in text[start:])


def strange(rng: random.Random, what: str) -> str:
    """A character out of place."""
    if what == "mixed":
        return strange(rng, rng.choice(("han_ext_b", "symbols", "scripts")))
    if what == "han_gb_level2":
        return bytes([rng.randrange(0xD8, 0xF7), rng.randrange(0xA1, 0xFF)]).decode("gb2312", "replace")
    return chr(rng.randrange(*rng.choice(BLOCKS[what])))


def replaced(rng: random.Random, language: str, what: str, share: int) -> str:
    """From some point on so many of a hundred characters are out of place."""
    text = clean(rng, language)
    start = int(len(text) * rng.uniform(0.1, 0.5))
    return text[:start] + "".join(
        char if char in UNTOUCHED or rng.random() * 100 >= share else strange(rng, what)
        for char in text[start:]
    )


def splice(rng: random.Random, one: str, other: str) -> str:
    """One text breaks off inside a word and another goes on."""
    before, after = clean(rng, one, 2), clean(rng, other, 2)
    return before[: rng.randrange(40, len(before))] + after[rng.randrange(5, len(after) // 2) :]


def samples(seed: int, rounds: int) -> Iterator[Sample]:
    """Every class in every language, so many times."""
    rng = random.Random(seed)
    for _ in range(rounds):
        yield from _repeating(rng)
        yield from _rare(rng)
        for one, other in (("en", "zh"), ("zh", "en")):
            yield Sample(Kind.GARBLED, f"splice_{one}_{other}", splice(rng, one, other))
        for language in SOURCES:
            yield Sample(Kind.NORMAL, f"clean_{language}", clean(rng, language))


def _repeating(rng: random.Random) -> Iterator[Sample]:
    makers: tuple[tuple[str, Callable[[random.Random, str, int], str], tuple[int, ...]], ...] = (
        ("loop", loop, PERIODS),
        ("counter", counter, COUNTED),
        ("stutter", stutter, (3, 4, 5, 6)),
    )
    for language in ("en", "zh"):
        for name, maker, sizes in makers:
            for size in sizes:
                yield Sample(Kind.REPETITION, f"{name}_{size}", maker(rng, language, size))
    yield Sample(Kind.REPETITION, "loop_blank", clean(rng, "en", 2) + " \n" * rng.randrange(120, 300))
    one = unit(rng, "en", rng.randrange(4, 14)).replace('"', "") + " "
    yield Sample(Kind.REPETITION, "loop_in_json", '{"command": "' + one * rng.randrange(20, 30))


def _rare(rng: random.Random) -> Iterator[Sample]:
    for language, what in (
        *(
            ("zh", what)
            for what in ("han_ext_a", "han_ext_b", "han_gb_level2", "symbols", "scripts", "mixed")
        ),
        *((language, what) for language in ("en", "code") for what in ("symbols", "scripts", "mixed")),
    ):
        for share in SHARES:
            yield Sample(Kind.RARE_CHAR, f"{what}_{share}", replaced(rng, language, what, share))
