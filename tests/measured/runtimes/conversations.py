"""The contract of adapters of language models, as functions that test_conversations.py runs.

A function raises if the adapter breaks the contract. It does not ask for mechanisms that the
runtime lacks: those must be refused with a sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from reusebench.measured.messages import words
from reusebench.measured.runtimes import RuntimeEntry
from reusebench.measured.runtimes.base import (
    AdapterError,
    Conversation,
    Memory,
    Runtime,
    RuntimeContext,
)

__all__ = ["CONTRACT", "LanguageFiles", "Trial"]

#: Scenarios of several conversations in one context: the mechanism, and whether they share a cache.
_SEQUENCES = {
    "sessions_sequences": ("sequence", False),
    "sessions_unified": ("sequence", True),
    "sessions_shared_prompt": ("shared_prompt", True),
}
#: OpenVINO GenAI shares prompts in blocks of 32 tokens.
_CONVERSATION = Conversation(tokens=256, prompt=40, generated=6, common=32)


@dataclass(frozen=True)
class LanguageFiles:
    """Paths of the models that the contract needs of a runtime."""

    model: str
    #: Adapters over the model, and the model merged with each; empty if the runtime has none.
    adapters: tuple[str, ...]
    merged: tuple[str, ...]


@dataclass(frozen=True)
class Trial:
    """A runtime on trial, with its files."""

    entry: RuntimeEntry
    runtime: Runtime
    files: LanguageFiles
    folder: Path
    #: Options that keep the trial quick.
    options: tuple[str, ...] = ()

    def memory(self, **fields: object) -> Memory:
        """Return the memory of a context with the trial's conversation."""
        fields.setdefault("conversation", _CONVERSATION)
        fields.setdefault("options", self.options)
        return Memory(**fields)  # type: ignore[arg-type]

    def load(self, **fields: object) -> RuntimeContext:
        """Return a context of the model that reuses nothing."""
        return self.runtime.load(self.files.model, None, self.memory(**fields))

    def source(self) -> RuntimeContext:
        """Return a context whose weights others may share."""
        model = self.files.model
        prepared = None
        if self.entry.prepares:
            made = self.runtime.prepare(model, "digest", str(self.folder), lambda: None)
            prepared = made.path if made else None
        return self.runtime.load(model, prepared, self.memory())

    def has(self, scenario: str) -> bool:
        """Whether the runtime's row in RUNTIMES has no reason against the mechanism."""
        return scenario not in dict(self.entry.lacks)

    def implements(self, method: str) -> bool:
        """Whether the adapter overrides a method of Runtime."""
        return getattr(type(self.runtime), method) is not getattr(Runtime, method)

    def sequences(self, count: int, mechanism: str, unified: bool) -> list[RuntimeContext]:
        """Return a context and sequences over it."""
        shared = count - 1 if mechanism == "shared_prompt" else 0
        memory = {"sequences": count, "unified_cache": unified, "shared_prompts": shared}
        first = self.load(**memory)
        make = getattr(self.runtime, mechanism)
        return [first, *(make(first, self.memory()) for _ in range(count - 1))]


def _tokens(context: RuntimeContext) -> list[int]:
    """Return the tokens of one turn."""
    context.infer()
    return _last_tokens(context)


def _last_tokens(context: RuntimeContext) -> list[int]:
    (output,) = context.outputs()
    return output.tolist()


def _destroy(contexts: list[RuntimeContext]) -> None:
    for context in contexts:
        context.destroy()


def _refusal(attempt: Callable[[], object]) -> str:
    """Return the sentence of a refusal, which must have a text."""
    with pytest.raises(AdapterError) as refusal:
        attempt()
    sentence = words(refusal.value.message)
    assert sentence != refusal.value.message.code
    return sentence


def it_answers_the_same_every_time(trial: Trial) -> None:
    """A turn gives the tokens that were asked for, the same in each turn and each load."""
    context = trial.load()
    tokens = _tokens(context)
    assert len(tokens) == _CONVERSATION.generated
    assert all(token >= 0 for token in tokens)
    assert _tokens(context) == tokens
    checksum = context.checksum()
    context.destroy()
    assert list(context.outputs()) == []
    other = trial.load()
    assert _tokens(other) == tokens
    assert other.checksum() == checksum
    other.destroy()


def its_turns_have_a_timing(trial: Trial) -> None:
    """A turn tells the tokens of prompt and answer, and the time until the first and the last."""
    context = trial.load()
    assert context.turn() is None
    context.infer()
    turn = context.turn()
    assert turn is not None
    assert (turn.prompt_tokens, turn.generated_tokens) == (40, 6)
    assert turn.first_token_ns > 0
    assert turn.generation_ns > 0
    context.destroy()


def its_dups_answer_alike_in_any_order(trial: Trial) -> None:
    """Contexts over one model have equal tokens, and those that remain go on when others go."""
    if not trial.has("sessions_contexts"):
        return
    source = trial.source()
    tokens = _tokens(source)
    dups = [trial.runtime.dup(source, trial.memory()) for _ in range(2)]
    assert [_tokens(context) for context in (*dups, source)] == [tokens] * 3
    source.destroy()
    assert _tokens(dups[1]) == tokens
    dups[0].destroy()
    assert _tokens(dups[1]) == tokens
    dups[1].destroy()


