"""JUnit for CI: what a pipeline may fail on.

One suite, a test for the contrast, one for the schedule, one for the backend and one for cross-talk. A
load-dependent rate is a failure; a run that proves nothing is an error, except that an undecided one is
skipped: more requests may still decide it.
"""

from xml.sax.saxutils import quoteattr

from replay.judge import Judged
from replay.judging.verdict import FAILING_SHARE, Outcome


def junit(found: Judged) -> str:
    """The whole file."""
    tests = [_contrast(found), _schedule(found), _backend(found), _crosstalk(found)]
    counts = {word: sum(f"<{word}" in test for test in tests) for word in ("failure", "error", "skipped")}
    head = (
        f'<testsuite name="specguard replay" tests="{len(tests)}" failures="{counts["failure"]}"'
        f' errors="{counts["error"]}" skipped="{counts["skipped"]}">'
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}\n{"".join(tests)}</testsuite>\n'


def _contrast(found: Judged) -> str:
    verdict = found.verdict
    name = f"{found.contrast.event}: {found.contrast.high} against {found.contrast.low}"
    match verdict.verdict:
        case Outcome.LOAD_DEPENDENT:
            word = "failure"
        case Outcome.NOT_LOAD_DEPENDENT:
            word = ""
        case Outcome.UNDECIDED:
            word = "skipped"
        case _:
            word = "error"
    return _test(name, word, f"{verdict.verdict}: {verdict.why}")


def _schedule(found: Judged) -> str:
    late = f"{found.schedule.p99_s * 1e3:.1f} ms late at p99 in {found.schedule.arm}"
    return _test("schedule kept", "" if found.schedule.kept else "error", late)


def _backend(found: Judged) -> str:
    worst = max(found.levels, key=lambda one: one.failing_share)
    word = "error" if worst.failing_share > FAILING_SHARE else ""
    return _test("backend answers", word, f"{worst.failing_share:.0%} of {worst.arm} failed")


def _crosstalk(found: Judged) -> str:
    leaks = len(found.canaries.leaks)
    return _test("no cross-talk", "failure" if leaks else "", f"{leaks} answers hold another request's mark")


def _test(name: str, word: str, message: str) -> str:
    inner = f"<{word} message={quoteattr(message)}/>" if word else ""
    return f'  <testcase classname="replay" name={quoteattr(name)}>{inner}</testcase>\n'
