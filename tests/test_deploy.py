"""What cannot be run here is held to what can be read: images pinned, nobody root, ports that exist."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from replay.lab.router import DEFAULT_BINARY
from service.cli import run
from service.config.layers import load_settings
from service.config.settings import Settings
from service.probe.settings import from_environment

ROOT: Final = Path(__file__).parent.parent
DOCKER: Final = ROOT / "docker"
COMPOSE: Final[dict[str, Any]] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES: Final[dict[str, Any]] = COMPOSE["services"]
GPU: Final[dict[str, Any]] = yaml.safe_load((DOCKER / "compose.gpu.yaml").read_text())
GPU_SERVICES: Final[dict[str, Any]] = GPU["services"]
ENGINES: Final = ("prefill-0", "decode-0", "decode-1")
SERVER_ARGS: Final = set(json.loads((ROOT / "tests/fixtures/lab/sgl-server-info-keys.json").read_text()))
BASE, BESIDE = DOCKER / "k8s" / "base", DOCKER / "k8s" / "beside"
SIDECAR: Final[dict[str, Any]] = yaml.safe_load((BESIDE / "sidecar.yaml").read_text())
GATEWAY, SERVICE, BUDGET = yaml.safe_load_all((BASE / "gateway.yaml").read_text())
SMG: Final[dict[str, Any]] = GATEWAY["spec"]["template"]["spec"]["containers"][0]
CONTAINER: Final[dict[str, Any]] = SIDECAR["spec"]["template"]["spec"]["initContainers"][0]
MANIFESTS: Final = sorted([*BASE.glob("*.yaml"), *BESIDE.glob("*.yaml")])


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
    for made in yaml.safe_load_all(path.read_text()):
        assert made["apiVersion"]
        assert made["kind"]
        assert path.name == "kustomization.yaml" or made["metadata"]["name"]


@pytest.mark.parametrize("folder", [BASE, BESIDE], ids=lambda path: path.name)
def test_a_kustomization_takes_every_manifest_of_its_folder(folder: Path) -> None:
    made = yaml.safe_load((folder / "kustomization.yaml").read_text())
    taken = {*made["resources"], *(patch["path"] for patch in made.get("patches", ()))}
    assert taken == {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}


def test_the_gateway_of_the_base_is_one_that_the_component_stands_beside() -> None:
    (patch,) = yaml.safe_load((BESIDE / "kustomization.yaml").read_text())["patches"]
    name, _, value = patch["target"]["labelSelector"].partition("=")
    assert (patch["target"]["kind"], patch["path"]) == (GATEWAY["kind"], "sidecar.yaml")
    assert GATEWAY["metadata"]["labels"][name] == value
    assert yaml.safe_load((BASE / "kustomization.yaml").read_text())["components"] == ["../beside"]


def test_clients_reach_the_gateway_through_the_guard_alone() -> None:
    (port,) = SERVICE["spec"]["ports"]
    assert (
        port["targetPort"]
        == next(one for one in CONTAINER["ports"] if one["name"] == "guarded")["containerPort"]
    )
    labels = GATEWAY["spec"]["template"]["metadata"]["labels"]
    for selector in (
        SERVICE["spec"]["selector"],
        *(one["spec"]["selector"]["matchLabels"] for one in (GATEWAY, BUDGET)),
    ):
        assert selector.items() <= labels.items()
    host, port_of_smg = (SMG["args"][SMG["args"].index(option) + 1] for option in ("--host", "--port"))
    assert host == "127.0.0.1"
    assert f"http://{host}:{port_of_smg}" in CONTAINER["args"]


@pytest.mark.e2e
@pytest.mark.parametrize(
    "words",
    [SMG["args"], shlex.split(SERVICES["router"]["command"]), shlex.split(GPU_SERVICES["router"]["command"])],
)
def test_the_router_is_started_with_options_that_it_has(words: list[str]) -> None:
    asked = [str(DEFAULT_BINARY), words[0], "--help"]
    known = subprocess.run(asked, capture_output=True, text=True, timeout=50, check=True).stdout
    assert words[0] == "launch"
    assert {word for word in words if word.startswith("--")} <= set(re.findall(r"--[a-z][a-z-]+", known))


def test_the_monitor_and_the_policy_find_the_sidecars_pods() -> None:
    labels = SIDECAR["spec"]["template"]["metadata"]["labels"]
    monitor = yaml.safe_load((BESIDE / "podmonitor.yaml").read_text())["spec"]
    policy = yaml.safe_load((BESIDE / "networkpolicy.yaml").read_text())["spec"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    ports = (*CONTAINER["ports"], *SMG["ports"])
    scraped = {point["port"] for point in monitor["podMetricsEndpoints"]}
    assert scraped == {"admin", "smg-metrics"} <= {port["name"] for port in ports}
    admitted = {port["port"] for rule in policy["ingress"] for port in rule["ports"]}
    assert {port["containerPort"] for port in ports} <= admitted


def words_of(engine: str) -> list[str]:
    """The command of an engine, its variables as compose would fill them."""
    filled = re.sub(r"\$\{(\w+)(?::[-?]([^}]*))?\}", r"\2", GPU_SERVICES[engine]["command"])
    return shlex.split(filled.replace("name the model", "M").replace("name its draft", "D"))


def value_of(engine: str, option: str) -> str:
    words = words_of(engine)
    return words[words.index(option) + 1]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_is_started_with_options_that_this_release_has(engine: str) -> None:
    options = {word for word in words_of(engine) if word.startswith("--")}
    assert {option.removeprefix("--").replace("-", "_") for option in options} <= SERVER_ARGS
    assert {"--enable-metrics", "--enable-cache-report"} <= options
    assert GPU_SERVICES[engine]["image"].endswith(":0.5.23")


def test_only_prefill_keeps_prefixes_in_host_memory() -> None:
    spilling = [engine for engine in ENGINES if "--enable-hierarchical-cache" in words_of(engine)]
    assert spilling == ["prefill-0"]


@pytest.mark.parametrize("engine", ENGINES)
def test_both_sides_of_a_pair_draft_and_transfer_alike(engine: str) -> None:
    for option in (
        "--disaggregation-transfer-backend",
        "--speculative-algorithm",
        "--speculative-num-steps",
        "--speculative-num-draft-tokens",
    ):
        assert value_of(engine, option) == value_of("prefill-0", option)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_probe_reaches_the_sidecar_under_the_name_that_the_router_uses(engine: str, tmp_path: Path) -> None:
    told = dict(GPU_SERVICES[engine]["environment"])
    url = f"http://{engine}:{value_of(engine, '--port')}"
    assert told["SPECGUARD_PROBE_NAME"] == url
    assert url in GPU_SERVICES["router"]["command"]
    host, _, port = told["SPECGUARD_PROBE"].removeprefix("udp:").rpartition(":")
    assert host in GPU_SERVICES["net"]["networks"]["default"]["aliases"]
    heard = load_settings(env=_environment(GPU_SERVICES["specguard"])).telemetry
    assert heard.udp is not None
    assert heard.udp.rpartition(":")[2] == port
    mounts = (*GPU_SERVICES[engine]["volumes"], *GPU_SERVICES["specguard"]["volumes"])
    for file in (told["SPECGUARD_PROBE_KEY_FILE"], heard.key_file):
        assert sum(mount.endswith(f":{file}:ro") for mount in mounts) == 2
    key = tmp_path / "probe.key"
    key.write_text("k" * 32)
    key.chmod(0o600)
    here = {"SPECGUARD_PROBE": f"udp:127.0.0.1:{port}", "SPECGUARD_PROBE_KEY_FILE": str(key)}
    assert from_environment(told | here) is not None


def _environment(service: dict[str, Any]) -> dict[str, str]:
    """The settings that a sidecar gets there, less what only the operator knows."""
    known = {name: str(value) for name, value in service["environment"].items() if "$" not in str(value)}
    return known | {"SPECGUARD_ROUTER": service["command"][service["command"].index("--router") + 1]}


def scraped(stack: dict[str, Any]) -> set[str]:
    """The engines that this stack's Prometheus is told of, by the file that it mounts where it looks."""
    jobs = yaml.safe_load((DOCKER / "prometheus" / "prometheus.yaml").read_text())["scrape_configs"]
    (place,) = next(job for job in jobs if job["job_name"] == "sglang")["file_sd_configs"][0]["files"]
    (source,) = (one.split(":")[0] for one in stack["prometheus"]["volumes"] if one.split(":")[1] == place)
    return {target for one in yaml.safe_load((DOCKER / source).read_text()) for target in one["targets"]}


