"""`specguard replay`: from a bad case to a proven cause. One file a command, `service/cli/replay_*.py`."""

from cyclopts import App

from service.cli.replay_import import import_
from service.cli.replay_size import size

HELP = """Put recorded traffic under load, count what goes wrong, and say whether it is the load.

Example: specguard replay size --low 0 --high 4 --requests 10000
"""

app = App(name="replay", help=HELP)
app.command(import_, name="import")
app.command(size)
