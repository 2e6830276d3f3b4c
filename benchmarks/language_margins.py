"""Distance of greedy tokens from a tie: `python -m benchmarks.language_margins`.

For each built-in language model, and its first two merged models, it computes the default
conversation and the quick one in float64, and prints the smallest distance between the best and the
second logit, in standard deviations of all logits, and the number of different tokens. `--draws 20`
does so for other draws of the weights, of which `draw` in models/language/shapes.py names the best.
Runtimes differ by some 0.005 of that unit (tests/models/language/test_agreement.py).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from benchmarks.quick import parse
from reusebench.harness.effort import DEFAULT, QUICK
from reusebench.measured.runtimes.prompts import prompt_tokens
from reusebench.models.language.recipe import MERGED, LanguageRecipe
from reusebench.models.language.shapes import SHAPES, VOCABULARY, DecoderShape
from tests.models.language.reference import Choice, Decoder

#: Those of `pytest bench/`, and of its --quick.
_CONVERSATIONS = (DEFAULT.conversation, QUICK.conversation)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each model and draw."""
    parser = argparse.ArgumentParser("python -m benchmarks.language_margins", description=__doc__)
    parser.add_argument("--model", help="one of them (default: all)")
    parser.add_argument("--draws", type=int, default=0, help="number of draws to try, from 0")
    options = parse(parser, arguments, ["--model=tiny_decoder"])
    for shape in SHAPES:
        if options.model in (None, shape.name):
            for draw in range(options.draws) if options.draws else [shape.draw]:
                print(_line(shape, draw), flush=True)


def _line(shape: DecoderShape, draw: int) -> str:
    original = shape.draw
    # The shapes are frozen, and recipes find them by their names.
    object.__setattr__(shape, "draw", draw)
    try:
        choices = [list(conversation) for conversation in _conversations(shape.name)]
    finally:
        object.__setattr__(shape, "draw", original)
    margin = min(choice.margin for conversation in choices for choice in conversation)
    kinds = [len({choice.token for choice in conversation}) for conversation in choices]
    return f"{shape.name}, draw {draw}: margin {margin:.4f}, different tokens {kinds}"


def _conversations(name: str) -> Iterator[list[Choice]]:
    for number in (0, 1, 2):
        part = {"part": MERGED, "number": number} if number else {}
        decoder = Decoder(LanguageRecipe(name, **part))  # type: ignore[arg-type]
        for conversation in _CONVERSATIONS:
            decoder.clear()
            prompt = prompt_tokens(conversation.prompt, VOCABULARY)
            yield decoder.generate(prompt, conversation.generated)


if __name__ == "__main__":
    main()
