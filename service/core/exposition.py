"""Reads a Prometheus exposition, leniently, for the few families that say how a worker is doing.

Engines and routers spell one thing in several ways: `sglang:spec_accept_length` on a worker, with an
underscore (and a `worker_addr`) behind a router or after Prometheus, `vllm:spec_decode_...` elsewhere. Here a
family has one name, without prefix, and an engine. A line that cannot be read is counted and passed over; a
last line without its end is taken for torn, because half a number is a number; NaN and infinity are no value.

Bounds: `MAX_BYTES` of text are looked at and `MAX_SERIES` are kept, the rest is counted. A line of a family
that nobody wants costs 0.5 us, one that is wanted 3.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

MAX_BYTES: Final = 4 << 20
"""A busy worker's exposition has about 100 kB; this much takes some 60 ms to read."""
MAX_SERIES: Final = 4096
MAX_LINE: Final = 4096

WANTED: Final = frozenset(
    {
        "spec_accept_length",
        "spec_accept_rate",
        "spec_num_steps",
        "spec_num_draft_tokens",
        "spec_verify_calls_total",
        "spec_decode_num_drafts_total",
        "spec_decode_num_draft_tokens_total",
        "spec_decode_num_accepted_tokens_total",
        "spec_decode_num_accepted_tokens_per_pos_total",
        "realtime_tokens_total",
        "generation_tokens_total",
        "gen_throughput",
        "num_running_reqs",
        "num_queue_reqs",
        "num_requests_running",
        "num_requests_waiting",
        "token_usage",
        "cache_hit_rate",
        "cached_tokens_total",
        "num_prefill_bootstrap_queue_reqs",
        "num_prefill_inflight_queue_reqs",
        "num_decode_prealloc_queue_reqs",
        "num_decode_transfer_queue_reqs",
        "num_decode_deferred_kv_release_reqs",
        "decode_deferred_kv_release_total",
        "num_bootstrap_failed_reqs_total",
        "num_transfer_failed_reqs_total",
        "num_aborted_requests_total",
        "num_retracted_requests_total",
        "load_back_tokens_total",
        "process_start_time_seconds",
    }
)
"""Families that the fleet view reads, by their name without prefix."""

_PREFIX: Final = re.compile(r"(sglang|vllm|smg|sgl_router|llamacpp)[:_]")
_LABEL: Final = re.compile(r'\s*,?\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ADDED: Final = 'worker_addr="'
_ESCAPE: Final = re.compile(r"\\(.)")


class Series(msgspec.Struct, frozen=True):
    """One sample of one series."""

    engine: str  # sglang, vllm, ...; "" where the name has no prefix we know
    family: str
    labels: Mapping[str, str]
    value: float


class Exposition(msgspec.Struct):
    """What was kept of one exposition, and what was not."""

    series: list[Series]
    counts: Counter[str]  # lines, and why lines were left out: unreadable, not_finite, torn, over_the_limit

    def values(self, family: str, engine: str = "", **labels: str) -> Iterator[float]:
        """The values of a family, of those series that carry these labels."""
        for one in self.series:
            if one.family != family or (engine and one.engine != engine):
                continue
            if all(one.labels.get(name) == value for name, value in labels.items()):
                yield one.value

    def total(self, family: str, **labels: str) -> float:
        """A counter over all its series; NaN where there is none."""
        values = list(self.values(family, **labels))
        return sum(values) if values else math.nan

    def mean(self, family: str, **labels: str) -> float:
        """A gauge over all ranks that report it; NaN where none does."""
        values = list(self.values(family, **labels))
        return sum(values) / len(values) if values else math.nan


def canonical(name: str) -> tuple[str, str]:
    """(engine, family) of a metric name in any spelling."""
    found = _PREFIX.match(name)
    return (found[1], name[found.end() :]) if found else ("", name)


def read(text: str, wanted: frozenset[str] = WANTED) -> Exposition:
    """Read what is wanted of an exposition; an empty set wants everything. Never raises."""
    exposition = Exposition([], Counter())
    counts = exposition.counts
    if len(text) > MAX_BYTES:
        text = text[:MAX_BYTES]
        counts["over_the_limit"] += 1
    whole, _, torn = text.rpartition("\n")
    counts["torn"] += bool(torn.strip())
    for line in _lines(whole):
        counts["lines"] += 1
        name = line[: _name_end(line)]
        engine, family = canonical(name)
        if wanted and family not in wanted:
            continue
        if len(exposition.series) >= MAX_SERIES or len(line) > MAX_LINE:
            counts["over_the_limit"] += 1
            continue
        sample = _sample(line[len(name) :])
        if sample is None or not name:
            counts["unreadable"] += 1
        elif not math.isfinite(sample[1]):
            counts["not_finite"] += 1
        else:
            exposition.series.append(Series(engine, family, *sample))
    return exposition


def by_worker(text: str) -> dict[str, str]:
    """What a router relays of its workers, apart: by the label that it adds. Other lines are nobody's."""
    parts: dict[str, list[str]] = {}
    for line in _lines(text[:MAX_BYTES]):
        start = line.find(_ADDED)
        end = line.find('"', start + len(_ADDED))
        if start > 0 and end > 0:
            parts.setdefault(line[start + len(_ADDED) : end], []).append(line)
    return {url: "".join(f"{line}\n" for line in lines) for url, lines in parts.items()}


def _lines(text: str) -> Iterable[str]:
    """Sample lines one by one: a million of them must not become a million strings at once."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        if text[start : start + 1] not in {"#", "", "\n", "\r"}:
            yield text[start:end]
        start = end + 1


def _name_end(line: str) -> int:
    brace, space = line.find("{"), line.find(" ")
    ends = [end for end in (brace, space, line.find("\t")) if end >= 0]
    return min(ends, default=len(line))


def _sample(rest: str) -> tuple[dict[str, str], float] | None:
    """Labels and value of what follows a name; a timestamp or an exemplar after the value is left alone."""
    labels: dict[str, str] = {}
    if rest.startswith("{"):
        at = 1
        while found := _LABEL.match(rest, at):
            labels[found[1]] = _plain(found[2])
            at = found.end()
        close = rest.find("}", at)
        if close < 0 or rest[at:close].strip(" ,"):
            return None
        rest = rest[close + 1 :]
    words = rest.split(maxsplit=1)
    try:
        return labels, float(words[0])
    except (IndexError, ValueError):
        return None


def _plain(value: str) -> str:
    if "\\" not in value:
        return value
    return _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], value)
