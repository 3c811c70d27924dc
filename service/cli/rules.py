"""`specguard rules`: check, show and describe rule sets."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from cyclopts import App

from service.cli.exits import DONE
from service.cli.options import JsonFlag, print_json, print_line

app = App(name="rules", help="Rule sets: which detectors run, with which numbers.")


@app.command
def check(file: str = "default", *, json_output: JsonFlag = False) -> int:
    """Validate a rule set against the detectors of this version.

    Example: specguard rules check rules/sets/mine.yaml

    Exit codes: 0 valid, 2 not; each mistake is one line with file, key, expected and got.

    Parameters
    ----------
    file
        A file, or a packaged set's name.
    """
    from service.config import load_rules

    rules = load_rules(file)
    names = [detector.name for detector in rules.detectors]
    if json_output:
        print_json({"valid": True, "name": rules.name, "digest": rules.digest, "detectors": names})
    else:
        print_line(f"{rules.source}: valid; {rules.name}@{rules.digest} runs {', '.join(names)}")
    return DONE


@app.command
def show(file: str = "default", *, json_output: JsonFlag = False) -> int:
    """Show a rule set: every detector with its numbers.

    Example: specguard rules show default

    Parameters
    ----------
    file
        A file, or a packaged set's name.
    """
    from service.config import load_rules

    rules = load_rules(file)
    if json_output:
        numbers = {detector.name: parameters(detector) for detector in rules.detectors}
        print_json(
            {
                "name": rules.name,
                "digest": rules.digest,
                "detectors": numbers,
                "fusion": parameters(rules.fusion),
            }
        )
    else:
        print_line(rules.source.read_text().rstrip())
    return DONE


@app.command(name="list")
def list_sets(*, json_output: JsonFlag = False) -> int:
    """List the rule sets that ship with this version.

    Example: specguard rules list
    """
    from service.config.rules import packaged_sets

    found = {name: str(path) for name, path in packaged_sets().items()}
    if json_output:
        print_json(found)
    else:
        print_line("\n".join(f"{name}\t{path}" for name, path in found.items()))
    return DONE


@app.command
def schema() -> int:
    """Print the JSON schema of rule sets, for editors and linters.

    Example: specguard rules schema > rules/schema.json
    """
    from service.config.rules import rules_schema

    print_json(rules_schema())
    return DONE


def parameters(rule: Any) -> dict[str, Any]:  # noqa: ANN401 - any frozen dataclass of the core
    """Its fields as JSON can say them."""
    values = {field.name: getattr(rule, field.name) for field in fields(rule)}
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in values.items()}
