"""Ten minutes with a prefill/decode pair: is it what it should be, and does load change its answers.

    workers   each says its mode, that speculation is on, how KV travels, which version it is
    answer    one stream comes whole and tells its acceptance
    run       questions in growing sessions, idle and at `PEAK` times the rate, in blocks drawn by lot
    judge     every answer read by the detectors; the verdict on the load

A step that fails ends the check: what comes after it would say nothing. The report is one JSON object,
without any text of the model, and says that this kit was written without a GPU to try it on.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, Final

import msgspec

from replay.client import Call
from replay.gpu_traffic import header as questions_header
from replay.gpu_traffic import questions
from replay.judge import Judged, judge
from replay.judging.verdict import Outcome
from replay.pages import Site
from replay.plan import Arm, Contrast, write_plan
from replay.planning.make import Wishes, make
from replay.run import raw_transport, run_plan
from replay.runner import Options, State
from replay.target import check_allowed, target_of
from service.core.recorded import Rules

FORMAT: Final = "specguard.gpu-check/1"
PROVENANCE: Final = "written without a GPU; tried against the lab only, never by its authors on real hardware"
MINUTES: Final = 10.0
PEAK: Final = 4.0
ROUNDS: Final = 3
PAUSE_S: Final = 3.0
MARGIN_PER_10K: Final = 100.0
"""What some hundred requests an arm can show at best; the report says the power."""
LEAST: Final = 30
"""Requests an arm, however short the check."""
RUN_SHARE: Final = 0.8
"""Of the time; the rest is for the first answers, the last ones, and judging."""
PROMPT: Final = "Count from one to forty in words."


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What to look at."""

    options: Options
    prefill: tuple[str, ...]
    decode: tuple[str, ...]
    minutes: float = MINUTES
    rate_per_s: float = 1.0  # of the idle arm
    pause_s: float = PAUSE_S  # between blocks


