"""CPU time, from the scheduler's own count."""

import os
import subprocess
import sys
import threading
import time

from replay.bench.cpu import busy_ns, children, machine_busy_ns

SPIN = "import time\nend = time.process_time() + 0.05\nwhile time.process_time() < end: pass\ninput()"


def spin(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_it_counts_what_a_process_worked_and_not_what_it_waited() -> None:
    before = busy_ns(os.getpid())
    spin(0.05)
    worked = busy_ns(os.getpid()) - before
    time.sleep(0.05)
    waited = busy_ns(os.getpid()) - before - worked
    assert 0.04e9 < worked < 2e9
    assert waited < worked


def test_threads_count() -> None:
    before, go = busy_ns(os.getpid()), threading.Event()

    def work() -> None:
        spin(0.05)
        go.wait()

    thread = threading.Thread(target=work)
    thread.start()
    while busy_ns(os.getpid()) - before < 0.04e9:
        time.sleep(0.02)
    go.set()
    thread.join()


def test_the_machine_works_at_least_as_much_as_we_do() -> None:
    before = machine_busy_ns()
    spin(0.2)
    assert machine_busy_ns() - before > 0.1e9


def test_children_count() -> None:
    with subprocess.Popen([sys.executable, "-c", SPIN], stdin=subprocess.PIPE) as child:
        while busy_ns(child.pid) < 0.05e9:
            time.sleep(0.02)
        assert child.pid in children(os.getpid())
        # Processes of earlier tests may still be going: what counts is that the whole holds its parts.
        total = busy_ns(os.getpid())
        assert total > sum(busy_ns(pid) for pid in children(os.getpid())) >= 0.04e9
        child.communicate(b"\n")


def test_a_process_that_is_gone_has_no_time() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    assert busy_ns(child.pid) == 0
