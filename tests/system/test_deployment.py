"""The files of deploy/ work: they parse, the files that they name exist, and the gateway accepts their settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from config.loading import load_settings
from config.source.discover import LoadRequest
from gateway.cli.app import run_app

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
MANIFESTS = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")))
KEYS = {
    "build", "image", "restart", "environment", "secrets", "depends_on", "volumes", "healthcheck",
    "command", "configs", "hostname",
}  # fmt: skip


def of_kind(kind):
    return [one for one in MANIFESTS if one["kind"] == kind]


def pods():
    return [
        one["spec"]["template"]["spec"] for one in MANIFESTS if "template" in one.get("spec", {})
    ]


SETTINGS = {
    "compose, gateway": (DEPLOY / "gateway.json").read_text(encoding="utf-8"),
    "compose, migrate": (DEPLOY / "migrate.json").read_text(encoding="utf-8"),
    **{f"kubernetes, {name}": text for name, text in of_kind("ConfigMap")[0]["data"].items()},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_gateway_takes_the_settings_without_a_word(name, tmp_path):
    file = tmp_path / "openclaw.json"
    file.write_text(SETTINGS[name], encoding="utf-8")
    request = LoadRequest(
        environment={"HOME": str(tmp_path)}, cwd=tmp_path, config_path=str(file),
        state_dir=str(tmp_path / "state"), workspace=str(tmp_path),
    )  # fmt: skip
    settings = load_settings(request)
    assert settings.warnings == ()
    store = settings.search.store
    assert (store.driver, store.password_file is not None) == ("postgres", True)
    role = re.search(r"//(\w+)@postgres/memory", SETTINGS[name])
    assert role[1] == ("postgres" if "migrate" in name else "gateway")


def test_compose_names_only_what_it_has():
    assert set(COMPOSE) == {"name", "x-gateway", "services", "configs", "secrets", "volumes"}
    services = COMPOSE["services"]
    assert list(services) == ["postgres", "migrate", "gateway-a", "gateway-b"]
    for service in services.values():
        assert service.keys() <= KEYS
        assert {one["source"] for one in service.get("configs", ())} <= COMPOSE["configs"].keys()
        assert set(service["secrets"]) <= COMPOSE["secrets"].keys()
        assert set(service.get("depends_on", ())) <= services.keys()
        for volume in service.get("volumes", ()):
            origin = volume.split(":")[0]
            assert origin in COMPOSE["volumes"] or (DEPLOY / origin).is_file()
    assert all((DEPLOY / one["file"]).is_file() for one in COMPOSE["configs"].values())
    own = [set(services[name]["volumes"]) for name in ("gateway-a", "gateway-b")]
    assert not own[0] & own[1]


def test_the_commands_that_its_head_shows_name_the_workspace_of_the_gateways():
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    shown = re.findall(r"^#.* exec (\S+) memory-gateway (\w+) (\S+ \S+)", text, re.MULTILINE)
    assert shown == [
        ("gateway-a", "remember", "--workspace /workspace"),
        ("gateway-b", "search", "--workspace /workspace"),
    ]


def test_no_password_is_written_down():
    for one in COMPOSE["secrets"].values():
        assert not (DEPLOY / one["file"]).exists()
    texts = [path.read_text(encoding="utf-8") for path in DEPLOY.iterdir()]
    assert not [text for text in texts if re.search(r"//\w+:[^/@]+@", text)]
    assert of_kind("Secret") == []


def test_every_pod_mounts_volumes_that_it_has_and_is_unprivileged():
    assert {one["kind"] for one in MANIFESTS} == {
        "ConfigMap", "PersistentVolumeClaim", "Job", "Deployment"
    }  # fmt: skip
    claims = {one["metadata"]["name"] for one in of_kind("PersistentVolumeClaim")}
    configs = {one["metadata"]["name"] for one in of_kind("ConfigMap")}
    for pod in pods():
        assert pod["securityContext"]["runAsNonRoot"]
        volumes = {one["name"]: one for one in pod["volumes"]}
        for container in pod["containers"]:
            assert {one["name"] for one in container["volumeMounts"]} == volumes.keys()
        for volume in volumes.values():
            assert volume.get("configMap", {}).get("name") in {None, *configs}
            assert volume.get("persistentVolumeClaim", {}).get("claimName") in {None, *claims}


def test_the_labels_of_the_deployment_select_its_pods():
    (deployment,) = of_kind("Deployment")
    template = deployment["spec"]["template"]
    assert deployment["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
    assert deployment["spec"]["replicas"] > 1


def test_the_tables_are_made_by_a_command_that_there_is(capsys):
    commands = [COMPOSE["services"]["migrate"]["command"], pods()[0]["containers"][0]["args"]]
    for command in commands:
        name = command[:2]
        assert run_app([*name, "--help"]) == 0
        shown = capsys.readouterr().out
        assert all(option in shown for option in command if option.startswith("--"))
