"""The probe: runs inside SGLang's scheduler and says, step by step, what each request accepted.

SGLang loads it through the entry point `specguard` of the group `sglang.srt.plugins`; no file of SGLang is
changed. It is off unless `SPECGUARD_PROBE` names where to send (see `settings`). Two ways out:

- one small integer a verify step in `meta_info.specguard_accepted` of `/generate` chunks;
- one datagram a scheduler step (see `wire`) to every configured sidecar, for every endpoint.

A plugin that raises, or returns a wrong type, takes the engine down. So it stands on the standard library
alone, reads a handful of attributes, makes its own output valid by construction, catches everything, and
stands aside for good at the first surprise. It says so once in the log and once to the sidecars.

Cost: see `python -m service.probe.bench`; the budget is 20 us a scheduler step with 64 requests.
"""

import logging
import os
from typing import Final

from service.probe import hooks
from service.probe.sender import Sender
from service.probe.settings import SettingsError, from_environment
from service.probe.taps import Taps

_log: Final = logging.getLogger("specguard.probe")


def plugin() -> None:
    """The entry point. Never raises: what goes wrong here is said and left."""
    try:
        settings = from_environment(os.environ)
        if settings is None or not hooks.schedules_here():
            return
        taps = Taps(settings, Sender.of(settings))
        reason = hooks.install(taps, hooks.find(), untested=settings.untested)
        if reason:
            taps.stand_aside(reason)
    except SettingsError as error:
        _log.warning("specguard probe: off: %s", error)
    except Exception as error:  # noqa: BLE001 - whatever it is, the engine must start
        _log.warning("specguard probe: off: %s", type(error).__name__)
