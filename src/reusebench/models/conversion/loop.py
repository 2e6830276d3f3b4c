"""Answers conversion jobs in a library's own environment, with the program named as the argument.

Standard input has one job a line, as JSON; standard output gets one answer a line: the failed step
and its message, or null. The library's own output goes to standard error. The program works in the
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
        # After the answer its reader looks for the library's messages.
        sys.stdout.flush()
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
