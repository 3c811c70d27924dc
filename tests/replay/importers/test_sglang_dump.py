"""SGLang's dumps."""

import pickle
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from replay.importers import SourceError
from tests.replay.importers.conftest import Importing
from tests.replay.importers.test_inert import Hostile

OUT = {"text": "bye", "meta_info": {"id": "r1", "prompt_tokens": 2, "completion_tokens": 3}}


def _dump(requests: Callable[[type], object]) -> bytes:
    """A pickle of objects whose class says it is SGLang's."""
    module = types.ModuleType("sglang.srt.managers.io_struct")
    made = type("GenerateReqInput", (), {"__module__": module.__name__})
    module.GenerateReqInput = made  # type: ignore[attr-defined]
    parents = {name: types.ModuleType(name) for name in ("sglang", "sglang.srt", "sglang.srt.managers")}
    sys.modules |= {**parents, module.__name__: module}
    try:
        return pickle.dumps(requests(made))
    finally:
        for name in (*parents, module.__name__):
            del sys.modules[name]


def _asked(made: type, **fields: object) -> object:
    asked = made()
    asked.__dict__.update({"rid": "r1", "text": "hello", "sampling_params": {"max_new_tokens": 4}} | fields)
    return asked


def test_a_dump_is_read_without_sglang_and_without_its_arguments(importing: Importing) -> None:
    data = _dump(
        lambda made: {
            "server_args": {"api_key": "secret"},
            "requests": [
                (_asked(made), OUT, 100.0, 103.0),
                (_asked(made, rid="r2", bootstrap_room=5), OUT, 101.5, 104.0),
            ],
        }
    )
    read = importing("sglang-dump", data)
    assert [(one.id, one.at_s, one.expected) for one in read.requests] == [
        ("r1", 0.0, "bye"),
        ("r2", 1.5, "bye"),
    ]
    assert read[0].body == {"text": "hello", "sampling_params": {"max_new_tokens": 4}}
    assert read.imported.dropped == {"server_args": 1, "bootstrap_room": 1}


def test_an_old_bare_list_and_a_crashs_unfinished_requests_are_read(importing: Importing) -> None:
    read = importing("sglang-dump", _dump(lambda made: [(_asked(made), {}, 100.0, 0.0)]))
    assert (read[0].id, read[0].expected) == ("r1", None)


def test_a_hostile_dump_is_refused_with_its_reason_and_nothing_runs(
    importing: Importing, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    with pytest.raises(SourceError, match=r"given: is refused: it wants posix\.system"):
        importing("sglang-dump", pickle.dumps({"requests": [], "server_args": Hostile(f"touch {mark}")}))
    assert not mark.exists()


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"requests": 5}, "holds no list of requests"),
        ([5], "request 1 is no"),
        ([({"rid": "a"}, {}, "x", 1.0)], "created must be a number"),
        ([(5, {}, 1.0, 1.0)], "request 1 says nothing of what was asked"),
        ([], "holds no request"),
    ],
)
def test_another_shape_is_named(value: object, says: str, importing: Importing) -> None:
    with pytest.raises(SourceError, match=says):
        importing("sglang-dump", pickle.dumps(value))
