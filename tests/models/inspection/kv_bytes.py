"""Prints llama.cpp's own account of a cache of keys and values by its type, as JSON."""

from __future__ import annotations

import json
import sys

from reusebench.measured.runtimes import open_runtime
from reusebench.measured.runtimes.base import Conversation, Memory


def main() -> None:
    """The arguments are a file, the tokens of a conversation, and types of the cache."""
    model, tokens, *types = sys.argv[1:]
    runtime = open_runtime("llama_cpp")
    conversation = Conversation(int(tokens), prompt=8, generated=1)
    sizes = {}
    for name in types:
        memory = Memory(conversation=conversation, options=(f"cache_type={name}",))
        sizes[name] = runtime.estimate(model, memory)["kv_cache_bytes"]
    print(json.dumps(sizes))


if __name__ == "__main__":
    main()
