"""The files in `deploy/`: each is read by the tool that it is for, where that is here, and tried against a real server:
its settings, ports, paths and times are those of the code."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import kubernetes_validate
import pytest
import yaml

from tests import warm
from tests.conformance.serving import free_port, stop, wait_until_healthy
from tests.postgres import Server
from toolyard.server.settings.table import PREFIX, load_settings, rows

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
API_KEY = "ty_deployed_0123456789abcdef"
STOPS_AFTER_S = 30.0
"""How much later than its drain and twice its grace a server that is held up ends by itself."""
NAMES = {f"{PREFIX}{row.name.upper()}" for row in rows()}


def are_settings(given: dict[str, str]) -> dict[str, str]:
    """Those of toolyard, which must be there; all of them must be values that a server takes."""
    own = {name: value for name, value in given.items() if name.startswith(PREFIX)}
    assert own.keys() <= NAMES
    return own


def longest_stop(given: dict[str, str]) -> float:
    settings = load_settings({}, are_settings(given))
    assert settings.drain_s is not None
    return settings.drain_s + 2 * settings.grace_s + STOPS_AFTER_S


# --- the image ------------------------------------------------------------------------------------


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Containerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [(name, rest) for name, _, rest in (line.strip().partition(" ") for line in text.splitlines()) if name]


def last_stage() -> dict[str, str]:
    """The newest instruction of each kind after the last FROM."""
    given = instructions()
    start = max(at for at, (name, _) in enumerate(given) if name == "FROM")
    return dict(given[start:])


def of_image() -> dict[str, str]:
    return dict(each.split("=", 1) for each in shlex.split(last_stage()["ENV"]))


@contextmanager
def image(folder: Path, settings: dict[str, str], *prefix: str) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """What the image runs, with what it is told, in a folder that stands for /srv/yard."""
    port, log = free_port(), folder / "log"
    shutil.copy(DEPLOY / "tools.py", folder)
    stage = last_stage()
    arguments: list[str] = json.loads(stage["CMD"])
    given = are_settings(of_image()) | {"TOOLYARD_PORT": str(port), "TOOLYARD_API_KEYS": f"agent:{API_KEY}"} | settings
    own = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    command = [*prefix, sys.executable, "-m", "toolyard", *arguments]
    with log.open("wb") as output:
        process = warm.start(command, cwd=folder, env=own | given, stdout=output, stderr=output)
    try:
        wait_until_healthy(process, port, log)
        yield process, port
    finally:
        stop(process)


def health_check(port: int) -> int:
    _, _, command = last_stage()["HEALTHCHECK"].partition("CMD ")
    _, *arguments = json.loads(command)
    return subprocess.run(
        [sys.executable, *arguments], env={"TOOLYARD_PORT": str(port)}, capture_output=True, check=False
    ).returncode


def test_the_image_runs_as_nobody_in_particular_and_copies_what_is_there() -> None:
    stage = last_stage()
    assert int(stage["USER"]) > 0
    assert stage["EXPOSE"] == of_image()["TOOLYARD_PORT"]
    copied = [rest.split()[:-1] for name, rest in instructions() if name == "COPY" and "--from" not in rest]
    assert all((ROOT / source).exists() for sources in copied for source in sources)


def test_what_the_image_runs_is_healthy_until_it_is_told_to_stop(tmp_path: Path) -> None:
    ledger = {"TOOLYARD_STORE": f"sqlite:{tmp_path}/toolyard.db", "TOOLYARD_DRAIN_S": "30"}
    with image(tmp_path, ledger) as (process, port):
        assert health_check(port) == 0
        process.send_signal(signal.SIGTERM)
        while is_ready(port):
            pass
        assert health_check(port) != 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert health_check(port) != 0


def is_ready(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/ready") as reply:
            return bool(reply.status == 200)
    except HTTPError as error:
        with error:
            return False


READ_ONLY = 'mount --make-rprivate / && mount -o remount,bind,ro / && cd "$0" && exec "$@"'


def test_what_the_image_runs_needs_no_place_to_write(postgres_server: Server, tmp_path: Path) -> None:
    unshared = ["unshare", "--mount", "sh", "-c", READ_ONLY]
    probe = subprocess.run([*unshared, "/", "touch", str(ROOT / "probe")], capture_output=True, check=False)
    if b"Read-only file system" not in probe.stderr:
        pytest.skip("this user may not mount, or the repository is elsewhere than the root")
    folder = ROOT / "build" / "read-only"
    folder.mkdir(parents=True, exist_ok=True)
    store = postgres_server.url_of(postgres_server.create())
    try:
        settings = {"TOOLYARD_STORE": store, "TOOLYARD_SECRET_KEY": "5e" * 32, "TOOLYARD_DRAIN_S": "0.1"}
        with image(folder, settings, *unshared, str(folder)) as (_, port):
            assert health_check(port) == 0
    finally:
        shutil.rmtree(folder)


# --- compose --------------------------------------------------------------------------------------


def test_compose_has_settings_that_exist_and_waits_longer_than_a_server_takes_to_stop() -> None:
    services: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    yard, db = services["yard"], services["db"]
    given = {name: re.sub(r"\$\{(\w+):\?[^}]+\}", r"\1", value) for name, value in yard["environment"].items()}
    given |= {"TOOLYARD_SECRET_KEY": "5e" * 32, "TOOLYARD_API_KEYS": f"agent:{API_KEY}"}
    assert float(yard["stop_grace_period"].removesuffix("s")) > longest_stop(given)
    store = urlsplit(given["TOOLYARD_STORE"])
    assert (store.hostname, store.username, store.path[1:]) == (
        "db",
        db["environment"]["POSTGRES_USER"],
        db["environment"]["POSTGRES_DB"],
    )
    assert yard["depends_on"]["db"]["condition"] == "service_healthy"
    assert yard["ports"] == [f"127.0.0.1:8000:{of_image()['TOOLYARD_PORT']}"]
    assert (DEPLOY / yard["build"]["context"] / yard["build"]["dockerfile"]).resolve() == DEPLOY / "Containerfile"
    mounted, _, where = yard["volumes"][0].partition(":")
    assert (DEPLOY / mounted).exists()
    assert where.startswith(last_stage()["WORKDIR"])
    assert (yard["read_only"], yard["cap_drop"]) == (True, ["ALL"])


# --- systemd --------------------------------------------------------------------------------------


def unit() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (DEPLOY / "toolyard.service").read_text().splitlines():
        name, _, value = line.partition("=")
        if value and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def test_the_unit_drains_reloads_and_has_settings_that_exist() -> None:
    given = unit()
    environment = dict(each.split("=", 1) for line in given["Environment"] for each in line.split())
    (stops,), (kills,), (reloads,) = given["TimeoutStopSec"], given["KillMode"], given["ExecReload"]
    assert float(stops) > longest_stop(environment)
    assert (kills, reloads) == ("mixed", "/bin/kill -HUP $MAINPID")
    _, verb, *options = given["ExecStart"][0].split()
    shown = warm.run([sys.executable, "-m", "toolyard", verb, "--help"], input="", timeout=30, cwd=ROOT, env=os.environ)
    assert all(option in shown.stdout for option in options if option.startswith("--"))


@pytest.mark.parametrize("processes", ["1", "2"])
def test_the_unit_starts_again_where_that_may_help_and_nowhere_else(processes: str, tmp_path: Path) -> None:
    given = unit()
    assert (given["Restart"], given["StartLimitIntervalSec"]) == (["on-failure"], ["0"])
    in_vain = int(given["RestartPreventExitStatus"][0])
    (tmp_path / "tools.py").write_bytes((DEPLOY / "tools.py").read_bytes())
    own = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}

    def code(**settings: str) -> int:
        command = [sys.executable, "-m", "toolyard", "serve", "tools.py", "--port", "0", "--processes", processes]
        variables = own | {"TOOLYARD_SECRET_KEY": "5e" * 32, **settings}
        return warm.run(command, input="", timeout=30, cwd=tmp_path, env=variables).returncode

    away = "postgresql://yard@127.0.0.1:1/yard"
    assert code(TOOLYARD_STORE=away) not in (0, in_vain)
    assert code(TOOLYARD_STORE=away, TOOLYARD_LOG_LEVEL="loud") == in_vain


REFUSED = """
import ctypes, os, sys
PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 65, 1
if ctypes.CDLL(None).prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0):
    sys.exit("this kernel cannot")
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""What `MemoryDenyWriteExecute` does, by the kernel itself."""


def test_a_server_needs_no_memory_that_can_be_both_written_and_run(tmp_path: Path) -> None:
    assert unit()["MemoryDenyWriteExecute"] == ["yes"]
    refused = [sys.executable, "-c", REFUSED]
    if subprocess.run([*refused, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this kernel cannot refuse it")
    settings = {"TOOLYARD_STORE": f"sqlite:{tmp_path}/toolyard.db", "TOOLYARD_DRAIN_S": "0.1"}
    with image(tmp_path, settings, *refused) as (_, port):
        assert health_check(port) == 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
def test_systemd_finds_nothing_wrong_with_the_unit_and_little_exposed(tmp_path: Path) -> None:
    """Its command stands in for one that is not here."""
    tried = tmp_path / "toolyard.service"
    tried.write_text(re.sub("(?<=ExecStart=)[^ ]+", "/bin/true", (DEPLOY / tried.name).read_text()))
    verified = subprocess.run(["systemd-analyze", "verify", tried], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=15", "--no-pager", str(tried)]
    judged = subprocess.run(command, capture_output=True, text=True, check=False)
    assert judged.returncode == 0, judged.stdout


# --- Kubernetes -----------------------------------------------------------------------------------


def manifests() -> dict[str, Any]:
    found = [yaml.safe_load(path.read_text()) for path in KUBERNETES.glob("*.yaml")]
    return {each["kind"]: each for each in found}


def test_the_manifests_fit_the_schemas_of_kubernetes() -> None:
    for manifest in manifests().values():
        if manifest["kind"] != "Kustomization":  # of which it has none
            kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not here")
def test_kustomize_puts_them_together() -> None:
    built = subprocess.run(["kubectl", "kustomize", KUBERNETES], capture_output=True, text=True, check=True)
    kinds = [each["kind"] for each in yaml.safe_load_all(built.stdout)]
    assert sorted(kinds) == ["ConfigMap", "Deployment", "PodDisruptionBudget", "Service"]


def test_the_manifests_are_about_one_another_and_wait_longer_than_a_server_takes_to_stop() -> None:
    found = manifests()
    pod = found["Deployment"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    labels = pod["metadata"]["labels"]
    assert found["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert found["Service"]["spec"]["selector"] == labels
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert {path.name for path in KUBERNETES.iterdir()} == {
        *found["Kustomization"]["resources"],
        "kustomization.yaml",
        "secret.example.yaml",
    }
    (made,) = found["Kustomization"]["configMapGenerator"]
    given = dict(each.split("=", 1) for each in made["literals"])
    named = [next(iter(each.values()))["name"] for each in container["envFrom"]]
    assert named == [made["name"], found["Secret"]["metadata"]["name"]]
    assert pod["spec"]["terminationGracePeriodSeconds"] > longest_stop(given | found["Secret"]["stringData"])
    (port,) = container["ports"]
    assert str(port["containerPort"]) == given["TOOLYARD_PORT"]
    ready = container["readinessProbe"]
    assert float(given["TOOLYARD_DRAIN_S"]) > ready["periodSeconds"] * ready["failureThreshold"] + 5
    assert pod["spec"]["securityContext"]["runAsUser"] == int(last_stage()["USER"])
    assert json.loads(last_stage()["CMD"]) == container["args"]


def test_the_probes_ask_what_a_server_answers(tmp_path: Path) -> None:
    (container,) = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"]
    paths = {container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "readiness", "liveness")}
    assert paths == {"/live", "/ready"}
    with image(tmp_path, {"TOOLYARD_STORE": f"sqlite:{tmp_path}/toolyard.db", "TOOLYARD_DRAIN_S": "0.1"}) as (_, port):
        for path in paths:
            with urlopen(f"http://127.0.0.1:{port}{path}") as reply:
                assert reply.status == 200
