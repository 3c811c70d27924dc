"""The configuration: settings and rule sets, parsed once into frozen typed objects.

    problem.py    what cannot stand, one line each: source, key path, got, expected
    text.py       YAML without its surprises
    routes.py     which policy a request gets
    settings.py   everything `specguard serve` can be told
    layers.py     command line over environment over file
    blueprint.py  from a core dataclass to a model that checks its parameters
    rules.py      rule sets: from rules/sets/*.yaml to detectors

Imports from service.core only. Nothing below this floor reads the environment or YAML.
"""

from service.config.layers import load_settings
from service.config.problem import ConfigProblem
from service.config.routes import RouteTable
from service.config.rules import RuleSet, load_rules
from service.config.settings import Settings

__all__ = ["ConfigProblem", "RouteTable", "RuleSet", "Settings", "load_rules", "load_settings"]
