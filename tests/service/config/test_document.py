"""The page of settings is what the models say."""

from pathlib import Path

from service.config.document import page
from service.config.routes import RouteSettings
from service.config.settings import Limits, Settings

ROOT = Path(__file__).parents[3]


def test_the_page_in_the_tree_is_fresh() -> None:
    stands = (ROOT / "service/config/SETTINGS.md").read_text()
    assert stands == page(), "write it anew: python -m service.config.document > service/config/SETTINGS.md"


def test_every_setting_is_on_the_page_and_explained() -> None:
    text = page()
    for model in (Settings, Limits, RouteSettings):
        for name, field in model.model_fields.items():
            assert f"| `{name}` |" in text
            assert field.description, name


def test_a_routes_knob_shows_the_cores_own_number() -> None:
    assert "| `window_tokens` | number | `48` |" in page()
