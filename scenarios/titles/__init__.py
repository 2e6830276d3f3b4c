"""The titles of scenarios in each language, which are in `LANGUAGE.json`."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from reusebench.scenarios.catalogue import name_of_plan

__all__ = ["title_of"]

_FOLDER = Path(__file__).parent
_WITHOUT_REUSE = "plan_without_reuse"


def title_of(scenario: str, language: str = "en") -> str:
    """Return the title of a scenario or of a plan without reuse; other names stay as they are."""
    titles = _titles(language)
    plan = name_of_plan(scenario)
    if plan:
        return titles[_WITHOUT_REUSE].format(plan=plan)
    return titles.get(scenario, scenario)


@functools.cache
def _titles(language: str) -> dict[str, str]:
    titles: dict[str, str] = json.loads((_FOLDER / f"{language}.json").read_text(encoding="utf-8"))
    return titles
