"""Every runtime chooses the tokens of the reference in numpy, from its own kind of file."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from reusebench.measured.runtimes import RUNTIMES, RuntimeEntry, available
from reusebench.measured.runtimes.prompts import prompt_tokens
from reusebench.models.language import LanguageRecipe, ensure_language
from reusebench.models.language.recipe import ADAPTER, MERGED
from reusebench.models.language.shapes import VOCABULARY
from reusebench.models.language.weights import adapter_pairs
from reusebench.models.model_kinds import built_in_kind
from tests.helpers.support import CHECKOUT
from tests.models.language.reference import Choice, Decoder

_TINY = "tiny_decoder"
_PROMPT = 64
_GENERATED = 8
_RUNTIMES = [entry for entry in RUNTIMES if entry.has_conversations]
_BASE = LanguageRecipe(_TINY)
#: Runtimes round in float16, and add in other orders: logits differ by less than this part of their
#: standard deviation (seen: 0.005).
_ROUNDING = 0.01


def _reference(recipe: LanguageRecipe, adapter: LanguageRecipe | None = None) -> list[Choice]:
    pairs = dict(adapter_pairs(adapter)) if adapter else {}
    return Decoder(recipe, pairs).generate(prompt_tokens(_PROMPT, VOCABULARY), _GENERATED)


def _adapter(number: int) -> LanguageRecipe:
    return LanguageRecipe(_TINY, part=ADAPTER, number=number)


def _merged(number: int) -> LanguageRecipe:
    return LanguageRecipe(_TINY, part=MERGED, number=number)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_no_choice_is_close(number: int) -> None:
    """The best logit is further from the second than runtimes round; tokens are no loop."""
    choices = _reference(_merged(number) if number else _BASE)
    assert min(choice.margin for choice in choices) > _ROUNDING
    assert len({choice.token for choice in choices}) > _GENERATED // 2


def test_the_adapter_is_the_merged_model() -> None:
    """Adapter beside the weights and merged weights give equal tokens, which the base does not."""
    base = [choice.token for choice in _reference(_BASE)]
    for number in (1, 2):
        beside = [choice.token for choice in _reference(_BASE, _adapter(number))]
        assert beside == [choice.token for choice in _reference(_merged(number))]
        assert beside != base


@pytest.mark.process
@pytest.mark.parametrize("entry", _RUNTIMES, ids=lambda entry: entry.name)
def test_a_runtime_chooses_the_same_tokens(entry: RuntimeEntry) -> None:
    """The base, two adapters over it and two merged models, each from the runtime's own files."""
    if not available(entry):
        pytest.skip(entry.install)
    kind = built_in_kind(entry)
    base, merged_1, merged_2, adapter_1, adapter_2 = map(
        str, ensure_language(kind, [_BASE, _merged(1), _merged(2), _adapter(1), _adapter(2)])
    )
    models = [
        (base, None),
        (merged_1, None),
        (merged_2, None),
        (base, adapter_1),
        (base, adapter_2),
    ]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.models.language.greedy"),
            *(entry.name, str(_PROMPT), str(_GENERATED), json.dumps(models)),
        ],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    expected = [_reference(_BASE), _reference(_merged(1)), _reference(_merged(2))]
    tokens = [[choice.token for choice in choices] for choices in expected]
    assert json.loads(done.stdout.splitlines()[-1]) == [*tokens, *tokens[1:]]
