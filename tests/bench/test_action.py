"""The action of the repository, run step by step as GitHub's runner would."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import pytest

from tests.helpers.support import CHECKOUT

pytest.importorskip("yaml")

from tests.bench.github_runner import Job

pytestmark = pytest.mark.process

#: A plugin of Python: measured processes take 64 MiB more while the variable is set.
_GROWING = """
import os

if os.environ.get("REUSEBENCH_GROWS"):
    grown = b"1" * (64 << 20)
"""
_LIMIT = "application_memory:20%+8MiB"
#: Comments of other people; GitHub gives a hundred at once.
_OTHERS = 130


class GitHub:
    """The comments of a pull request, behind an interface like GitHub's."""

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = []
        #: The code of every answer to a change, if it is refused.
        self.refusal = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_words: object) -> None:
                pass

            def do_GET(self) -> None:
                query = parse_qs(urlsplit(self.path).query)
                size, page = int(query["per_page"][0]), int(query["page"][0])
                self._answer(200, outer.comments[(page - 1) * size : page * size])

            def do_POST(self) -> None:
                assert self.path == "/repos/owner/project/issues/7/comments"
                self._change({"id": len(outer.comments), "body": ""}, is_new=True)

            def do_PATCH(self) -> None:
                start, _, number = self.path.rpartition("/")
                assert start == "/repos/owner/project/issues/comments"
                (comment,) = [each for each in outer.comments if each["id"] == int(number)]
                self._change(comment, is_new=False)

            def _change(self, comment: dict[str, Any], is_new: bool) -> None:
                content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if outer.refusal:
                    self._answer(outer.refusal, {"message": "no"})
                    return
                assert self.headers["Authorization"] == "Bearer secret"
                comment["body"] = content["body"]
                if is_new:
                    outer.comments.append(comment)
                self._answer(200, comment)

            def _answer(self, code: int, content: Any) -> None:
                self.send_response(code)
                self.end_headers()
                self.wfile.write(json.dumps(content).encode())

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def github() -> Iterator[GitHub]:
    """Return GitHub's comments, with more than a page of other people's."""
    service = GitHub()
    service.comments += [{"id": number, "body": "Looks good"} for number in range(_OTHERS)]
    yield service
    service.close()


def _environment(folder: Path, github: GitHub, cache: Path) -> dict[str, str]:
    """Return the variables of a job in which `reusebench` is in the path."""
    programs = folder / "programs"
    programs.mkdir()
    script = programs / "reusebench"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m reusebench "$@"\n')
    script.chmod(0o755)
    (folder / "sitecustomize.py").write_text(_GROWING)
    return {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        "XDG_CACHE_HOME": str(cache),
        "GITHUB_API_URL": github.url,
        "GITHUB_REPOSITORY": "owner/project",
        "RUNNER_ENVIRONMENT": "github-hosted",
    }


@pytest.mark.slow
def test_a_pull_request_is_compared_with_the_default_branch(
    tmp_path: Path, cache: Path, github: GitHub, on_double: tuple[str, ...]
) -> None:
    """The default branch leaves its run in the cache; a pull request without a change passes and
    gets a comment, and one that takes more memory fails and has its comment changed.
    """
    environment = _environment(tmp_path, github, cache)
    arguments = " ".join(["test_dup.py", "--quick", "--repeats=2", *on_double])
    inputs = {
        "install": "false",
        "arguments": f"{arguments} -k '(full_dup or one_model) and not internal'",
        "fail": f"{_LIMIT}\n\napplication_rss:30%",
        "comment": "true",
        "token": "secret",
        "runs": "1",
    }
    caches: dict[str, Path] = {}
    repository = {"default_branch": "trunk"}

    def job(number: int, name: str, event: dict[str, Any], **variables: str) -> Job:
        github_context = {
            "run_id": number,
            "run_attempt": 1,
            "ref_name": name,
            "event_name": "pull_request" if event else "push",
            "event": {"repository": repository, **event},
        }
        folder = tmp_path / str(number)
        started = Job(CHECKOUT, folder, caches, github_context, {**environment, **variables})
        return started.run(**inputs)

    for number in (1, 2):
        pushed = job(number, "trunk", {})
        assert not pushed.is_failed, pushed.log
        assert len(caches) == number
        assert pushed.outputs["verdict"] == ("no-baseline", "passed")[number - 1]
        stored = list(Path(pushed.outputs["storage"]).glob("*/*_default-branch.json"))
        assert len(stored) == 1
    assert len(github.comments) == _OTHERS

    pull_request = {"pull_request": {"number": 7}}
    same = job(3, "7/merge", pull_request)
    assert not same.is_failed, same.log
    assert same.outputs["verdict"] == "passed"
    assert "### ✅ Within the limits" in same.summary
    assert (Path(same.outputs["report"]) / "index.html").is_file()
    assert "memory" in Path(same.outputs["badge"]).read_text(encoding="utf-8")
    assert [comment["body"] for comment in github.comments[_OTHERS:]] == [
        same.summary.strip("\n") + "\n"
    ]

    grown = job(4, "7/merge", pull_request, REUSEBENCH_GROWS="1")
    assert grown.is_failed
    assert grown.outputs["verdict"] == "failed"
    assert "::error title=application_memory" in grown.log
    assert len(caches) == 2
    assert len(github.comments) == _OTHERS + 1
    assert "### ❌ Worse than allowed" in github.comments[-1]["body"]
    suite = ElementTree.parse(grown.outputs["junit"]).find("testsuite")
    assert suite is not None
    assert suite.attrib["failures"] == "2"

    github.refusal = 403
    forked = job(5, "7/merge", pull_request)
    assert not forked.is_failed
    assert (
        "::warning title=reusebench::the comment could not be written (HTTP Error 403" in forked.log
    )
