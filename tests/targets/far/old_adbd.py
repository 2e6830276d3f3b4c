"""Plays an old adbd: a shell on a terminal, with echo, CR LF, merged errors, and exit code 0.

python old_adbd.py COMMAND...

As over adb, the end of this program's input is not passed on.
"""

from __future__ import annotations

import os
import pty
import sys
import threading


def main() -> None:
    child, terminal = pty.fork()
    if not child:
        os.execvp(sys.argv[1], sys.argv[1:])
    # Each direction has a thread: a terminal may take no input until its echo has been read.
    threading.Thread(target=_pass_input, args=(terminal,), daemon=True).start()
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # EIO: the last process has left the terminal
            return
        os.write(1, data)


def _pass_input(terminal: int) -> None:
    while data := os.read(0, 1024):
        while data:
            data = data[os.write(terminal, data) :]


if __name__ == "__main__":
    main()
