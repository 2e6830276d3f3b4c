"""Prints the greedy tokens of conversations, as JSON: run in a process for each runtime.

The arguments are the runtime, the tokens of the prompt, those to generate, and a list of models,
each with its adapter or null.
"""

from __future__ import annotations

import json
import sys

from reusebench.measured.runtimes import open_runtime
from reusebench.measured.runtimes.base import Conversation, Memory, Runtime

_TOKENS = 256


def _greedy(runtime: Runtime, memory: Memory, model: str, adapter: str | None) -> list[int]:
    source = context = runtime.load(model, None, memory)
    if adapter:
        context = runtime.adapter(adapter, source, memory)
    context.infer()
    tokens = [int(token) for token in context.outputs()[0]]
    for used in {id(context): context, id(source): source}.values():
        used.destroy()
    return tokens


def main() -> None:
    """Print a list of tokens for each model."""
    name, prompt, generated, models = sys.argv[1:]
    runtime = open_runtime(name)
    memory = Memory(conversation=Conversation(_TOKENS, int(prompt), int(generated)))
    print(json.dumps([_greedy(runtime, memory, *model) for model in json.loads(models)]))


if __name__ == "__main__":
    main()