def its_sequences_answer_alike(trial: Trial) -> None:
    """Sequences of one context have the tokens of a context alone, one by one and together."""
    alone = trial.load()
    tokens = _tokens(alone)
    alone.destroy()
    for scenario, (mechanism, unified) in _SEQUENCES.items():
        if not trial.has(scenario):
            continue
        contexts = trial.sequences(3, mechanism, unified)
        assert [_tokens(context) for context in contexts] == [tokens] * 3
        for _ in range(2):
            trial.runtime.infer_together(contexts)
            assert [_last_tokens(context) for context in contexts] == [tokens] * 3
        turns = [context.turn() for context in contexts]
        computed = [turn.prompt_tokens for turn in turns if turn]
        saved = _CONVERSATION.common if mechanism == "shared_prompt" else 0
        rest = _CONVERSATION.prompt - saved
        assert computed[1:] == [rest, rest]
        # A cache that finds equal prompts by itself has the first one's from its last turn.
        assert computed[0] in (_CONVERSATION.prompt, rest)
        assert contexts[1].account() == {}
        contexts[0].destroy()
        assert _tokens(contexts[2]) == tokens
        _destroy(contexts[1:])


def its_restored_prompts_answer_alike(trial: Trial) -> None:
    """A context that begins with a saved state has equal tokens, and computes the rest alone."""
    if not trial.has("sessions_restored_prompt"):
        return
    source = trial.source()
    tokens = _tokens(source)
    contexts = [trial.runtime.restored_prompt(source, trial.memory()) for _ in range(2)]
    assert [_tokens(context) for context in (*contexts, source)] == [tokens] * 3
    turn = contexts[0].turn()
    assert turn is not None
    assert turn.prompt_tokens == _CONVERSATION.prompt - _CONVERSATION.common
    states = [context.account().get("prompt_state_bytes", 0) for context in contexts]
    assert states[0] > 0 == states[1]
    source.destroy()
    assert _tokens(contexts[1]) == tokens
    _destroy(contexts)


def its_adapters_answer_like_merged_models(trial: Trial) -> None:
    """Contexts with adapters have the tokens of the merged models; the base keeps its own."""
    if not trial.has("sessions_adapters"):
        return
    base = trial.load()
    tokens = _tokens(base)
    for adapter, merged in zip(trial.files.adapters, trial.files.merged):
        context = trial.runtime.adapter(adapter, base, trial.memory())
        alone = trial.runtime.load(merged, None, trial.memory())
        assert _tokens(context) == _tokens(alone) != tokens
        assert _tokens(base) == tokens
        _destroy([context, alone])
    base.destroy()


def its_account_has_components(trial: Trial) -> None:
    """Whole numbers of bytes by component; a dup has no weights, and a cache of its own."""
    context = trial.source()
    context.infer()
    account = context.account()
    for component, size in account.items():
        assert component.endswith("_bytes")
        assert isinstance(size, int)
        assert size >= 0
    if account and trial.has("sessions_contexts"):
        dup = trial.runtime.dup(context, trial.memory())
        assert not dup.account().get("weights_bytes")
        assert dup.account().get("kv_cache_bytes") == account.get("kv_cache_bytes")
        dup.destroy()
    context.destroy()
    assert context.account() == {}


def its_estimate_is_the_account(trial: Trial) -> None:
    """What it tells beforehand is what a context then has, to the byte."""
    if not trial.implements("estimate"):
        return
    for tokens in (128, 300):
        memory = trial.memory(conversation=replace(_CONVERSATION, tokens=tokens))
        estimate = trial.runtime.estimate(trial.files.model, memory)
        context = trial.runtime.load(trial.files.model, None, memory)
        assert context.account() == estimate
        context.destroy()


def it_refuses_what_it_lacks(trial: Trial) -> None:
    """Mechanisms in its row, plans without a conversation, memory from outside."""
    source = trial.load()
    attempts: dict[str, Callable[[], object]] = {
        "sessions_contexts": lambda: trial.runtime.dup(source, trial.memory()),
        "sessions_restored_prompt": lambda: trial.runtime.restored_prompt(source, trial.memory()),
        "sessions_adapters": lambda: trial.runtime.adapter("any", source, trial.memory()),
    }
    for scenario, (mechanism, unified) in _SEQUENCES.items():
        attempts[scenario] = partial(trial.sequences, 3, mechanism, unified)
    for scenario, attempt in attempts.items():
        if not trial.has(scenario):
            assert _refusal(attempt)
    source.destroy()
    for fields in (
        {"conversation": None},
        {"internal": 0},
        {"outside": ("weights",)},
        {"outside": ("internal",)},
        {"zero_copy": ("input",)},
        {"io": 1},
        {"device_io": True},
        {"device": "cuda"},
    ):
        assert _refusal(partial(trial.load, **fields))


def it_has_the_options_of_its_row(trial: Trial) -> None:
    """Each is taken; another value is refused, and another name with the valid ones."""
    for option in trial.entry.options:
        context = trial.load(options=(*trial.options, option))
        assert len(_tokens(context)) == _CONVERSATION.generated
        context.destroy()
        name = option.partition("=")[0]
        if "." not in name:  # entries of ONNX Runtime have any text for a value
            assert name in _refusal(partial(trial.load, options=(f"{name}=unheard-of",)))
    assert "valid" in _refusal(lambda: trial.load(options=("no_such=option",)))


def it_names_a_file_that_is_no_model(trial: Trial) -> None:
    """The sentence has the file's name, and nothing crashes."""
    path = trial.folder / f"broken{trial.entry.suffix}"
    path.write_bytes(b"GIF89a and so on" * 100)
    assert path.name in _refusal(lambda: trial.runtime.load(str(path), None, trial.memory()))


#: All functions of this module whose names begin with the adapter.
CONTRACT: dict[str, Callable[[Trial], None]] = {
    name: function for name, function in list(globals().items()) if name.startswith(("it_", "its_"))
}
