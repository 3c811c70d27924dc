"""Prepared answers for the gateway bench: English, code, Chinese, never repeating, cut like a draft's runs.

Detectors must have work and nothing to find, so sentences are drawn anew each time from lists of words that
go together; 60 % of the answers are English, 20 % code, 20 % Chinese. A piece is what one verify step of a
model that drafts three tokens brings: one to four tokens, 2.6 in the mean.
"""

import json
from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

STREAMS: Final = 160
PIECES: Final = 256
RUNS: Final = (1, 2, 3, 4)
RUN_WEIGHTS: Final = (22, 25, 24, 29)
"""Accept rate about .53: a healthy draft on mixed text."""

WHO: Final = (
    "the scheduler", "a worker", "our gateway", "each replica", "the cache", "one page", "the router",
    "a client", "the decoder", "every batch", "the sampler", "a tokenizer", "the planner",
    "some thread", "the allocator",
)  # fmt: skip
DOES: Final = (
    "keeps", "moves", "copies", "drops", "checks", "writes", "reads", "orders", "frees", "splits",
    "joins", "marks", "scores", "ranks", "counts", "hands over", "waits for", "looks up", "rebuilds",
    "measures",
)  # fmt: skip
WHAT: Final = (
    "three blocks", "its own state", "the oldest entry", "a longer prefix", "the final layer",
    "two requests", "an empty slot", "the next token", "some pages", "a shared key", "the whole answer",
    "what came before", "the slower half", "a small budget", "the draft", "every second step",
    "one index", "the new weights",
)  # fmt: skip
WHEN: Final = (
    "before the deadline", "after a restart", "under load", "at midnight", "in the first pass",
    "without a lock", "while others wait", "once the queue is short", "on the second try",
    "as soon as memory allows", "by design", "although nobody asked", "because the page was dirty",
    "unless the flag is set", "during the handover",
)  # fmt: skip
LINK: Final = (
    "and", "but", "so", "then", "while", "yet", "or else", "which means that", "even if", "because",
)  # fmt: skip
VERBS: Final = (
    "load", "merge", "score", "route", "flush", "parse", "rank", "hash", "pack", "seek", "join", "trim",
)  # fmt: skip
NOUNS: Final = (
    "page", "batch", "slot", "token", "layer", "queue", "span", "shard", "index", "draft", "node",
    "frame",
)  # fmt: skip
SUBJECTS_ZH: Final = (
    "调度器", "缓存", "网关", "副本", "解码器", "请求", "线程", "路由器", "客户端", "采样器", "计划",
    "模型",
)  # fmt: skip
VERBS_ZH: Final = (
    "保留", "移动", "复制", "检查", "写入", "读取", "释放", "合并", "等待", "重建", "测量", "标记",
    "比较", "选择",
)  # fmt: skip
OBJECTS_ZH: Final = (
    "三个内存块", "最旧的条目", "共享前缀", "下一个词元", "空闲的槽位", "完整的回答", "最后一层",
    "两个批次", "新的权重", "较慢的部分", "少量预算", "所有页面", "自身的状态", "第二次结果",
)  # fmt: skip
ENDS_ZH: Final = (
    "\uff0c然后继续。", "。", "\uff0c但是不会阻塞。", "\uff0c因为时间有限。",
    "\uff1b", "\uff0c直到队列变短。", "\uff0c以免重复。",
)  # fmt: skip


class Piece(NamedTuple):
    """The text of one chunk as a JSON string, and its tokens."""

    text: bytes
    tokens: int


def _english(random: Random) -> str:
    who, does, what, when = (random.choice(words) for words in (WHO, DOES, WHAT, WHEN))
    clause = f"{who} {does} {what} {when}"
    if random.getrandbits(1):
        return f"{clause}, {random.choice(LINK)} "
    return f"{clause} ({random.randrange(2, 9999)} times). "


def _code(random: Random) -> str:
    verb, noun, other = random.choice(VERBS), random.choice(NOUNS), random.choice(NOUNS)
    number = random.randrange(2, 4096)
    return random.choice(
        (
            f"def {verb}_{noun}_{number}({other}):\n    return {other} + {random.randrange(9999)}\n\n",
            f"{noun}s[{number}] = {verb}({other}, limit={random.randrange(9999)})  # {random.choice(WHEN)}\n",
            f"    if {noun}.{other} > {number}:\n        {noun}.{verb}({random.randrange(999)})\n",
        )
    )


def _chinese(random: Random) -> str:
    return "".join(random.choice(words) for words in (SUBJECTS_ZH, VERBS_ZH, OBJECTS_ZH, ENDS_ZH))


KINDS: Final[tuple[tuple[Callable[[Random], str], int], ...]] = (
    # characters a token, as common tokenizers have them
    *[(_english, 4)] * 3,
    (_code, 3),
    (_chinese, 2),
)


def answer(seed: int, pieces: int = PIECES) -> list[Piece]:
    """One prepared answer; the same for the same seed."""
    random = Random(seed)
    sentence, chars_a_token = KINDS[seed % len(KINDS)]
    text, made = "", list[Piece]()
    for tokens in random.choices(RUNS, RUN_WEIGHTS, k=pieces):
        size = tokens * chars_a_token
        while len(text) < size:
            text += sentence(random)
        made.append(Piece(json.dumps(text[:size], ensure_ascii=False).encode(), tokens))
        text = text[size:]
    return made


def streams(count: int = STREAMS) -> list[list[Piece]]:
    return [answer(seed) for seed in range(count)]
