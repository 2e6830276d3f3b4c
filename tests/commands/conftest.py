"""Imports the commands that need most libraries before any test: what these warn of is not of the
tests.
"""

from __future__ import annotations

import reusebench.commands.compare
import reusebench.commands.history
import reusebench.commands.report  # noqa: F401
