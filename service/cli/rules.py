"""`specguard rules`: check, show, compare and describe rule sets."""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from cyclopts import App

from service.cli.exits import DONE, FOUND
from service.cli.options import JsonFlag, print_json, print_line

if TYPE_CHECKING:
    from service.config.rules import RuleSet

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
        print_json({"name": rules.name, "digest": rules.digest, **numbers(rules)})
    else:
        print_line(rules.source.read_text().rstrip())
    return DONE


@app.command
def diff(before: str, after: str, /, *, json_output: JsonFlag = False) -> int:
    """Compare two rule sets, number by number; what is not said is the same.

    Example: specguard rules diff default rules/sets/mine.yaml

    Exit codes: 0 the same, 1 different, 2 one of them is not valid.

    Parameters
    ----------
    before
        A file, or a packaged set's name.
    after
        The same, to compare it with.
    """
    from service.config import load_rules

    old, new = flat(numbers(load_rules(before))), flat(numbers(load_rules(after)))
    changed = {
        key: (old.get(key), new.get(key)) for key in sorted({*old, *new}) if old.get(key) != new.get(key)
    }
    if json_output:
        rows = [{"key": key, "before": was, "after": now} for key, (was, now) in changed.items()]
        print_json({"same": not rows, "changes": rows})
    elif changed:
        print_line("\n".join(f"{key}: {_said(was)} -> {_said(now)}" for key, (was, now) in changed.items()))
    return FOUND if changed else DONE


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


def numbers(rules: "RuleSet") -> dict[str, Any]:
    """Every number of a set, by detector."""
    found = {detector.name: parameters(detector) for detector in rules.detectors}
    return {"detectors": found, "fusion": parameters(rules.fusion)}


def flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """The same by dotted keys."""
    rows: dict[str, Any] = {}
    for key, value in values.items():
        rows |= flat(value, f"{above}{key}.") if isinstance(value, Mapping) else {above + key: value}
    return rows


def _said(value: object) -> str:
    return "absent" if value is None else str(value)


def parameters(rule: Any) -> dict[str, Any]:  # noqa: ANN401 - any frozen dataclass of the core
    """Its fields as JSON can say them."""
    values = {field.name: getattr(rule, field.name) for field in fields(rule)}
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in values.items()}
