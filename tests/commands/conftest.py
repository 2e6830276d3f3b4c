"""Imports the commands that need most libraries before any test: what these warn of is not of the tests."""

from __future__ import annotations

import commands.compare
import commands.history
import commands.report  # noqa: F401
