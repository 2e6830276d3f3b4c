"""The conversation of language models that options and arguments give."""

from __future__ import annotations

import pytest

from reusebench.harness.conversations import DEFAULT_CONVERSATION, ConversationRequest
from reusebench.harness.errors import UserError
from reusebench.measured.plan import Conversation


@pytest.mark.parametrize(
    ("request_of_user", "expected"),
    [
        (ConversationRequest(), DEFAULT_CONVERSATION),
        (ConversationRequest(tokens=4096), Conversation(4096, 120, 16, 96)),
        # A small room: a tenth for the answer, the rest for the prompt, common in proportion.
        (ConversationRequest(tokens=60), Conversation(60, 54, 6, 43)),
        (ConversationRequest(prompt=2000), Conversation(2048, 2000, 16, 96)),
        (ConversationRequest(generated=2000), Conversation(2304, 120, 2000, 96)),
        (ConversationRequest(prompt=10), Conversation(1024, 10, 16, 8)),
        (ConversationRequest(100, 90, 10, 0), Conversation(100, 90, 10, 0)),
    ],
)
def test_numbers_that_are_not_given(
    request_of_user: ConversationRequest, expected: Conversation
) -> None:
    """They are the default's, or suit those that are given; a remark names those that differ."""
    assert request_of_user.conversation(DEFAULT_CONVERSATION) == expected
    remark = request_of_user.remark(DEFAULT_CONVERSATION)
    for name in ("tokens", "prompt", "generated", "common"):
        is_told = f"--{name} " in remark
        given = getattr(request_of_user, name)
        differs = getattr(expected, name) != getattr(DEFAULT_CONVERSATION, name)
        assert is_told == (given is None and differs)


@pytest.mark.parametrize(
    ("request_of_user", "words"),
    [
        (ConversationRequest(100, 90, 20), "of 100 tokens has no room .* they need 110"),
        (ConversationRequest(tokens=1), "of 1 tokens has no room for a prompt of 1 and an answer"),
        (ConversationRequest(common=120), "120 common tokens .* valid: from 0 to 119"),
    ],
)
def test_numbers_that_contradict_each_other(
    request_of_user: ConversationRequest, words: str
) -> None:
    """The sentence has the numbers and what is valid."""
    with pytest.raises(UserError, match=words):
        request_of_user.conversation(DEFAULT_CONVERSATION)
