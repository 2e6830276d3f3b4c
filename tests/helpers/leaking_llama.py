"""`python -m tests.helpers.leaking_llama KIND`: the driver with an adapter of llama.cpp that leaks.

KIND is "contexts": a llama_context that nobody uses any more is not freed; "turns": each turn saves
the state of its conversation, and keeps it; "nothing". Runs in the measured process: standard
library only, Python 3.8.
"""

from __future__ import annotations

import sys
from typing import Any

from reusebench.measured import driver
from reusebench.measured.runtimes.llama_cpp.native import NativeContext

_KEPT: list[Any] = []


def _keep_contexts() -> None:
    def keep(self: NativeContext, session: Any) -> None:
        _KEPT.append((self, session))

    NativeContext.close_session = keep  # type: ignore[method-assign]


def _keep_states() -> None:
    hold = NativeContext.hold

    def hold_and_save(self: NativeContext, sessions: Any) -> None:
        hold(self, sessions)
        size = self._api.llama_state_seq_get_size(self.handle, sessions[0].sequence)
        _KEPT.append(bytearray(size))

    NativeContext.hold = hold_and_save  # type: ignore[method-assign]


_KINDS = {"contexts": _keep_contexts, "turns": _keep_states}


def main() -> int:
    """Serve a command as the driver does, and return the exit code."""
    if sys.argv[1] in _KINDS:
        _KINDS[sys.argv[1]]()
    return driver.main()


if __name__ == "__main__":
    sys.exit(main())
