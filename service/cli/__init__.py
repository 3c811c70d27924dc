"""The command `specguard`: one file a group of commands; what a command needs is imported when it runs.

Exit codes: 0 done, 1 done and something was found (or the service failed), 2 bad input or configuration,
130 ended by Ctrl-C. Bad input is told in one line a mistake on stderr, never in a traceback.
"""

import sys
from collections.abc import Sequence
from importlib.metadata import version

from cyclopts import App, CycloptsError, Parameter

from service.cli import cases, grafana, incidents, lab, replay, rules
from service.cli.calibrate import calibrate
from service.cli.demo import demo
from service.cli.doctor import doctor
from service.cli.exits import BAD_INPUT, DONE, INTERRUPTED, Unfit
from service.cli.inspect import inspect
from service.cli.serve import serve
from service.config.problem import ConfigProblem

HELP = """Keep corrupted speculative-decoding output of SGLang from reaching clients.

Example: specguard serve --router http://127.0.0.1:30000 --policy protect

Exit codes: 0 done, 1 something was found or the service failed, 2 bad input, 130 Ctrl-C.
"""


def _version() -> str:
    return f"specguard {version('specguard')}"


# No option of ours is undone by another: `--no-NAME` and `--empty-NAME` would only fill the help.
PLAIN = Parameter(negative=())
app = App(
    name="specguard",
    help=HELP,
    version=_version,
    default_parameter=PLAIN,
    suppress_keyboard_interrupt=False,
)
app.command(serve)
app.command(inspect)
app.command(calibrate)
app.command(doctor)
app.command(incidents.app)
app.command(cases.app)
app.command(rules.app)
app.command(grafana.app)
app.command(demo)
app.command(lab.app)
app.command(replay.app)


def run(tokens: Sequence[str]) -> int:
    """Run one command line; the answer is the exit code."""
    try:
        code = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # `| head` has seen enough
        sys.stderr.close()
        return DONE
    except Unfit as unfit:
        return _told(unfit, unfit.code)
    except (ConfigProblem, CycloptsError) as wrong:
        return _told(wrong, BAD_INPUT)
    return code if isinstance(code, int) else DONE


def _told(wrong: Exception, code: int) -> int:
    sys.stderr.writelines(f"specguard: {line}\n" for line in str(wrong).splitlines() if line.strip())
    return code
