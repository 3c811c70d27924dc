"""`specguard replay`: from a bad case to a proven cause. One file a command, `service/cli/replay_*.py`."""

from cyclopts import App

from service.cli.replay_bisect import bisect
from service.cli.replay_case import case, watch
from service.cli.replay_demo import demo
from service.cli.replay_desensitise import desensitise
from service.cli.replay_gpu_check import gpu_check
from service.cli.replay_import import import_
from service.cli.replay_judge import judge
from service.cli.replay_plan import plan
from service.cli.replay_ray import ray
from service.cli.replay_report import report
from service.cli.replay_run import merge, run, worker
from service.cli.replay_size import size

HELP = """Put recorded traffic under load, count what goes wrong, and say whether it is the load.

Example: specguard replay plan traffic.trace --out peak.plan --arm idle=1 --arm peak=4
"""

app = App(name="replay", help=HELP)
app.command(bisect)
app.command(case)
app.command(demo)
app.command(desensitise)
app.command(gpu_check)
app.command(import_, name="import")
app.command(judge)
app.command(merge)
app.command(plan)
app.command(ray)
app.command(report)
app.command(run)
app.command(size)
app.command(watch)
app.command(worker)
