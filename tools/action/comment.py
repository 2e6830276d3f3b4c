"""A step of action.yml: writes a comment on a pull request, in place of its earlier one.

    python3 tools/action/comment.py NUMBER FILE

The first line of the file marks the comment. A comment that cannot be written is no error of the
build: pull requests from forks have a token that may not. Uses the standard library alone.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Comments of an answer, the most that GitHub gives.
_PAGE = 100
_TIME_LIMIT_S = 30


def main(number: str, path: str) -> int:
    """Write the comment; return the exit code."""
    body = Path(path).read_text(encoding="utf-8")
    comments = f"/repos/{os.environ['GITHUB_REPOSITORY']}/issues/{number}/comments"
    try:
        own = _own(comments, body.splitlines()[0])
        if own is None:
            _ask("POST", comments, {"body": body})
        else:
            _ask(
                "PATCH",
                f"{comments.rpartition('/issues/')[0]}/issues/comments/{own}",
                {"body": body},
            )
    except urllib.error.URLError as error:
        print(
            f"::warning title=reusebench::the comment could not be written ({error}): the job needs"
            " `permissions: pull-requests: write`, which a fork's pull request has not. The summary"
            " of the job has it"
        )
    return 0


def _own(comments: str, marker: str) -> int | None:
    """Return the id of the comment with the marker; None if there is none."""
    for comment in _all(comments):
        if comment["body"].startswith(marker):
            return int(comment["id"])
    return None


def _all(comments: str) -> Iterator[dict[str, Any]]:
    page = 1
    while True:
        found = _ask("GET", f"{comments}?per_page={_PAGE}&page={page}")
        yield from found
        if len(found) < _PAGE:
            return
        page += 1


def _ask(method: str, path: str, content: dict[str, str] | None = None) -> Any:
    request = urllib.request.Request(
        os.environ.get("GITHUB_API_URL", "https://api.github.com") + path,
        data=None if content is None else json.dumps(content).encode(),
        method=method,
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {os.environ['GITHUB_TOKEN']}",
            "Content-Type": "application/json",
            "X-GitHub-Api-Version": "2022-11-28",
        },
    )
    with urllib.request.urlopen(request, timeout=_TIME_LIMIT_S) as answer:
        return json.load(answer)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
