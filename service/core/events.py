"""What the core hears and says: the vocabulary that every other room speaks.

    bytes -> Delta (one data event, as a dialect reads it) -> Look (what one inspection sees)
          -> Finding (what one detector says) -> Judgement (what all of them together say)
          -> Action (what the proxy is to do) and Incident (what is kept)

Times are seconds on the monotonic clock of the process that read the socket; the core never reads a
clock itself. Token counts are the engine's own (`completion_tokens`), never guessed from characters.
No value in this module that leaves the process carries text of a prompt or of an answer.
"""

from enum import IntEnum, StrEnum
from typing import Final

import msgspec

from service.core.anchors import Anchors
from service.core.origin import Origin
from service.core.vocabulary import Vocabulary

UNKNOWN: Final = -1
"""A count that nobody told us. Zero is a count."""


class Kind(StrEnum):
    """What is wrong with a generation; the names of `specguard inspect` and of the metric labels."""

    NORMAL = "normal"
    GARBLED = "garbled"
    REPETITION = "repetition"
    RARE_CHAR = "rare_char"
    CROSSTALK = "crosstalk"
    TRUNCATED = "truncated"
    SILENT = "silent"
    LOW_ACCEPTANCE = "low_acceptance"  # never a verdict: telemetry alone stops at `suspect`


class Channel(StrEnum):
    """Where evidence comes from. Telemetry alone never acts (design: acceptance alone never aborts)."""

    TELEMETRY = "telemetry"
    TEXT = "text"
    STRUCTURE = "structure"
    SILENCE = "silence"
    PROVENANCE = "provenance"


class Level(IntEnum):
    """How far the evidence has gone. SUSPECT holds longer and alerts; only CORRUPT acts."""

    CLEAN = 0
    SUSPECT = 1
    CORRUPT = 2


class Policy(StrEnum):
    """What a route may do about a verdict."""

    OBSERVE = "observe"  # never touch a byte; count what `protect` would have done
    PROTECT = "protect"  # hold back, take back, generate again; out of means: deliver and mark
    STRICT = "strict"  # as protect; out of means: fail loudly


class StepKind(StrEnum):
    """How well verify steps are known: by the probe, by token growth (merged: an upper bound), or not."""

    EXACT = "exact"
    UPPER = "upper"
    NONE = "none"


class Drafter(StrEnum):
    """Who drafts on a worker. Growth of one token a step is evidence only where a model drafts."""

    MODEL = "model"  # EAGLE, MTP, STANDALONE
    NGRAM = "ngram"  # drafts come and go with the text: growth of 1 is "no data"
    NONE = "none"  # speculation off
    UNKNOWN = "unknown"


class RequestFacts(msgspec.Struct, frozen=True):
    """What the core needs to know of a client's request; made by a dialect from its body."""

    dialect: str
    model: str = ""
    stream: bool = False
    choices: int = 1
    max_tokens: int = UNKNOWN
    temperature: float = 1.0
    rid: str = ""  # the client's own; "" where it named none
    prompt: str = ""  # all text the model reads, joined by newlines; for guards only, never kept
    wants_usage: bool = False  # the client itself asked for the final usage event
    wants_growth: bool = False  # the client itself asked for usage in every chunk
    wants_spec: bool = False  # the client itself asked for sglext.spec_tokens_details
    wants_json: bool = False  # response_format asks for JSON
    tools: bool = False
    preamble_chars: int = 0  # of `prompt`, in front: system messages, which many sessions have in common
    tools_chars: int = 0  # of `prompt`, at its end: the tools that may be called
    sealed: bool = False  # the model reads more than `prompt` shows: images, token ids
    session: str = ""  # as the client names it in a header; "" for unnamed
    origin: Origin | None = None  # the request in the index of who said what; None where there is none
    shows_ids: bool = False  # the answer's token ids come with its text
    vocabulary: Vocabulary | None = None  # ids that its model's clean answers have; None where none are shown

    def __repr__(self) -> str:
        shape = f"stream={self.stream} n={self.choices} prompt={len(self.prompt)} chars"
        return f"<RequestFacts {self.dialect} {shape}>"


class WorkerFacts(msgspec.Struct, frozen=True):
    """What is known of the worker that answers; UNKNOWN until the response head names it."""

    url: str = ""
    drafter: Drafter = Drafter.UNKNOWN
    draft_tokens: int = UNKNOWN  # drafts proposed a verify step (k); accept length is at most k + 1
    anchors: Anchors | None = None  # healthy acceptance by kind of request and depth, where it was learned
    draft_fault: bool = False  # it refuses drafts in general and the texts are clean: no evidence
    adaptive: bool = False  # the draft's depth changes from step to step: k is a bound, not a fact


