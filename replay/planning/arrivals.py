"""Arrivals: the times of a trace made continuous, and its load made more or less, families kept whole.

    ties      a trace whose times lie on a grid (the public Mooncake trace has 12,031 requests on 1,180 times)
              is a salvo every few seconds. `uniform` spreads those of one time evenly up to the next time,
              `poisson` at random in between, `none` leaves them.
    thin      keep each family of requests with a probability
    copies    lay the trace over itself, each copy turned by a phase of its own and with its own prefixes
    slices    consecutive parts for the rounds of a plan
    scaled    `arrivals` divides all times by the load; `sessions` divides only when families begin, so that
              what happens within one, think time included, stays as it was

A family is what hangs together: a session, a tree of parents, a group of candidates. Halving the load by
leaving out requests here and there would leave no session whole, and no prefix in its cache.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from random import Random
from typing import Literal

import msgspec

from replay.trace import TraceRequest

_SPREAD, _STEP, _MASK = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, (1 << 63) - 1
"""Odd multipliers of splitmix64: other names for the blocks of a copy."""

Ties = Literal["uniform", "poisson", "none"]
Scale = Literal["arrivals", "sessions"]


def in_order(requests: Iterable[TraceRequest]) -> list[TraceRequest]:
    """By time, the first at zero."""
    ordered = sorted(requests, key=lambda one: one.at_s)
    start = ordered[0].at_s if ordered else 0.0
    return [_at(one, one.at_s - start) for one in ordered] if start else ordered


def tied(requests: Sequence[TraceRequest]) -> int:
    """How many requests share their time with an earlier one."""
    return len(requests) - len({one.at_s for one in requests})


def spread_ties(requests: Sequence[TraceRequest], how: Ties, seed: int) -> list[TraceRequest]:
    """Requests in order with times that differ."""
    if how == "none":
        return list(requests)
    random = Random(f"ties {seed}")
    salvos = [(at, list(salvo)) for at, salvo in groupby(requests, key=lambda one: one.at_s)]
    ends = [at for at, _ in salvos[1:]]
    if salvos:  # the last salvo has as long as the one before it
        last = salvos[-1][0]
        ends.append(last + (last - salvos[-2][0] if len(salvos) > 1 else 0.0))
    spread: list[TraceRequest] = []
    for (at, salvo), end in zip(salvos, ends, strict=True):
        count = len(salvo)
        even = [place / count for place in range(count)]
        shares = even if how == "uniform" or count == 1 else sorted(random.random() for _ in salvo)
        spread += [_at(one, at + share * (end - at)) for one, share in zip(salvo, shares, strict=True)]
    return spread


def families(requests: Sequence[TraceRequest]) -> list[str]:
    """The family of each request, named by one of its members."""
    root: dict[str, str] = {}

    def find(name: str) -> str:
        while (above := root.setdefault(name, name)) != name:
            root[name] = root[above]
            name = above
        return name

    for one in requests:
        own = f"request {one.id}"
        for kind, name in (("session", one.session), ("request", one.parent), ("group", one.group)):
            if name:
                root[find(own)] = find(f"{kind} {name}")
    return [find(f"request {one.id}") for one in requests]


def thin(requests: Sequence[TraceRequest], share: float, seed: int) -> list[TraceRequest]:
    """About this share of all families."""
    random = Random(f"thin {seed}")
    named = families(requests)
    kept = {family for family in dict.fromkeys(named) if random.random() < share}
    return in_order(one for one, family in zip(requests, named, strict=True) if family in kept)


def superpose(requests: Sequence[TraceRequest], copies: int, seed: int) -> list[TraceRequest]:
    """The trace over itself; each copy is turned, and a family that began late begins early instead."""
    if copies <= 1 or not requests:
        return list(requests)
    random = Random(f"copies {seed}")
    span = requests[-1].at_s
    named = families(requests)
    begins: dict[str, float] = {}
    for one, family in zip(requests, named, strict=True):
        begins.setdefault(family, one.at_s)
    laid = list(requests)
    for copy in range(1, copies):
        phase = random.random() * span
        for one, family in zip(requests, named, strict=True):
            begin = begins[family]
            turned = (begin + phase) % span if span else 0.0
            laid.append(_copy(one, copy, turned + one.at_s - begin))
    return in_order(laid)


def slices(requests: Sequence[TraceRequest], parts: int) -> list[list[TraceRequest]]:
    """Consecutive parts of about as many requests, no family in two."""
    named = families(requests)
    sizes = Counter(named)
    part_of: dict[str, int] = {}
    seen = 0
    for family in dict.fromkeys(named):
        part_of[family] = min(parts - 1, seen * parts // len(requests))
        seen += sizes[family]
    cut: list[list[TraceRequest]] = [[] for _ in range(parts)]
    for one, family in zip(requests, named, strict=True):
        cut[part_of[family]].append(one)
    return [in_order(part) for part in cut if part]


def scaled(requests: Sequence[TraceRequest], load: float, how: Scale) -> list[float]:
    """When each request is due at this multiple of the load."""
    if how == "arrivals":
        return [one.at_s / load for one in requests]
    begins: dict[str, float] = {}
    due = []
    for one, family in zip(requests, families(requests), strict=True):
        begin = begins.setdefault(family, one.at_s)
        due.append(begin / load + one.at_s - begin)
    return due


def _at(one: TraceRequest, at_s: float) -> TraceRequest:
    return msgspec.structs.replace(one, at_s=at_s)


def _copy(one: TraceRequest, copy: int, at_s: float) -> TraceRequest:
    """Another user who does the same: names of his own, and no prefix in common with the first."""
    return msgspec.structs.replace(
        one,
        id=f"{one.id}~{copy}",
        at_s=at_s,
        session=f"{one.session}~{copy}" if one.session else "",
        parent=f"{one.parent}~{copy}" if one.parent else "",
        group=f"{one.group}~{copy}" if one.group else "",
        blocks=tuple((block * _SPREAD + copy * _STEP) & _MASK for block in one.blocks),
    )
