"""SGLang's request dumps and crash dumps: pickles, read without running them (see `inert`).

    {"server_args": ..., "requests": [(GenerateReqInput, {"text", "meta_info"}, created_s, finished_s), ...]}

Older files are the bare list. Server arguments can hold keys and are not kept. A crash dump's unfinished
requests have no end and no answer.
"""

from collections.abc import Iterator
from typing import Any, Final

from replay.importers.inert import Refused, load, plain
from replay.importers.sglang_request import request_of
from replay.importers.source import WHOLE_BYTES_MAX, Source
from replay.trace import TraceRequest

PICKLE: Final = "\x80"
LEFT_OUT: Final = ("server_args", "config_updates", "resolved_config", "launch_command")
PARTS: Final = 3
"""The least a request is told by: what was asked, what came, when."""


def fits(head: str) -> bool:
    return head.startswith((PICKLE, "\ufffd"))


def read(source: Source) -> Iterator[TraceRequest]:
    source.tally.units["created"] = "s"
    for number, row in enumerate(_rows(source), 1):
        try:
            asked, out, came_s = plain(row[0]), plain(row[1]), source.number(row[2], "created", number)
        except (TypeError, IndexError, KeyError):
            raise source.fault(f"request {number} is no (input, output, created, finished)") from None
        except Refused as error:
            raise source.fault(f"request {number} is refused: {error}") from None
        if not isinstance(asked, dict):
            raise source.fault(f"request {number} says nothing of what was asked")
        out = out if isinstance(out, dict) else {}
        meta, text = out.get("meta_info"), out.get("text")
        request = request_of(
            source,
            asked,
            meta if isinstance(meta, dict) else {},
            came_s,
            text if isinstance(text, str) else None,
        )
        if request:
            yield request


def _rows(source: Source) -> list[Any]:
    if source.path.stat().st_size > WHOLE_BYTES_MAX:
        raise source.fault(f"is larger than {WHOLE_BYTES_MAX >> 20} MiB")
    try:
        with source.path.open("rb") as file:
            value = load(file)
    except Refused as error:
        raise source.fault(f"is refused: {error}") from None
    if isinstance(value, dict):
        source.drop({key for key in LEFT_OUT if value.get(key) is not None})
        value = value.get("requests")
    if not isinstance(value, list):
        raise source.fault("holds no list of requests")
    return value
