"""The arguments of a call of `measure`, which override the options of the session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Optional

from reusebench.harness.conversations import MOST_TOKENS, ConversationRequest
from reusebench.harness.errors import UserError
from reusebench.harness.measuring.models.model_files import ModelFile
from reusebench.harness.measuring.models.model_sets import ModelSets
from reusebench.harness.settings import MOST_CONTEXTS, MOST_INFERENCES, Settings, excess

__all__ = ["Overrides"]

#: The largest valid value of each number.
_MOST: Mapping[str, int] = {
    "streams": MOST_CONTEXTS,
    "contexts": MOST_CONTEXTS,
    "repeats": MOST_CONTEXTS,
    "rounds": MOST_INFERENCES,
    "sessions": MOST_CONTEXTS,
    "tokens": MOST_TOKENS,
    "prompt": MOST_TOKENS,
    "generated": MOST_TOKENS,
    "common": MOST_TOKENS,
}


@dataclass(frozen=True)
class Overrides:
    """Values that override options; None, or no models: as the options say."""

    models: tuple[Path, ...] = ()
    streams: Optional[int] = None
    contexts: Optional[int] = None
    repeats: Optional[int] = None
    rounds: Optional[int] = None
    #: Language models only.
    sessions: Optional[int] = None
    tokens: Optional[int] = None
    prompt: Optional[int] = None
    generated: Optional[int] = None
    common: Optional[int] = None

    def __post_init__(self) -> None:
        """Raise UserError unless every number is valid."""
        for name, most in _MOST.items():
            value = getattr(self, name)
            if value is None:
                continue
            is_valid = type(value) is int and 1 <= value <= most
            if not is_valid:
                raise UserError(
                    f"measure({name}={value!r}) is not valid; valid: a whole number from 1 to"
                    f" {most:,}"
                )

    @property
    def _conversation(self) -> ConversationRequest:
        return ConversationRequest(self.tokens, self.prompt, self.generated, self.common)

    def settings(self, options: Settings) -> Settings:
        """Return the settings with these values; raise UserError if they exceed the bounds."""
        changed = replace(
            options,
            streams=self.streams or options.streams,
            contexts=self.contexts or options.contexts,
            repeats=self.repeats or options.repeats,
            most_repeats=self.repeats or options.most_repeats,
            rounds=self.rounds or options.rounds,
            sessions=self.sessions or options.sessions,
            turns=self.rounds or options.turns,
            conversation=self._conversation.conversation(options.conversation),
        )
        problem = excess(changed.streams * changed.contexts, changed.rounds)
        problem = problem or excess(changed.sessions, changed.turns)
        if problem:
            raise UserError(f"{problem}. Lower streams, contexts, sessions or rounds")
        return changed

    def model_sets(self, options: ModelSets) -> ModelSets:
        """Return the models with these files; raise UserError if one cannot be read."""
        files = tuple(ModelFile.of_path(path, "model") for path in self.models)
        options.user.check(files)
        return options.changed(files or options.files, self.streams or options.streams)
