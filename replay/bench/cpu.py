"""CPU time of a process, from the scheduler's own accounting: ns on a core, threads and children included.

/proc/PID/task/TID/schedstat counts to the nanosecond, where the ticks of /proc/PID/stat are 10 ms. A thread
that has ended takes its count along, so proxies are measured over spans in which theirs live on.
"""

from pathlib import Path

PROC = Path("/proc")


def busy_ns(pid: int) -> int:
    """CPU time so far of a process and of its children; 0 for one that is gone."""
    return sum(_tasks_ns(one) for one in (pid, *children(pid)))


def children(pid: int) -> list[int]:
    """All processes below this one."""
    found: list[int] = []
    for listed in PROC.glob(f"{pid}/task/*/children"):
        for child in map(int, _read(listed).split()):
            found += [child, *children(child)]
    return found


def _tasks_ns(pid: int) -> int:
    spent = (_read(stat).split() for stat in PROC.glob(f"{pid}/task/*/schedstat"))
    return sum(int(fields[0]) for fields in spent if fields)


def _read(path: Path) -> str:
    """A file of /proc, which may vanish under the reader."""
    try:
        return path.read_text()
    except OSError:
        return ""
