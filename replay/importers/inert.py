"""Reading a pickle without running any of it.

A pickle is a program: it names functions and has them called. Here no name is ever looked up. A name of
SGLang's own classes, or of the few containers below, becomes a shell that keeps what is put into it and does
nothing; any other name refuses the file, and the message says which it was. Persistent ids and buffers are
refused; values are counted while they are unfolded, so that a small file cannot grow without end. Nor can it
while it is loaded: ten bytes may ask for a table of gigabytes, so the process's memory is bounded for that
time by what a file of that size can honestly need.
"""

import os
import pickle
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, Self

PACKAGE: Final = "sglang."
PLAIN: Final = frozenset(
    {
        ("builtins", "set"), ("builtins", "frozenset"), ("builtins", "dict"), ("builtins", "list"),
        ("collections", "OrderedDict"), ("collections", "deque"), ("collections", "defaultdict"),
        ("array", "array"), ("array", "_array_reconstructor"),
    }
)  # fmt: skip
VALUES_MAX: Final = 50_000_000
"""A thousand requests of 50,000 token ids each."""
DEPTH_MAX: Final = 64
BASE_BYTES: Final = 512 * 1024 * 1024
BYTES_A_BYTE: Final = 40
"""A token id of two bytes in a file is an object of 28 and its place in a list of 8."""


class Refused(ValueError):  # noqa: N818 - what happened to the file
    """A pickle that is not read, and why."""


class Shell:
    """Stands for an object of a class that is never imported."""

    of = ""

    def __new__(cls, *args: Any, **_named: Any) -> Self:  # noqa: ANN401 - anything at all
        made = super().__new__(cls)
        made.args = args
        made.fields = {}
        made.items = []
        return made

    args: tuple[Any, ...]
    fields: dict[str, Any]
    items: list[Any]

    def __setstate__(self, state: Any) -> None:  # noqa: ANN401 - anything at all
        parts = state if isinstance(state, tuple) else (state,)
        for part in parts:
            if isinstance(part, dict):
                self.fields.update((str(key), value) for key, value in part.items())

    def append(self, value: Any) -> None:  # noqa: ANN401 - anything at all
        self.items.append(value)

    def extend(self, values: Any) -> None:  # noqa: ANN401 - anything at all
        self.items.extend(values)

    add = append

    def __setitem__(self, key: Any, value: Any) -> None:  # noqa: ANN401 - anything at all
        self.fields[str(key)] = value

    def __hash__(self) -> int:
        return id(self)


class _Unpickler(pickle.Unpickler):
    """Looks nothing up."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self._shells: dict[tuple[str, str], type[Shell]] = {}

    def find_class(self, module_name: str, global_name: str) -> Any:  # noqa: ANN401 - pickle's own signature
        name = module_name, global_name
        if not module_name.startswith(PACKAGE) and name not in PLAIN:
            raise Refused(f"it wants {module_name}.{global_name}, which no dump of SGLang's needs")
        if name not in self._shells:
            self._shells[name] = type(global_name.rpartition(".")[2], (Shell,), {"of": ".".join(name)})
        return self._shells[name]

    def persistent_load(self, pid: Any) -> Any:  # noqa: ANN401 - pickle's own signature
        raise Refused("it refers to objects outside of the file")


def load(file: IO[bytes]) -> Any:  # noqa: ANN401 - whatever the file holds
    """The first value of a pickle, of shells and plain values; raises Refused."""
    try:
        with _bounded(BASE_BYTES + BYTES_A_BYTE * _size(file)):
            return _Unpickler(file).load()
    except Refused:
        raise
    except MemoryError:
        raise Refused("it asks for more memory than any dump of its size needs") from None
    except (pickle.UnpicklingError, EOFError):
        raise Refused("it is cut off, or no pickle") from None
    except Exception as error:  # noqa: BLE001 - a hostile file may raise anything at all
        raise Refused(f"it does not load: {type(error).__name__}") from None


def _size(file: IO[bytes]) -> int:
    at = file.tell()
    size = file.seek(0, os.SEEK_END)
    file.seek(at)
    return size


@contextmanager
def _bounded(more_bytes: int) -> Iterator[None]:
    """Let the process grow by so much and no more; where the kernel does not say how large it is, freely."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        yield
        return
    limit = pages * resource.getpagesize() + more_bytes
    known = [one for one in (soft, hard, limit) if one != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(known), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def plain(value: Any, values_max: int = VALUES_MAX) -> Any:  # noqa: ANN401 - anything at all
    """The same value as JSON knows it: shells by their fields, what JSON cannot say as None."""
    return _plain(value, 0, iter(range(values_max)))


def _plain(value: Any, depth: int, budget: Iterator[int]) -> Any:  # noqa: ANN401 - anything at all
    if next(budget, None) is None or depth > DEPTH_MAX:
        raise Refused("it holds more values, or deeper ones, than any dump does")
    if isinstance(value, str):
        return (
            value if value.isascii() else value.encode("utf-8", "replace").decode()
        )  # half of a pair is no text
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Shell):
        value = value.fields or value.items or (value.args[0] if value.args else None)
        return _plain(value, depth + 1, budget)
    if isinstance(value, dict):
        return {str(key): _plain(one, depth + 1, budget) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one, depth + 1, budget) for one in value]
    return None
