"""Ctrl-C is answered from the first moment on, and never with a traceback."""

import signal
import subprocess
import sys

from service.__main__ import INTERRUPTED
from service.cli import exits

PRESSED_DURING_IMPORT = """
import os, signal, sys
from service.__main__ import main

class Impatient:
    def find_spec(self, name, path=None, target=None):
        if name == "service.cli.{module}":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Impatient())
main()
"""


def python(*arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=50
    )
    return done.returncode, done.stdout, done.stderr


def test_ctrl_c_while_the_command_is_imported_ends_it_quietly() -> None:
    assert python("-c", PRESSED_DURING_IMPORT.format(module="exits")) == (INTERRUPTED, "", "")


def test_what_is_imported_is_the_command() -> None:
    code, said, wrong = python("-m", "service", "--version")
    assert (code, said.split()[0], wrong) == (exits.DONE, "specguard", "")


def test_a_mistake_is_still_told_by_the_command() -> None:
    code, _, wrong = python("-m", "service", "servee")
    assert code == exits.BAD_INPUT
    assert wrong.startswith("specguard: ")


def test_the_code_is_that_of_the_commands_and_of_shells() -> None:
    assert INTERRUPTED == exits.INTERRUPTED == 128 + signal.SIGINT
