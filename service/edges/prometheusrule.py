"""`alerts.yaml` as the Prometheus operator's resource.

    python -m service.edges.prometheusrule alerts.yaml docker/k8s/beside/prometheusrule.yaml

The text is the same, comments included, one step further in; a test keeps the file fresh. The labels are what
an operator's `ruleSelector` looks for: without the right one the rules are never loaded, and nothing says so.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

HEAD: Final = """\
# Rendered from alerts.yaml by `python -m service.edges.prometheusrule`; edit that file.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: specguard
  labels:
    release: prometheus # FILL IN: what your operator's ruleSelector asks for
spec:
"""


def rendered(rules: str) -> str:
    """The resource; `rules` is the whole of alerts.yaml."""
    body = rules[rules.index("groups:") :]
    return HEAD + "".join(f"  {line}" if line.strip() else line for line in body.splitlines(keepends=True))


def main(arguments: Sequence[str]) -> int:
    """Write it."""
    rules, out = map(Path, arguments)
    out.write_text(rendered(rules.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
