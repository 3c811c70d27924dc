"""Pickles, read without running any of them."""

import io
import json
import os
import pickle
import resource
from collections import OrderedDict, deque
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.importers.inert import Refused, Shell, load, plain

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


class Hostile:
    """Its pickle has a command run where it is loaded."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (self.command,)


def _load(data: bytes) -> object:
    return load(io.BytesIO(data))


@given(value=values, protocol=st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_plain_values_come_back(value: object, protocol: int) -> None:
    assert plain(_load(pickle.dumps(value, protocol))) == value


def test_a_command_is_not_run_and_its_name_is_told(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    with pytest.raises(Refused, match=r"it wants posix\.system"):
        _load(pickle.dumps({"server_args": Hostile(f"touch {mark}")}))
    assert not mark.exists()


@pytest.mark.parametrize(
    "name", ["builtins eval", "builtins getattr", "importlib import_module", "subprocess Popen"]
)
def test_no_name_outside_sglang_is_looked_up(name: str) -> None:
    module, function = name.split()
    with pytest.raises(Refused, match=f"{module}.{function}"):
        _load(f"c{module}\n{function}\n(S'1'\ntR.".encode())


def test_a_class_of_sglang_is_a_shell_of_its_fields() -> None:
    name = b"csglang.srt.managers.io_struct\nGenerateReqInput\n"
    data = b"\x80\x04" + name + b")\x81}(\x8c\x03rid\x8c\x01a\x8c\x01n\x4b\x05ub."
    made = _load(data)
    assert isinstance(made, Shell)
    assert made.of == "sglang.srt.managers.io_struct.GenerateReqInput"
    assert plain(made) == {"rid": "a", "n": 5}


def test_containers_come_back_as_json_knows_them() -> None:
    value = (deque([1, 2]), OrderedDict(a=1), {3})
    assert plain(_load(pickle.dumps(value))) == [[1, 2], {"a": 1}, [3]]


@pytest.mark.parametrize(
    "data", [b"", b"\x80\x04", b"nonsense", pickle.dumps([1] * 50)[:-20], b"\x80\x04P1\n."]
)
def test_what_is_no_whole_pickle_is_refused(data: bytes) -> None:
    with pytest.raises(Refused):
        _load(data)


def test_a_small_file_cannot_grow_without_end() -> None:
    bomb: list[Any] = [1]
    for _ in range(40):
        bomb = [bomb] * 8
    with pytest.raises(Refused, match="more values, or deeper ones"):
        plain(_load(pickle.dumps(deep())))
    with pytest.raises(Refused, match="more values, or deeper ones"):
        plain(_load(pickle.dumps(bomb)), values_max=100_000)


def test_ten_bytes_do_not_get_gigabytes() -> None:
    place = 0x7FFF_FFFF  # where to remember a value: the table grows to twice that
    with pytest.raises(Refused, match="more memory than any dump"):
        _load(b"\x80\x02]r" + place.to_bytes(4, "little") + b".")
    assert plain(_load(pickle.dumps([1]))) == [1]


def test_what_a_process_may_take_is_as_before() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    with suppress(Refused):
        _load(b"nonsense")
    _load(pickle.dumps([1]))
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def deep() -> list[Any]:
    """A hundred lists within each other."""
    made: list[Any] = []
    for _ in range(100):
        made = [made]
    return made


@given(data=st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_refusal(data: bytes) -> None:
    with suppress(Refused):
        json.dumps(plain(_load(b"\x80\x04" + data)))
