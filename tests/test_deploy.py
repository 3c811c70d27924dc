"""What cannot be run here is held to what can be read: images pinned, nobody root, ports that exist."""

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from service.cli import run
from service.config.settings import Settings

ROOT: Final = Path(__file__).parent.parent
DOCKER: Final = ROOT / "docker"
COMPOSE: Final[dict[str, Any]] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES: Final[dict[str, Any]] = COMPOSE["services"]
BASE: Final = DOCKER / "k8s" / "base"
SIDECAR: Final[dict[str, Any]] = yaml.safe_load((BASE / "sidecar.yaml").read_text())
CONTAINER: Final[dict[str, Any]] = SIDECAR["spec"]["template"]["spec"]["initContainers"][0]
MANIFESTS: Final = sorted(BASE.glob("*.yaml"))


@pytest.mark.parametrize("name", SERVICES)
def test_an_image_is_pinned_to_a_release(name: str) -> None:
    assert re.search(r":v?\d+\.\d", SERVICES[name]["image"])


@pytest.mark.parametrize("name", sorted(set(SERVICES) - {"net"}))
def test_a_container_has_no_more_rights_than_it_needs(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]


@pytest.mark.parametrize("name", SERVICES)
def test_nothing_is_published_beyond_the_loopback(name: str) -> None:
    for port in SERVICES[name].get("ports", ()):
        assert port.startswith("127.0.0.1:")


@pytest.mark.parametrize("name", SERVICES)
def test_what_is_mounted_or_built_from_is_there(name: str) -> None:
    for volume in SERVICES[name].get("volumes", ()):
        source = volume.partition(":")[0]
        if source.startswith("."):
            assert (DOCKER / source).exists()
        else:
            assert source in COMPOSE["volumes"]
    if build := SERVICES[name].get("build"):
        assert (DOCKER / build["context"] / build["dockerfile"]).is_file()


@pytest.mark.parametrize("arguments", [SERVICES["specguard"]["command"], CONTAINER["args"]])
def test_the_sidecar_is_started_with_options_that_it_has(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([arguments[0], "--help"]) == 0
    known = capsys.readouterr().out
    for option in (one for one in arguments if one.startswith("--")):
        assert option in known


def test_the_lab_is_started_with_options_that_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "serve", "--help"]) == 0
    known = capsys.readouterr().out
    for option in (one for one in SERVICES["lab"]["command"] if one.startswith("--")):
        assert option in known


def test_the_ports_of_the_sidecar_are_its_defaults() -> None:
    fields = Settings.model_fields
    named = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
    assert (named["guarded"], named["admin"]) == (fields["data_port"].default, fields["admin_port"].default)


def test_the_sidecar_starts_before_the_gateway_and_is_nobody() -> None:
    assert CONTAINER["restartPolicy"] == "Always"
    rights = CONTAINER["securityContext"]
    assert rights["runAsNonRoot"]
    assert rights["readOnlyRootFilesystem"]
    assert not rights["allowPrivilegeEscalation"]
    assert rights["capabilities"] == {"drop": ["ALL"]}


def test_a_router_that_is_down_does_not_restart_its_sidecar() -> None:
    assert CONTAINER["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert CONTAINER["readinessProbe"]["httpGet"]["path"] == "/readyz"


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_a_manifest_is_one_named_resource(path: Path) -> None:
    made = yaml.safe_load(path.read_text())
    assert made["apiVersion"]
    assert made["kind"]
    assert path.name == "kustomization.yaml" or made["metadata"]["name"]


def test_the_kustomization_takes_every_manifest() -> None:
    taken = yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]
    assert set(taken) == {path.name for path in MANIFESTS} - {"kustomization.yaml"}


def test_the_monitor_and_the_policy_find_the_sidecars_pods() -> None:
    labels = SIDECAR["spec"]["template"]["metadata"]["labels"]
    monitor = yaml.safe_load((BASE / "podmonitor.yaml").read_text())["spec"]
    policy = yaml.safe_load((BASE / "networkpolicy.yaml").read_text())["spec"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert monitor["podMetricsEndpoints"][0]["port"] in {port["name"] for port in CONTAINER["ports"]}
    admitted = {port["port"] for rule in policy["ingress"] for port in rule["ports"]}
    assert {port["containerPort"] for port in CONTAINER["ports"]} <= admitted
