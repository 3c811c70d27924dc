"""What points to a cause and what speaks against it, as a table.

A sign has points (3 all but proves, 2 is typical, 1 fits; negative against), a question to the evidence, and
what to say where the answer is yes. The points are judgement, not measurement: they rank, and are no
probability. Sources of the signatures: reference cases of SGLang, by number where there is one.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple

from service.core.events import Kind
from service.core.fleet_watch import Reason
from service.core.hints.evidence import Evidence
from service.core.loglines import LogKind


class Cause(StrEnum):
    """What may be at the root."""

    ABORT_RACE = "abort_reuse_race"
    DEFERRED_RELEASE = "deferred_release_timeout"
    LOAD_BACK = "hicache_load_back"
    TRANSFER = "kv_transfer_failure"
    NAN = "nan_or_bad_gpu"
    DRAFT = "draft_fault"
    FRONT_END = "detokenizer_or_front_end"
    GRAMMAR = "grammar"
    REQUESTED = "requested_repetition"
    PROMPT = "prompt_bound"
    DEPLOY = "bad_deploy"
    NONE = "no_evidence_in_telemetry"


class Sign(NamedTuple):
    """One row."""

    cause: Cause
    points: int
    holds: Callable[[Evidence], bool]
    words: str


ABORTS: Final = "num_aborted_requests_total"
TRANSFERS: Final = "num_transfer_failed_reqs_total"
BOOTSTRAPS: Final = "num_bootstrap_failed_reqs_total"
LOADED_BACK: Final = "load_back_tokens_total"
RELEASES: Final = "decode_deferred_kv_release_timeout"

_FOREIGN: Final = frozenset({Kind.CROSSTALK, Kind.GARBLED, Kind.RARE_CHAR})
_C = Cause


def _moved(counter: str) -> Callable[[Evidence], bool]:
    return lambda known: known.trouble(counter) > 0


def _still(counter: str) -> Callable[[Evidence], bool]:
    return lambda known: known.scraped and not known.trouble(counter)


def _said(*kinds: LogKind) -> Callable[[Evidence], bool]:
    return lambda known: bool(known.words & {*kinds})


def _tier(*tiers: str) -> Callable[[Evidence], bool]:
    return lambda known: bool(known.tiers & {*tiers})


def _group(dimension: str) -> Callable[[Evidence], bool]:
    return lambda known: known.suspect_group(dimension) is not None


SIGNS: Final[tuple[Sign, ...]] = (
    # decode gives pages away while prefill still writes into them (sglang#24527)
    Sign(_C.ABORT_RACE, 1, lambda e: e.kind in _FOREIGN, "text that another request's KV would explain"),
    # For any other text or acceptance that says nothing: many fleets are so, and somebody always aborts.
    Sign(
        _C.ABORT_RACE,
        1,
        lambda e: e.pd and (e.kind in _FOREIGN or e.request_fell),
        "prefill and decode are apart",
    ),
    Sign(_C.ABORT_RACE, 1, lambda e: e.request_fell, "its acceptance fell, and its worker's did not"),
    Sign(_C.ABORT_RACE, 1, _moved(ABORTS), "requests were aborted on its workers within ten minutes"),
    Sign(
        _C.ABORT_RACE,
        1,
        lambda e: e.kind in _FOREIGN and e.trouble(ABORTS) > 0,
        "and the text is what a late write of theirs would leave",
    ),
    Sign(_C.ABORT_RACE, 1, _moved(TRANSFERS), "KV transfers failed there within ten minutes"),
    Sign(
        _C.ABORT_RACE,
        2,
        _said(LogKind.CONTEXT_CORRUPTION, LogKind.CHECKSUM_MISMATCH, LogKind.CANARY_VIOLATION),
        "the engine's own check found KV that is not this request's",
    ),
    Sign(_C.ABORT_RACE, 2, _group("pair"), "its pair of prefill and decode worker has more bad answers"),
    Sign(_C.ABORT_RACE, 1, lambda e: e.clean_here, "the same worker answered the same prompt well"),
    Sign(_C.ABORT_RACE, -2, lambda e: e.kind is Kind.SILENT, "silence is not another request's text"),
    Sign(_C.ABORT_RACE, -2, _still(ABORTS), "no abort was counted there within ten minutes"),
    Sign(_C.ABORT_RACE, -3, lambda e: e.same_elsewhere, "another worker gave the same bad answer"),
    # pages are given away after 30 s although the writer was not heard of
    Sign(_C.DEFERRED_RELEASE, 4, _moved(RELEASES), "releases timed out on its workers within ten minutes"),
    Sign(
        _C.DEFERRED_RELEASE,
        4,
        _said(LogKind.DEFERRED_RELEASE_TIMEOUT),
        "the engine let KV go before its writer was heard of, near this request",
    ),
    Sign(
        _C.DEFERRED_RELEASE,
        -3,
        lambda e: LogKind.DEFERRED_RELEASE_TIMEOUT not in e.words and _still(RELEASES)(e),
        "no release timed out there within ten minutes",
    ),
    Sign(_C.DEFERRED_RELEASE, -3, lambda e: e.same_elsewhere, "another worker gave the same bad answer"),
    # KV from the host tier: read before it is there (sglang#22811), or its index lost (sglang#32176)
    Sign(_C.LOAD_BACK, 2, _tier("host", "storage"), "its prefix came from the host tier"),
    Sign(_C.LOAD_BACK, 1, _moved(LOADED_BACK), "KV was loaded back on its workers within ten minutes"),
    Sign(
        _C.LOAD_BACK,
        1,
        lambda e: e.request_fell and bool(e.tiers & {"host", "storage"}),
        "its acceptance fell, and its worker's did not",
    ),
    Sign(_C.LOAD_BACK, 3, _group("cache"), "prefixes of this cache tier have more bad answers than others"),
    Sign(
        _C.LOAD_BACK,
        2,
        lambda e: e.suspect(Reason.ACCEPTANCE) and e.trouble(LOADED_BACK) > 0,
        "the worker's acceptance fell while it loads KV back",
    ),
    Sign(
        _C.LOAD_BACK,
        -3,
        lambda e: bool(e.tiers) and e.tiers <= {"none", "device"},
        "nothing of it came from the host",
    ),
    Sign(_C.LOAD_BACK, -2, _still(LOADED_BACK), "nothing was loaded back there within ten minutes"),
    # the KV that decode received is not what prefill sent
    Sign(_C.TRANSFER, 4, _said(LogKind.CHECKSUM_MISMATCH), "the KV checksum of this transfer did not match"),
    Sign(_C.TRANSFER, 1, lambda e: e.pd and e.request_fell, "its acceptance fell, and its worker's did not"),
    Sign(_C.TRANSFER, 2, _moved(TRANSFERS), "KV transfers failed on its workers within ten minutes"),
    Sign(_C.TRANSFER, 1, _moved(BOOTSTRAPS), "KV bootstraps failed on its workers within ten minutes"),
    Sign(_C.TRANSFER, 1, _group("prefill"), "its prefill worker has more bad answers than others"),
    Sign(_C.TRANSFER, -2, _still(TRANSFERS), "no transfer failed there within ten minutes"),
    Sign(_C.TRANSFER, -2, lambda e: e.same_elsewhere, "another worker gave the same bad answer"),
    # logits that are no numbers: token 0 for ever, drafts all accepted or all refused
    Sign(_C.NAN, 4, _said(LogKind.NAN), "the engine found NaN"),
    Sign(_C.NAN, 2, lambda e: e.kind is Kind.SILENT, "tokens come and no text does: token 0"),
    Sign(
        _C.NAN,
        1,
        lambda e: e.kind in {Kind.SILENT, Kind.REPETITION} and e.fully_accepted(),
        "nearly every draft token was accepted",
    ),
    Sign(
        _C.NAN,
        1,
        lambda e: e.kind is Kind.SILENT and e.hardly_accepted(),
        "hardly any draft token was accepted",
    ),
    Sign(_C.NAN, 1, _group("worker"), "this worker has more bad answers than its peers"),
    Sign(_C.NAN, -2, lambda e: e.ordinarily_accepted(), "draft tokens were accepted as by finite logits"),
    Sign(_C.NAN, -2, lambda e: e.same_elsewhere, "another worker gave the same bad answer"),
    # the draft is of no use; the text is the target's and right
    Sign(_C.DRAFT, 2, lambda e: not e.text_found, "acceptance alone is low, and the text is clean"),
    Sign(
        _C.DRAFT,
        3,
        lambda e: e.fallen_together and e.hardly_accepted(),
        "all workers' acceptance fell together",
    ),
    Sign(
        _C.DRAFT,
        2,
        lambda e: e.suspect(Reason.ACCEPTANCE) and not e.text_found,
        "this worker's acceptance fell",
    ),
    Sign(
        _C.DRAFT, 1, lambda e: e.suspect(Reason.BELOW_PEERS), "it accepts less than its peers from the start"
    ),
    Sign(_C.DRAFT, -4, lambda e: e.text_found, "the text itself was judged bad, which a draft cannot make"),
    # bytes of a character lost between token and text
    Sign(_C.FRONT_END, 3, lambda e: e.found("garble", "replacement"), "U+FFFD in the text"),
    Sign(_C.FRONT_END, 1, lambda e: e.ordinarily_accepted(), "draft tokens were accepted as ever"),
    Sign(
        _C.FRONT_END,
        -2,
        lambda e: e.hardly_accepted(),
        "hardly any draft token was accepted: the model lost it",
    ),
    Sign(_C.FRONT_END, -2, lambda e: bool(e.own_words), "the engine's own check speaks of this request's KV"),
    # constrained decoding
    Sign(_C.GRAMMAR, 1, lambda e: e.grammar, "the request asks for JSON or tools"),
    Sign(_C.GRAMMAR, 3, lambda e: e.found("structure"), "JSON or tool arguments are broken"),
    Sign(_C.GRAMMAR, -4, lambda e: not e.grammar, "the request asks for neither JSON nor tools"),
    Sign(_C.GRAMMAR, -1, lambda e: e.clean_elsewhere, "another worker answered the same request well"),
    # the client wants it so
    Sign(
        _C.REQUESTED,
        3,
        lambda e: e.kind is Kind.REPETITION and e.asks_to_repeat,
        "the prompt asks for repetition",
    ),
    Sign(
        _C.REQUESTED,
        1,
        lambda e: e.kind is Kind.REPETITION and e.asks_to_repeat and e.fully_accepted(),
        "its draft tokens were nearly all accepted",
    ),
    Sign(_C.REQUESTED, -3, lambda e: e.clean_elsewhere, "another worker answered it without repeating"),
    # the prompt or the model does it everywhere
    Sign(_C.PROMPT, 4, lambda e: e.same_elsewhere, "two workers gave the same bad answer"),
    Sign(_C.PROMPT, 1, lambda e: e.same_elsewhere and e.cold, "at temperature 0 the model always says this"),
    Sign(_C.PROMPT, -1, lambda e: e.request_fell, "its acceptance fell, as a prompt seldom makes it"),
    Sign(_C.PROMPT, -4, lambda e: e.clean_elsewhere, "another worker answered it well"),
    Sign(
        _C.PROMPT, -2, lambda e: e.clean_here and e.cold, "the same worker answered it well at temperature 0"
    ),
    # something was changed just before
    Sign(_C.DEPLOY, 2, lambda e: bool(e.changes), "something was changed within half an hour before"),
    Sign(
        _C.DEPLOY,
        2,
        lambda e: any(change.worker in e.workers for change in e.changes),
        "on a worker that gave the bad answer",
    ),
    Sign(
        _C.DEPLOY, 1, lambda e: bool(e.changes) and e.fallen_together, "acceptance fell on all workers since"
    ),
    Sign(
        _C.DEPLOY,
        -2,
        lambda e: bool(e.changes) and all(c.worker and c.worker not in e.workers for c in e.changes),
        "on other workers than this one",
    ),
)

NEXT_STEPS: Final[dict[Cause, str]] = {
    _C.ABORT_RACE: (
        "stop aborting on these workers; let `specguard doctor` see to deferred release and #24522;"
        " replay the case with cancels around it"
    ),
    _C.DEFERRED_RELEASE: (
        "find why prefill does not acknowledge within 30 s (its log, its queue), and raise"
        " SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE_TIMEOUT; suspect all answers of that minute"
    ),
    _C.LOAD_BACK: (
        "POST /flush_cache on the worker and see whether it ends; replay with the hierarchical cache off as"
        " control; see that #22811 is in"
    ),
    _C.TRANSFER: (
        "start prefill and decode with --disaggregation-enable-kv-checksum; look at the link of this pair;"
        " replay over another pair"
    ),
    _C.NAN: (
        "take the worker out; run it with SGLANG_ENABLE_NAN_LOGITS_CHECK=1 and --kv-canary log; look for"
        " memory errors of its GPU"
    ),
    _C.DRAFT: ("compare the weight versions of draft and target; POST /flush_cache; the answers are right"),
    _C.FRONT_END: (
        "get the token ids of the case and decode them by hand; look at the detokenizer and at proxies"
    ),
    _C.GRAMMAR: (
        "replay the case without the constraint; see whether later requests with a grammar fail there,"
        " and restart the worker if they do"
    ),
    _C.REQUESTED: "none; if such prompts are usual, put them on a route that observes",
    _C.PROMPT: (
        "do not retry it; replay it on a worker without speculation: if that does it, too, it is the model's"
    ),
    _C.DEPLOY: "roll the change back on one worker and compare it with its peers",
    _C.NONE: (
        "replay the case under load, and switch the engine's own checks on (KV checksum, canary): that no"
        " signal points anywhere is no proof of health"
    ),
}