def test_the_real_engines_are_scraped_where_they_listen() -> None:
    assert {f"{engine}:{value_of(engine, '--port')}" for engine in ENGINES} == scraped(GPU_SERVICES)


def test_the_lab_is_scraped_on_the_loopback_that_it_listens_on() -> None:
    words = SERVICES["lab"]["command"]
    base, *counts = (
        int(words[words.index(option) + 1]) for option in ("--port-base", "--prefill", "--decode")
    )
    assert {f"127.0.0.1:{base + at}" for at in range(sum(counts))} == scraped(SERVICES)
    assert SERVICES["prometheus"]["network_mode"] == SERVICES["lab"]["network_mode"]


@pytest.mark.parametrize("stack", [SERVICES, GPU_SERVICES], ids=["lab", "gpu"])
def test_who_shares_a_loopback_is_known_by_the_name_that_others_use(stack: dict[str, Any]) -> None:
    shared = {name for name, one in stack.items() if one.get("network_mode") == "service:net"}
    assert shared <= set(stack["net"]["networks"]["default"]["aliases"])
    assert not any("ports" in stack[name] or "networks" in stack[name] for name in shared)


@pytest.mark.parametrize("name", sorted(set(GPU_SERVICES) - set(ENGINES) - {"net"}))
def test_beside_real_engines_rights_are_as_few(name: str) -> None:
    service = GPU_SERVICES[name]
    if "extends" in service:
        assert service["extends"] == {"file": "compose.yaml", "service": name}
        service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


@pytest.mark.parametrize("name", sorted(name for name in GPU_SERVICES if "build" in GPU_SERVICES[name]))
def test_an_image_of_ours_is_built_from_what_is_there(name: str) -> None:
    build = GPU_SERVICES[name]["build"]
    lines = (DOCKER / build["context"] / build["dockerfile"]).read_text().splitlines()
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from" not in line]
    assert copied
    for path in (path for paths in copied for path in paths):
        assert (ROOT / path).exists()


def test_the_probes_wheel_is_built_as_the_sidecars() -> None:
    ours, theirs = ((DOCKER / name).read_text() for name in ("Dockerfile", "engine.Dockerfile"))
    copied = re.compile(r"^COPY (?!--from)(.+) \S+$", re.MULTILINE)
    assert copied.findall(theirs) == copied.findall(ours)
    assert "--no-deps /wheels/" in theirs


def test_it_is_said_that_it_was_never_run() -> None:
    assert "NEVER RUN BY ITS AUTHORS" in (DOCKER / "compose.gpu.yaml").read_text()
