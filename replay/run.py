"""A plan carried out against one target, or gone on with after a kill.

    summary = await run_plan(plan, results, Options(target="http://127.0.0.1:30000", allow=("127.0.0.1",)))

All that can be refused is refused before anything is sent: a host that nobody has named, a plan that is
faster than the cap, changed, or out of order, a results file of another run. A resumption sends what has not
been sent, from the time of the first such send on; what was cut off by the kill has its line, and is not sent
again.
"""

import asyncio
import gc
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from replay.client import RawClient, Transport
from replay.control import ControlError, Controls, orders_of
from replay.outlook import Outlook, look_over, sends_of
from replay.pacer import Pacer
from replay.pages import Site
from replay.results import Journal, Past, ResultsError, Resumed, RunHeader, look_back
from replay.runner import Options, Runner, State, Summary
from replay.scrape import Scraper
from replay.target import NotAllowedError, check_allowed, target_of

BEGIN_S: Final = 0.2
"""From ready to the first send: time to settle."""


def nobody(_: object) -> None:
    """Listen to nothing."""


async def run_plan(
    plan: Path,
    results: Path,
    options: Options,
    *,
    tell: Callable[[State], None] = nobody,
    begun: Callable[[Runner], None] = nobody,
    transport: Callable[[Options], Transport] | None = None,
) -> Summary:
    """Run, and write what happens; `begun` gets the runner, to stop it.

    Raises PlanError, ResultsError, TargetError or ControlError with nothing sent.
    """
    sites, controls = _sites(options.metrics, options), _control_sites(options)
    check_allowed(target_of(options.target), options.allow)
    outlook = look_over(plan, options.shard)
    _check_rate(outlook, options)
    past = _past(results, outlook, options)
    sends = sends_of(plan, outlook)
    done = (past.done | {sent.id for sent in past.cut_off}) if past else frozenset[str]()
    pacer = Pacer(sends, outlook.awaited, done=done, cap_per_s=options.cap_per_s)
    with Journal(results, options.sync) as journal:
        carrier = (transport or raw_transport)(options)
        runner = Runner(outlook, pacer, journal, carrier, options)
        knobs = Controls(orders_of(outlook.header), controls, runner.now_s)
        runner.gate_s = lambda: knobs.gate_s
        scraper = Scraper(sites, runner.now_s, runner.keep)
        knobs.skip_to(_begin(runner, journal, pacer, outlook, options, past))
        begun(runner)
        try:
            await _beside(runner, knobs, scraper, tell)
        finally:
            runner.abandon()
            runner.close()
            await carrier.close()
        return runner.summary(len(done))


def raw_transport(options: Options) -> RawClient:
    """The client that a run uses unless another is asked for."""
    return RawClient(target_of(options.target), headers=options.headers, authorities=options.authorities)


async def _beside(runner: Runner, knobs: Controls, scraper: Scraper, tell: Callable[[State], None]) -> None:
    """The run, and metrics and knobs for as long as it lasts."""

    async def turn() -> None:
        try:
            await knobs.run(runner.fire)
        except ControlError as refused:
            runner.stop("control", str(refused))

    gc.collect()
    gc.freeze()  # what is there now is not looked through again while requests are due
    try:
        async with asyncio.TaskGroup() as group:
            beside = [
                group.create_task(turn(), name="replay-knobs"),
                group.create_task(scraper.run(), name="replay-metrics"),
            ]
            await runner.wait(tell)
            for task in beside:
                task.cancel()
    finally:
        gc.unfreeze()


def _begin(
    runner: Runner, journal: Journal, pacer: Pacer, outlook: Outlook, options: Options, past: Past | None
) -> float:
    """Write the first lines, and let time start; where in the run that is."""
    now = datetime.now(UTC)
    in_s, shift_s = _begins_in_s(options, now, resumed=past is not None), 0.0
    starts = now + timedelta(seconds=in_s)
    if past is not None:
        shift_s = pacer.restart()
        journal.resume(past)
        journal.add(Resumed(at=starts.isoformat(), shift_s=shift_s))
    else:
        header = RunHeader(
            plan_hash=outlook.header.hash,
            target=options.target,
            started_at=starts.isoformat(),
            shard=str(options.shard or ""),
            calibration=options.calibration,
        )
        journal.begin(header)
    runner.begin(shift_s, in_s)
    return shift_s


def _begins_in_s(options: Options, now: datetime, *, resumed: bool) -> float:
    """A run that missed its start did not make the planned load; one that is resumed goes on at once."""
    if options.start_at is None:
        return BEGIN_S
    in_s = (options.start_at - now).total_seconds()
    if in_s < 0 and not resumed:
        raise ResultsError(f"the run was to start {-in_s:.1f} s ago: nothing was sent")
    return max(in_s, BEGIN_S)


def _past(results: Path, outlook: Outlook, options: Options) -> Past | None:
    """What a run that is gone on with has done."""
    past = look_back(results) if options.resume else None
    if past is None:
        return None
    if past.header.plan_hash != outlook.header.hash:
        raise ResultsError(f"{results} is of another plan: it cannot be resumed with this one")
    if past.header.shard != str(options.shard or ""):
        raise ResultsError(
            f"{results} is of shard {past.header.shard or 'none'}, not of {options.shard or 'none'}"
        )
    if past.header.target != options.target:
        raise ResultsError(f"{results} is of {past.header.target}: a run is resumed on its own target")
    return past


def _check_rate(outlook: Outlook, options: Options) -> None:
    if outlook.peak_per_s > options.cap_per_s:
        raise NotAllowedError(
            f"the plan sends {outlook.peak_per_s:.0f} requests in its busiest second,"
            f" the cap is {options.cap_per_s:.0f}: nothing was sent"
        )


def _sites(urls: Sequence[str], options: Options) -> list[Site]:
    return [Site(url, options.allow, options.authorities) for url in urls]


def _control_sites(options: Options) -> dict[str, list[Site]]:
    return {role: _sites(urls, options) for role, urls in options.controls.items()}