class Step(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    ok: bool
    told: dict[str, Any]
    wrong: str = ""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All of them."""

    format: str = FORMAT
    provenance: str = PROVENANCE
    target: str
    started_at: str
    seconds: float
    ok: bool
    steps: list[Step]


class _Models(msgspec.Struct):
    data: list[dict[str, Any]] = []


Tell = Callable[[str], None]


async def check(wanted: Wanted, rules: Rules, home: Path, tell: Tell) -> Report:
    """Go through all steps; plan and results stay in `home`. Raises TargetError with nothing sent."""
    for url in (wanted.options.target, *wanted.prefill, *wanted.decode):
        check_allowed(target_of(url), wanted.options.allow)
    began, started_at = monotonic(), datetime.now(UTC).isoformat()
    steps: list[Step] = []
    for step in (_workers, _answer, _run):
        steps.append(await step(wanted, home, tell))
        if not steps[-1].ok:
            break
    else:
        steps.append(await asyncio.to_thread(_judge, home, rules))
    return Report(
        target=wanted.options.target,
        started_at=started_at,
        seconds=round(monotonic() - began, 1),
        ok=all(step.ok for step in steps),
        steps=steps,
    )


def requests_an_arm(minutes: float, rate_per_s: float) -> int:
    """As many as fit: both arms, and one more block of the idle one at the end."""
    a_request_s = (1 + 1 / PEAK + 1 / ROUNDS) / rate_per_s
    pauses_s = (2 * ROUNDS + 1) * PAUSE_S
    return max(LEAST, int((minutes * 60 * RUN_SHARE - pauses_s) / a_request_s))


async def _workers(wanted: Wanted, _: Path, tell: Tell) -> Step:
    tell("asking the workers what they are")
    told: dict[str, Any] = {}
    wrong: list[str] = []
    for mode, urls in (("prefill", wanted.prefill), ("decode", wanted.decode)):
        for url in urls:
            info = await _page(f"{url.rstrip('/')}/server_info", wanted)
            told[url] = {name: info.get(name) for name in TOLD} if info else None
            wrong += [f"{url} {what}" for what in _wrong_with(info, mode)]
    return Step("workers", not wrong, told, "; ".join(wrong))


TOLD: Final = (
    "version",
    "model_path",
    "disaggregation_mode",
    "disaggregation_transfer_backend",
    "speculative_algorithm",
    "speculative_num_steps",
    "speculative_num_draft_tokens",
    "tp_size",
)


def _wrong_with(info: dict[str, Any], mode: str) -> list[str]:
    if not info:
        return ["does not answer /server_info"]
    wrong = []
    if info.get("disaggregation_mode") != mode:
        wrong.append(f"is no {mode} worker: its mode is {info.get('disaggregation_mode')}")
    if not info.get("speculative_algorithm"):
        wrong.append("does not speculate")
    return wrong


async def _page(url: str, wanted: Wanted) -> dict[str, Any]:
    site = Site(url, wanted.options.allow, wanted.options.authorities)
    try:
        page = await site.get()
        value = msgspec.json.decode(page) if page else None
    except msgspec.DecodeError:
        value = None
    finally:
        await site.close()
    return value if isinstance(value, dict) else {}


async def _answer(wanted: Wanted, _: Path, tell: Tell) -> Step:
    """One stream of SGLang's own dialect, which tells the acceptance at its end."""
    tell("having one answer streamed")
    body = {"text": PROMPT, "stream": True, "sampling_params": {"temperature": 0, "max_new_tokens": 96}}
    client = raw_transport(wanted.options)
    over: asyncio.Future[Call] = asyncio.get_running_loop().create_future()
    call: Call = client.start("/generate", msgspec.json.encode(body), over.set_result)
    try:
        async with asyncio.timeout(wanted.options.first_byte_s):
            await asyncio.shield(over)
    except TimeoutError:
        call.stop("timeout", "no answer in time")
    await client.close()
    answer = call.answer
    length = (answer.spec or {}).get("spec_accept_length")
    told = {
        "ending": call.ending,
        "status": call.status,
        "finish_reason": answer.finish_reason,
        "completion_tokens": answer.completion_tokens,
        "chunks": len(answer.times),
        "spec_accept_length": length,
    }
    wrong = "" if call.ending == "complete" and answer.finish_reason else f"no whole answer: {call.error}"
    if not wrong and not isinstance(length, int | float):
        wrong = "the answer does not tell its acceptance"
    return Step("answer", not wrong, told, wrong)


async def _run(wanted: Wanted, home: Path, tell: Tell) -> Step:
    """The load."""
    count = requests_an_arm(wanted.minutes, wanted.rate_per_s)
    model = await _model(wanted)
    header = _plan(home, count, wanted, model)
    tell(f"sending {header['sends']} requests in {header['duration_s']:.0f} s")
    metrics = tuple(f"{url.rstrip('/')}/metrics" for url in (*wanted.prefill, *wanted.decode))
    options = msgspec.structs.replace(wanted.options, metrics=metrics, model=model)
    summary = await run_plan(home / "plan", home / "results", options, tell=_nothing)
    told = {**header, "model": model, **msgspec.structs.asdict(summary)}
    wrong = summary.told or (f"{summary.failures} of {summary.ended} failed" if summary.failing else "")
    return Step("run", not wrong, told, wrong)


def _nothing(_: State) -> None:
    """Ten minutes need no second line of progress."""


async def _model(wanted: Wanted) -> str:
    page = await _page(f"{wanted.options.target.rstrip('/')}/v1/models", wanted)
    try:
        models = msgspec.convert(page, _Models).data
    except msgspec.ValidationError:
        models = []
    names: Sequence[Any] = [model.get("id") for model in models]
    return next((name for name in names if isinstance(name, str)), "")


def _plan(home: Path, count: int, wanted: Wanted, model: str) -> dict[str, Any]:
    arms = (Arm(name="idle"), Arm(name="peak", load=PEAK))
    contrast = Contrast(low="idle", high="peak", margin_per_10k=MARGIN_PER_10K, incident_window_s=5.0)
    wishes = Wishes(
        arms=arms,
        contrast=contrast,
        rounds=ROUNDS,
        requests=count,
        rate_per_s=wanted.rate_per_s,
        pause_s=wanted.pause_s,
        canaries=2,
        model=model,
    )
    plan, sends = make(questions_header(), list(questions(count)), wishes)
    written = write_plan(home / "plan", plan, sends)
    return {"sends": written.sends, "duration_s": written.duration_s, "plan_hash": written.hash}


def _judge(home: Path, rules: Rules) -> Step:
    found = judge(home / "plan", home / "results", rules)
    told = {
        "verdict": msgspec.to_builtins(found.verdict),
        "levels": msgspec.to_builtins(found.levels),
        "canaries": msgspec.to_builtins(found.canaries),
        "notes": found.notes,
    }
    wrong = _found(found)
    return Step("judge", not wrong, told, wrong)


def _found(judged: Judged) -> str:
    """What speaks against the pair, or against the check."""
    verdict, bad = judged.verdict.verdict, [one.arm for one in judged.levels if one.events]
    if leaks := len(judged.canaries.leaks):
        return f"{leaks} answers hold another request's mark"
    if bad:
        return f"bad answers in {', '.join(bad)}: {verdict}"
    return str(verdict) if verdict in {Outcome.SCHEDULE_NOT_KEPT, Outcome.BACKEND_FAILING} else ""
