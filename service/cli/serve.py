"""`specguard serve`: the sidecar."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cyclopts import Parameter

from service.cli.exits import DONE, FOUND, Unfit


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Options:
    """Settings that can be given on the command line; left out, environment, file and defaults decide."""

    router: str | None = None
    """URL of the router that requests go to."""
    data_host: str | None = None
    """Address that clients connect to."""
    data_port: int | None = None
    """Port that clients connect to; 0 is any free one."""
    admin_host: str | None = None
    """Address of health, metrics and API; without a token it must be a loopback."""
    admin_port: int | None = None
    """Port of health, metrics and API; 0 is any free one."""
    policy: str | None = None
    """What to do about a verdict where no route says: observe, protect or strict."""
    store: str | None = None
    """Where incidents and cases are kept: sqlite+aiosqlite:///FILE."""
    capture: str | None = None
    """What cases keep of requests: off, hashes or full."""
    rules: str | None = None
    """A packaged rule set's name, or a file."""


def serve(*, options: Options = Options(), config: Path | None = None) -> int:
    """Guard the streams of one router.

    Example: specguard serve --router http://127.0.0.1:30000 --policy protect

    Settings come from these options, then SPECGUARD_* in the environment, then the file; an unknown key is an
    error. Logs are JSON on stderr. SIGTERM or Ctrl-C lets open streams end; a second one ends them.

    Exit codes: 0 after a signal, 1 when a port is taken, 2 for bad configuration.

    Parameters
    ----------
    options
        Settings.
    config
        YAML file with settings; SPECGUARD_CONFIG may name one instead.
    """
    named = os.environ.get("SPECGUARD_CONFIG")
    file = config or (Path(named) if named else None)
    return _serve(file, {key: value for key, value in asdict(options).items() if value is not None})


def _serve(file: Path | None, overrides: dict[str, Any]) -> int:
    import structlog

    from service.app import PortTakenError, run
    from service.config import load_rules, load_settings
    from service.edges.logs import configure

    settings = load_settings(file, overrides=overrides)
    rules = load_rules(settings.rules)
    configure(settings.log_level)
    log = structlog.get_logger("specguard")

    def started(data_port: int, admin_port: int) -> None:
        log.info(
            "listening",
            data=f"http://{settings.data_host}:{data_port}",
            admin=f"http://{settings.admin_host}:{admin_port}",
            router=settings.router,
            policy=settings.policy,
            rules=f"{rules.name}@{rules.digest}",
            settings=settings.digest(),
            pid=os.getpid(),
        )

    try:
        run(settings, rules, started)
    except PortTakenError as taken:
        raise Unfit(str(taken), FOUND) from None
    log.info("stopped", pid=os.getpid())
    return DONE
