"""The questions that scenarios answer: a page has a part, and each figure a colour scheme, for one question."""

from __future__ import annotations

from scenarios.catalogue import SCENARIOS

#: Each question by the baselines of its scenarios, in the order of the page. Its title is a text `question_NAME`.
QUESTIONS = {
    "dup": ("no_reuse", "no_reuse_one_model"),
    "internal_reuse": ("in_turn",),
    "shared_weights": ("resolutions_2", "resolutions_3", "resolutions"),
    "external_memory": ("runtime_memory",),
    "io_copies": ("copied_io", "copied_io_1080p", "copied_io_4k", "cuda_copied_io"),
    "lean": ("plain",),
    "streams": ("streams_decode_only", "streams_no_reuse", "streams_no_reuse_one_model"),
}
#: What stored scenarios answer that this version does not know.
OTHER = "other"
#: Questions that have tables of their own.
STREAMS_QUESTION, COPIES_QUESTION = "streams", "io_copies"

_QUESTION_OF = {baseline: question for question, baselines in QUESTIONS.items() for baseline in baselines}


def question_of(scenario: str, baseline: str | None) -> str:
    """Return the question that a scenario answers, which is that of its baseline."""
    return _QUESTION_OF.get(baseline or scenario, OTHER)


def scenarios_of(question: str) -> list[str]:
    """Return the names of a question's scenarios, in the order in which they run."""
    return [scenario.name for scenario in SCENARIOS if question_of(scenario.name, scenario.baseline) == question]
