"""The jobs of examples/github and examples/gitlab, run line by line as they stand: a release, then
a change that is compared with it. In place of their services: a registry on loopback, and who takes
a comment.
"""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import MANIFESTS, ROOT
from tests.documented import in_shell
from tests.examples.started import Kept
from tests.registries.oci_server import OciServer

EXAMPLES = ROOT / "examples"
PLACE = "registry.example.org"
USER, PASSWORD = "somebody", "secret"

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
needs_docker = pytest.mark.skipif(shutil.which("docker") is None, reason="needs docker's client")


@pytest.fixture
def registry() -> Iterator[OciServer]:
    server = OciServer()
    server.password = f"{USER}:{PASSWORD}"
    yield server
    server.close()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository that the jobs build, in a folder with its keys."""
    folder = tmp_path_factory.mktemp("repository") / "project"
    shutil.copytree(MANIFESTS / "digits", folder / "digits")
    text = (MANIFESTS / "digits.toml").read_text("utf-8")
    (folder / "digits.toml").write_text(text.replace("[1, 8, 64]", "[8]"), "utf-8")
    (folder / "ci" / "hosts").mkdir(parents=True)
    in_shell(
        "aotc keygen --plain ../release && aotc keygen --plain ../cache && cp ../cache.pub ci\n"
        "aotc trust init --key ../release.pub --name digits --output trust.toml\n"
        "aotc-runtime host-info --json > ci/hosts/here.json\n",
        folder,
    )
    return folder.parent


@pytest.fixture
def project(prepared: Path, tmp_path: Path) -> Path:
    """A copy of the repository for one test, beside the keys."""
    return shutil.copytree(prepared, tmp_path, dirs_exist_ok=True) / "project"


def change(project: Path) -> None:
    """Changes of a pull request."""
    path = project / "digits.toml"
    path.write_text(path.read_text("utf-8").replace("1.0.0", "1.1.0"), "utf-8")
    (project / "digits" / "model.py").write_text(
        (project / "digits" / "model.py").read_text("utf-8") + "\nOTHER = 1\n", "utf-8"
    )


def read(path: str, registry: OciServer) -> dict[str, Any]:
    text = (EXAMPLES / path).read_text("utf-8").replace(PLACE, registry.address)
    return yaml.safe_load(text)


def is_released(registry: OciServer) -> None:
    tags = [name for where, name in registry.manifests if where == "models/digits"]
    assert {"1.0.0", "stable"} <= set(tags)
    assert registry.count("PUT", "/models/cache/manifests/") > 0
    registry.asked.clear()


# GitHub


def expanded(text: str, values: dict[str, str]) -> str:
    """With the expressions of GitHub replaced, of which none may be unknown."""
    return re.sub(r"\$\{\{ (.+?) \}\}", lambda found: values[found[1]], text)


class Github:
    """A runner: the steps of a job, one after the other."""

    def __init__(self, registry: OciServer, project: Path) -> None:
        self.workflow, self.project = read("github/bundle.yml", registry), project
        self.temporary = project.parent / "runner"
        (self.temporary / "bin").mkdir(parents=True)
        self.values = {
            "secrets.GITHUB_TOKEN": PASSWORD,
            "secrets.AOTC_KEY": (project.parent / "release.key").read_text("utf-8"),
            "secrets.AOTC_CACHE_KEY": (project.parent / "cache.key").read_text("utf-8"),
            "github.event.pull_request.number": "7",
        }
        # In place of GitHub's client, which asks GitHub: keeps what it was told to send.
        client = self.temporary / "bin" / "gh"
        client.write_text('#!/bin/bash\necho "$@" > "$0.said"; cp "${!#}" "$0.body"\n', "utf-8")
        client.chmod(0o755)

    def run(self, job: str, without: tuple[str, ...] = ()) -> str:
        assert self.workflow["defaults"]["run"] == {"shell": "bash"}
        said = ""
        for step in self.workflow["jobs"][job]["steps"]:
            if "run" not in step or step["name"] in ("Install", *without):
                continue
            given = {**self.workflow["env"], **step.get("env", {})}
            said += in_shell(
                expanded(step["run"], self.values),
                self.project,
                **{name: expanded(value, self.values) for name, value in given.items()},
                AOTC_CACHE=str(self.temporary / "cache" / job),
                DOCKER_CONFIG=str(self.temporary / "docker"),
                GITHUB_ACTOR=USER,
                GITHUB_REPOSITORY="somebody/models",
                GITHUB_SERVER_URL="https://github.example.org",
                GITHUB_STEP_SUMMARY=str(self.temporary / "summary"),
                RUNNER_TEMP=str(self.temporary),
                PATH=f"{self.temporary / 'bin'}:/usr/bin:/bin:/usr/local/bin",
            )
        return said


@needs_docker
def test_github_jobs_release_and_compare(registry: OciServer, project: Path) -> None:
    github = Github(registry, project)
    github.run("release")
    is_released(registry)
    assert not list(github.temporary.glob("*.key"))

    change(project)
    github.run("compare")
    body = (github.temporary / "bin" / "gh.body").read_text("utf-8")
    assert body.startswith("```\n") and "1.0.0" in body and "1.1.0" in body
    assert body == (github.temporary / "summary").read_text("utf-8")
    said = (github.temporary / "bin" / "gh.said").read_text("utf-8")
    assert said == "pr comment 7 --edit-last --create-if-none --body-file diff.md\n"
    # It took what it could from the shared cache, and changed nothing anywhere.
    assert registry.count("GET", "/models/cache/blobs/") > 0
    assert not [a for a in registry.asked if a.method not in ("GET", "HEAD")]


@needs_docker
def test_github_comparison_before_release_is_silent(registry: OciServer, project: Path) -> None:
    github = Github(registry, project)
    assert "AOTC-E774" in github.run("compare")
    assert (github.temporary / "summary").read_text("utf-8") == "```\n```\n"


def test_githubs_job_for_pull_requests_meets_no_key(registry: OciServer) -> None:
    job = read("github/bundle.yml", registry)["jobs"]["compare"]
    secrets = set(re.findall(r"secrets\.(\w+)", json.dumps(job)))
    assert secrets == {"GITHUB_TOKEN"} and "environment" not in job
    assert job["permissions"]["packages"] == "read"


# GitLab


@pytest.fixture
def comments() -> Iterator[Kept]:
    with Kept() as server:
        yield server


class Gitlab:
    """A runner: the lines of a job's scripts, in one shell."""

    def __init__(self, registry: OciServer, project: Path, api: str) -> None:
        self.file, self.project = read("gitlab/bundle.gitlab-ci.yml", registry), project
        self.given = {
            "CI_API_V4_URL": api,
            "CI_MERGE_REQUEST_IID": "7",
            "CI_PROJECT_ID": "12",
            "CI_PROJECT_URL": "https://gitlab.example.org/somebody/models",
            "CI_REGISTRY": registry.address,
            "CI_REGISTRY_IMAGE": f"{registry.address}/models",
            "CI_REGISTRY_USER": USER,
            "CI_REGISTRY_PASSWORD": PASSWORD,
            "COMMENT_TOKEN": "comments",
        }
        self.protected = {
            "AOTC_KEY": str(project.parent / "release.key"),
            "AOTC_CACHE_KEY": str(project.parent / "cache.key"),
        }

    def run(self, job: str, **protected: str) -> str:
        steps = self.file[job]
        base = self.file[steps["extends"]]
        install, *before = base["before_script"]
        assert install.startswith("pip install ")
        lines = "\n".join([*before, *steps["script"]])
        image = self.given["CI_REGISTRY_IMAGE"]
        variables = {
            name: value.replace("$CI_REGISTRY_IMAGE", image)
            for name, value in self.file["variables"].items()
        }
        variables["DOCKER_CONFIG"] = str(self.project.parent / "docker")
        cache = str(self.project.parent / "local-cache" / job)
        return in_shell(
            lines, self.project, **self.given, **variables, **protected, AOTC_CACHE=cache
        )


@needs_curl
def test_gitlab_jobs_release(registry: OciServer, project: Path, comments: Kept) -> None:
    gitlab = Gitlab(registry, project, f"http://127.0.0.1:{comments.server_port}/api/v4")
    gitlab.run("release", **gitlab.protected)
    is_released(registry)
    change(project)
    gitlab.run("compare")
    ((path, headers, data),) = comments.taken
    assert path == "/api/v4/projects/12/merge_requests/7/notes"
    assert headers["PRIVATE-TOKEN"] == "comments"
    assert b'name="body"' in data and b"1.1.0" in data
    assert registry.count("GET", "/models/cache/blobs/") > 0
    assert not [a for a in registry.asked if a.method not in ("GET", "HEAD")]


def test_gitlabs_job_for_merge_requests_meets_no_key(registry: OciServer) -> None:
    file = read("gitlab/bundle.gitlab-ci.yml", registry)
    assert "_KEY" not in json.dumps([file["compare"], file[".aotc"]])
