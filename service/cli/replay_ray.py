"""`specguard replay ray`: a plan carried out by a Ray cluster that is already there."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from service.cli.exits import NOT_ALLOWED, Unfit
from service.cli.options import print_line
from service.cli.replay_run import AS_WISHED, RunWishes, exit_code, lines_of

if TYPE_CHECKING:
    from replay.launch_ray import Cluster
    from replay.runner import Options


def ray(
    plan: Path,
    *,
    shards: Annotated[int, Parameter(validator=Number(gte=1))],
    target: str,
    out: Path,
    address: str = "auto",
    wishes: RunWishes = AS_WISHED,
) -> int:
    """Send a plan from the nodes of a Ray cluster, a shard a task, and merge what comes back.

    Example: specguard replay ray peak.plan --shards 8 --target http://router:30000 --allow router
    --out peak.results

    Needs the extra: pip install 'specguard[ray]', here and on every node. Exit codes: as of `specguard replay
    run`, the worst of all shards.

    Parameters
    ----------
    plan
        What `specguard replay plan` wrote.
    shards
        How many tasks share the plan; each takes one CPU.
    target
        Base URL of SpecGuard, a router, an engine or the lab, as the nodes reach it.
    out
        Where the merged results go.
    address
        Of the cluster; auto finds the one this machine belongs to.
    """
    from replay.launch_ray import RayCluster

    return launched(plan, out, wishes.options(target, None), shards, RayCluster(address))


def launched(plan: Path, out: Path, options: "Options", shards: int, cluster: "Cluster") -> int:
    """Launch, tell of each shard, and end as the worst of them."""
    from replay.control import ControlError
    from replay.launch_ray import LaunchError, launch
    from replay.plan import PlanError
    from replay.results import ResultsError
    from replay.target import NotAllowedError, TargetError

    try:
        header, summaries = launch(plan, out, options, shards, cluster)
    except NotAllowedError as error:
        raise Unfit(f"ray: {error}", NOT_ALLOWED) from None
    except (LaunchError, PlanError, ResultsError, TargetError, ControlError) as error:
        raise Unfit(f"ray: {error}") from None
    except OSError as error:
        raise Unfit(f"ray: {error.filename}: {error.strerror}") from None
    for number, summary in enumerate(summaries):
        for line in lines_of(summary, Path(f"shard {number}/{shards}")):
            print_line(line)
    print_line(f"{out}: {shards} shards of plan {header.plan_hash[:12]}")
    return max(map(exit_code, summaries))
