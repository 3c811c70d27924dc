"""CPU time of a process, from the scheduler's own accounting: ns on a core, threads and children included.

/proc/PID/task/TID/schedstat counts to the nanosecond, where the ticks of /proc/PID/stat are 10 ms. A thread
that has ended takes its count along, so proxies are measured over spans in which theirs live on.
"""

import os
from pathlib import Path

PROC = Path("/proc")
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
IDLE_FIELDS = (3, 4)  # of the `cpu` line of /proc/stat: idle, and waiting for disks
GUEST_FIELD = 8  # from here on time that is counted before already


def busy_ns(pid: int) -> int:
    """CPU time so far of a process and of its children; 0 for one that is gone."""
    return sum(_tasks_ns(one) for one in (pid, *children(pid)))


def machine_busy_ns() -> int:
    """CPU time of everybody on this machine so far, all cores."""
    ticks = [int(field) for field in _read(PROC / "stat").partition("\n")[0].split()[1:]]
    return TICK_NS * sum(n for place, n in enumerate(ticks[:GUEST_FIELD]) if place not in IDLE_FIELDS)


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
