"""Answers conversion jobs in a library's own environment, with the library's program, which is
named as the argument.

One job per line of standard input, as JSON; one answer per line of standard output: the step that
failed and its words, or null. What the library prints goes to standard error. It works in the
current folder.

It is started by its path and imports nothing of this project: the library's Python may be 3.8.
"""

from __future__ import annotations

import json
import os
import runpy
import sys


def main() -> None:
    """Answer every job until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    convert = runpy.run_path(sys.argv[-1])["convert"]
    for line in sys.stdin:
        answer = convert(json.loads(line))
        # The reader of the answer looks next for the library's words.
        sys.stdout.flush()
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