class Delta(msgspec.Struct, frozen=True):
    """One data event of one choice, as a dialect reads it; or a run of them."""

    choice: int = 0
    text: str = ""  # new text: content, reasoning and tool arguments alike
    tokens: int = UNKNOWN  # completion tokens of this choice so far
    finish: str = ""  # finish reason; "" while running
    tool: bool = False  # part of a tool call
    error: str = ""  # the engine's own in-band error (its type); "" for none
    exact: tuple[int, ...] = ()  # accepted drafts of each verify step since the last event, from the probe
    accepted: int = UNKNOWN  # final chunk only: accepted drafts of the whole request
    steps: int = UNKNOWN  # final chunk only: verify steps of the whole request
    malformed: bool = False  # the event could not be read; its bytes still go out
    calls: tuple[
        tuple[int, str], ...
    ] = ()  # tool calls: index and new piece of the arguments, part of `text`
    prompt_tokens: int = UNKNOWN  # what the engine says it read
    run: tuple[int, ...] = ()  # stands for several events that brought text alone: `tokens` after each
    ids: tuple[int, ...] = ()  # new token ids, where the dialect shows them

    def __repr__(self) -> str:
        return (
            f"<Delta choice={self.choice} chars={len(self.text)} tokens={self.tokens} finish={self.finish!r}>"
        )


class Step(msgspec.Struct, frozen=True):
    """One verify step: `accepted` of `drafted` draft tokens (the bonus token not counted).

    `drafted` is UNKNOWN where nobody told it. More accepted than drafted: growth of several merged steps.
    """

    drafted: int
    accepted: int


class Look(msgspec.Struct):
    """What one inspection of one choice sees: what is new since the last, and where the stream stands."""

    at: float = 0.0  # s, monotonic
    text: str = ""  # new characters
    tail: bytes | bytearray = b""  # at least the last 32 KiB of the choice's text as UTF-8, `text` included
    size: int = 0  # bytes of UTF-8 so far; `tail` is valid during the look only
    chars: int = 0  # characters so far
    tokens: int = UNKNOWN  # completion tokens so far
    steps: tuple[Step, ...] = ()  # new verify steps; the first chunk is no step, the last is censored
    step_kind: StepKind = StepKind.NONE
    quiet_s: float = 0.0  # since the last data event, our own backpressure taken out
    gap_s: float = 0.0  # the stream's median gap between data events; 0 while unknown
    grown: int = 0  # tokens the engine reports beyond the last data event that brought text
    ended: bool = False
    finish: str = ""
    calls: tuple[tuple[int, str], ...] = ()  # new pieces of tool calls' arguments, by the call's index
    prompt_tokens: int = UNKNOWN  # what the engine says it read; UNKNOWN where this look says nothing of it
    ids: tuple[int, ...] = ()  # new token ids, where the dialect shows them

    def __repr__(self) -> str:
        return f"<Look chars={self.chars} tokens={self.tokens} steps={len(self.steps)} ended={self.ended}>"


class Finding(msgspec.Struct, frozen=True):
    """What one detector says now; a later finding of the same detector replaces the earlier."""

    detector: str
    channel: Channel
    kind: Kind
    log10_e: float  # evidence against "healthy": log10 of an e-value
    at_token: int = UNKNOWN  # where the evidence was complete
    onset_token: int = UNKNOWN  # where the trouble seems to have begun
    unit: str = ""  # what repeats, as a short hash, or whose text it is, as that request's id; never text
    foreign: bool = False  # the text is another tenant's: a breach of privacy, critical


class Judgement(msgspec.Struct, frozen=True):
    """What all channels together say of one request."""

    level: Level = Level.CLEAN
    kind: Kind = Kind.NORMAL
    detector: str = ""
    log10_e: float = 0.0
    at_token: int = UNKNOWN
    onset_token: int = UNKNOWN
    unit: str = ""
    choice: int = 0
    foreign: bool = False

    @property
    def signature(self) -> tuple[str, str, str]:
        """Seen again on a second attempt, it is the prompt's or the model's doing."""
        return self.kind, self.detector, self.unit


CLEAN: Final = Judgement()


class Guilty(StrEnum):
    """Who is to blame for a failure; the metric label follows."""

    CLIENT = "client"
    OURS = "ours"
    ROUTER = "router"
    ENGINE = "engine"


