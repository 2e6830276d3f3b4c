"""The conversation that every context of a language model holds, as options and arguments say."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional

from reusebench.harness.errors import UserError
from reusebench.measured.plan import Conversation

__all__ = ["DEFAULT_CONVERSATION", "MOST_TOKENS", "ConversationRequest"]

#: Tokens of a conversation. No model has more.
MOST_TOKENS = 1 << 24
#: The conversation unless options or a plan say otherwise. OpenVINO GenAI shares whole blocks of 32
#: tokens: the prompt has no more of them than the common tokens have.
DEFAULT_CONVERSATION = Conversation(tokens=1024, prompt=120, generated=16, common=96)
#: llama.cpp rounds the room of a conversation up to a multiple of this.
_ROOM = 256


@dataclass(frozen=True)
class ConversationRequest:
    """The numbers that the user gives; None: the default's, as far as the others allow."""

    tokens: Optional[int] = None
    prompt: Optional[int] = None
    generated: Optional[int] = None
    common: Optional[int] = None

    def conversation(self, default: Conversation) -> Conversation:
        """Return the conversation; raise UserError if the numbers contradict each other.

        If the room is given alone, prompt and answer are the default's, or smaller to fit in. If
        prompt or answer need more room than the default has, they get it.
        """
        needed = (self.prompt or default.prompt) + (self.generated or default.generated)
        tokens = self.tokens or max(default.tokens, math.ceil(needed / _ROOM) * _ROOM)
        generated = self.generated or self._fitting(default.generated, tokens, self.prompt)
        prompt = self.prompt or self._fitting(default.prompt, tokens, generated)
        if prompt + generated > tokens:
            raise UserError(
                f"a conversation of {tokens:,} tokens has no room for a prompt of {prompt:,} and an"
                f" answer of {generated:,}: they need {prompt + generated:,}. Give more tokens, or"
                " a smaller prompt or answer"
            )
        common = self.common
        if common is None:
            common = default.common * prompt // default.prompt
            common = min(default.common, common)
        if not 0 <= common < prompt:
            raise UserError(
                f"{common:,} common tokens are not valid for a prompt of {prompt:,}; valid: from 0"
                f" to {prompt - 1:,}, since each prompt has an end of its own"
            )
        return Conversation(tokens, prompt, generated, common)

    def remark(self, default: Conversation) -> str:
        """Return a sentence about numbers that follow from others; empty if none differs from the
        default without being given.
        """
        conversation = self.conversation(default)
        names = []
        for name in ("tokens", "prompt", "generated", "common"):
            value = getattr(conversation, name)
            if getattr(self, name) is None and value != getattr(default, name):
                names.append(f"--{name} {value:,}")
        if not names:
            return ""
        return f"language models: {', '.join(names)}, to suit the numbers that are given"

    @staticmethod
    def _fitting(default: int, tokens: int, other: int | None) -> int:
        """Return the default, or the part of the room that is left; a tenth if nothing else is
        known.
        """
        left = tokens - other if other else tokens // 10
        return max(1, min(default, left))
