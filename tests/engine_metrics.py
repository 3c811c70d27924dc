"""What the real engine exposes, read off its captured pages."""

import re
from pathlib import Path
from typing import Final

PAGES: Final = (Path(__file__).parent / "fixtures" / "telemetry").glob("*-metrics.txt")
ENGINE: Final = set(
    re.findall(r"^# TYPE sglang:(\w+)", "".join(page.read_text() for page in PAGES), re.MULTILINE)
)
"""Names, prefix aside."""