class Ending(StrEnum):
    """How an attempt's byte stream stopped."""

    COMPLETE = "complete"  # the response body ended as HTTP says it should
    BROKEN = "broken"  # reset, truncated body, bad framing
    REFUSED = "refused"  # no connection, or closed before one response byte
    TIMEOUT = "timeout"


class Outcome(StrEnum):
    """How a client's request ended, for metrics and the demo's table."""

    CLEAN = "clean"  # delivered, nothing found
    RECOVERED = "recovered"  # a bad attempt was taken back unseen, a clean one delivered
    MARKED = "marked"  # a verdict stood and the text was delivered all the same (observe, or out of means)
    FAILED = "failed"  # failed loudly because of a verdict: a real 5xx, or an in-band error
    UPSTREAM_ERROR = "upstream_error"  # router or engine failed; no verdict on content
    UNINSPECTED = "uninspected"  # delivered, and nobody could look into it
    CLIENT_GONE = "client_gone"
    REFUSED = "refused"  # our own limit or a bad request


class Forward(msgspec.Struct, frozen=True):
    """Send these bytes to the client; the first of them commits the response head."""

    data: bytes


class Commit(msgspec.Struct, frozen=True):
    """Send the response head now (and a heartbeat after it): from here on failures are in-band."""

    data: bytes = b""


class Restart(msgspec.Struct, frozen=True):
    """Take this attempt back and generate again, on another worker if one can be pinned.

    `drain` asks to let the old stream run out unread instead of closing it (the governor's word on PD).
    """

    reason: str
    avoid: tuple[str, ...] = ()
    drain: bool = False


class Finish(msgspec.Struct, frozen=True):
    """Clean end: the response is complete."""


class Fail(msgspec.Struct, frozen=True):
    """Loud end. Before the commit point a real status and body; after it `in_band` and then a close.

    A client must never be able to take it for a clean end.
    """

    status: int
    body: bytes
    in_band: bytes
    guilty: Guilty
    reason: str
    retry_after_s: int = UNKNOWN
    drain: bool = False  # let the upstream run out unread instead of closing it


class Cached(msgspec.Struct, frozen=True):
    """What of a prompt the engine did not have to compute, by its own word."""

    prompt_tokens: int = UNKNOWN
    tokens: int = UNKNOWN  # UNKNOWN: not told, which with some engines means none
    host: int = UNKNOWN  # of these, loaded back from host memory; UNKNOWN: the tier was not told
    storage: int = UNKNOWN

    @property
    def tier(self) -> str:
        """The slowest tier that a part came from; "" for unknown."""
        if self.tokens <= 0:
            return "none" if self.tokens == 0 else ""
        if self.host == UNKNOWN:
            return "cached"
        return "storage" if self.storage > 0 else "host" if self.host > 0 else "device"


class Attempt(msgspec.Struct, frozen=True):
    """One generation of a request, as the incident keeps it."""

    rid: str
    worker: str = ""
    status: int = 0
    judgement: Judgement = CLEAN
    tokens: int = UNKNOWN
    steps: int = 0
    accept_length: float = float("nan")
    findings: tuple[Finding, ...] = ()
    ending: Ending = Ending.COMPLETE
    prefill: str = ""  # the prefill worker, where a probe named it
    dp_rank: int = UNKNOWN  # of the worker, where a probe named one
    telemetry: str = "none"  # how well its verify steps are known: exact, gapped, upper or none
    engine_said: tuple[str, ...] = ()  # words of the engine's own checks: `kind`, or `worker:kind`
    cached: Cached = Cached()
    accepted: tuple[int, ...] = ()  # of the last verify steps, where something stood against it


class Hint(msgspec.Struct, frozen=True):
    """What may have caused an incident: never a verdict, always with what speaks against it."""

    cause: str
    strength: str  # likely, possible, weak, or none where nothing points anywhere
    points: int  # what speaks for it less what speaks against it
    evidence: tuple[str, ...]
    against: tuple[str, ...]
    next_step: str


class Incident(msgspec.Struct, frozen=True):
    """What is kept of a request on which a verdict (or a suspicion) stood. No text."""

    rid: str
    route: str
    policy: Policy
    model: str
    outcome: Outcome
    judgement: Judgement
    attempts: tuple[Attempt, ...]
    delivered_bad_tokens: int = 0
    duration_s: float = 0.0
    hints: tuple[Hint, ...] = ()


class Report(msgspec.Struct, frozen=True):
    """Keep this incident."""

    incident: Incident


Action = Forward | Commit | Restart | Finish | Fail | Report
