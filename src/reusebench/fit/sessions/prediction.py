"""The predicted memory and speed of a layout of conversations.

Memory is the sum of

- the process with the runtime imported, measured;
- caches, by the runtime's own account of the very layout, which is exact;
- the rest: weights, vocabulary, scratch and what the runtime keeps for a context. It is measured
  for one short conversation and for several. What a longer one adds to it, in scratch and in lists
  of tokens, is a line through two lengths.

The time of a token is a line through the two lengths, too, since attention looks over all earlier
tokens. For several sequences it is measured with all of them, of few tokens, and each adds what its
own length adds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional

from reusebench.fit.sessions.layouts import CONTEXTS, SEQUENCES, SHARED, SessionLayout
from reusebench.fit.sessions.sample import KV_CACHE, Account, Sample, total
from reusebench.fit.sessions.study import DEFAULT, Case, SessionStudy
from reusebench.measured.plan import Conversation

__all__ = ["SessionCosts", "SessionPrediction"]


@dataclass(frozen=True)
class SessionPrediction:
    """The figures of a layout with all conversations."""

    base_bytes: int
    #: Caches of all conversations.
    kv_bytes: int
    #: The whole process in the steady state.
    application_bytes: float
    #: Its peak, while the model is loaded or conversations run.
    peak_bytes: float
    #: Memory of one conversation more than these.
    further_bytes: float
    #: Tokens per second that each conversation generates while all do; None if unknown.
    tokens_per_s: Optional[float]
    #: The same of one conversation while the others wait.
    alone_tokens_per_s: Optional[float]
    #: Time to compute the prompts of all conversations, one after the other.
    prompts_s: Optional[float]
    #: Whether this kind was measured with these options; otherwise their effects were added.
    is_measured: bool
    #: Whether its tokens were those of the runtime's defaults, in the short conversation that was
    #: measured. Numbers are added in another order in a cache that sequences share.
    has_equal_tokens: bool


class SessionCosts:
    """Predictions from the plans of a study and from accounts."""

    def __init__(
        self,
        study: SessionStudy,
        accounts: Mapping[SessionLayout, tuple[Account, ...]] | None,
    ) -> None:
        """`accounts` has the account of each layout with all conversations; None if the runtime
        tells none before contexts are made.
        """
        self._study = study
        self._accounts = accounts
        self._wished = study.demand.conversation
        self._depth = self._wished.prompt + self._wished.generated

    def can_predict(self, layout: SessionLayout) -> bool:
        """Whether all was measured that the prediction needs; a plan of it may have failed."""
        try:
            self.predict(layout)
        except KeyError:
            return False
        return True

    def predict(self, layout: SessionLayout) -> SessionPrediction:
        """Return the prediction of a layout; raise KeyError if a plan for it failed."""
        sessions = self._study.demand.sessions
        reference = self._alone(DEFAULT)
        alone = self._alone(layout)
        kv_bytes = self._kv(layout)
        rest_bytes = alone.rest_bytes + self._per_token(layout) * self._grown_depth(layout, 1)
        if sessions > 1:
            rest_bytes += self._further_rests(layout)
        over_base = kv_bytes + rest_bytes
        # A model is read before its cache is made: the peak meanwhile does not grow with that.
        loading_bytes = alone.loaded_bytes + alone.load_transient_bytes
        peak_over_base = max(over_base + alone.run_transient_bytes, loading_bytes)
        further_bytes = self._further(layout)
        token_ns = self._token_ns(layout)
        return SessionPrediction(
            base_bytes=reference.base_bytes,
            kv_bytes=round(kv_bytes),
            application_bytes=reference.base_bytes + over_base,
            peak_bytes=reference.base_bytes + peak_over_base,
            further_bytes=further_bytes,
            tokens_per_s=1e9 / token_ns if token_ns else None,
            alone_tokens_per_s=1e9 / self._token_alone_ns(layout),
            prompts_s=sessions * self._wished.prompt / alone.prompt_tokens_per_s,
            is_measured=self._several(layout) is not None,
            has_equal_tokens=self._has_equal_tokens(layout),
        )

    def _has_equal_tokens(self, layout: SessionLayout) -> bool:
        """Whether options and kind gave the tokens of the defaults, together or each alone."""
        wanted = self._alone(DEFAULT).digests
        measured = [self._alone(layout)]
        several = self._several(layout) or self._several(SessionLayout(layout.kind))
        if several is not None:
            measured.append(several)
        return all(sample.digests == wanted for sample in measured)

    # Memory

    def _alone(self, layout: SessionLayout) -> Sample:
        """Return the figures of one conversation with the options of the layout.

        Options that were not measured together are not known to be independent: the largest of
        their effects would be a guess. The study measures them before they are recommended.
        """
        options = SessionLayout(CONTEXTS, layout.options)
        sample = self._study.sample(Case(options, 1, self._study.conversation))
        if sample is None:
            raise KeyError(options)
        return sample

    def _two_lengths(self, layout: SessionLayout) -> tuple[Sample, Sample] | None:
        """Return the figures of one conversation of the study's two lengths, with the options of
        the layout; None if only one of them was measured.
        """
        options = SessionLayout(CONTEXTS, layout.options)
        study = self._study
        one = study.sample(Case(options, 1, study.conversation))
        other = study.sample(Case(options, 1, study.other_conversation))
        return (one, other) if one and other else None

    @property
    def _lengthened(self) -> int:
        """The tokens that the other length has more; negative if it has fewer."""
        return _tokens(self._study.other_conversation) - _tokens(self._study.conversation)

    def _per_token(self, layout: SessionLayout) -> float:
        """Return the bytes that a token more in a conversation adds, apart from its cache."""
        lengths = self._two_lengths(layout) or self._two_lengths(DEFAULT)
        if lengths is None:
            raise KeyError(DEFAULT)
        if not self._lengthened:
            return 0.0
        one, other = lengths
        return max(0.0, (other.rest_bytes - one.rest_bytes) / self._lengthened)

    def _grown_depth(self, layout: SessionLayout, sessions: int) -> int:
        """Return the tokens beyond the measured ones that an inference of `layout` looks over."""
        measured = layout.pool_tokens(sessions, self._study.conversation)
        return layout.pool_tokens(sessions, self._wished) - measured

    def _kv(self, layout: SessionLayout) -> float:
        """Return the bytes of all caches."""
        if self._accounts is not None and layout in self._accounts:
            return total(self._accounts[layout], KV_CACHE)
        return self._alone(layout).kv_bytes * self._cached_tokens(layout)

    def _cached_tokens(self, layout: SessionLayout) -> float:
        """Return the tokens that there is room for, relative to the measured conversation."""
        sessions = self._study.demand.sessions
        room = sessions * self._wished.tokens
        if layout.kind == SHARED:
            room -= (sessions - 1) * self._wished.common
        return room / self._study.conversation.tokens

    def _further_rests(self, layout: SessionLayout) -> float:
        """Return the bytes of all conversations after the first, apart from caches."""
        sessions = self._study.demand.sessions
        measured = self._further_rest(layout)
        if layout.kind == CONTEXTS:
            grown = self._per_token(layout) * self._grown_depth(layout, 1)
            return (sessions - 1) * (measured + grown)
        pool_growth = self._grown_depth(layout, sessions) - self._grown_depth(layout, 1)
        return (sessions - 1) * measured + self._per_token(layout) * max(0, pool_growth)

    def _several(self, layout: SessionLayout) -> Sample | None:
        """Return the figures of several conversations in the layout; None if not measured."""
        return self._study.sample(self._study.several(layout))

    def _further_rest(self, layout: SessionLayout) -> float:
        """Return the bytes of a further conversation apart from its cache, as measured."""
        several = self._several(layout)
        if several is not None:
            return self._further_rest_in(several, layout)
        plain = SessionLayout(layout.kind)
        several = self._several(plain)
        if several is None:
            raise KeyError(plain)
        further = self._further_rest_in(several, plain)
        if layout.kind == CONTEXTS:
            # The options change further contexts as they change the first.
            further += self._alone(layout).rest_bytes - self._alone(DEFAULT).rest_bytes
        return further

    def _further_rest_in(self, several: Sample, layout: SessionLayout) -> float:
        """Return the same of one measured layout."""
        if layout.kind == CONTEXTS:
            return several.last_bytes - several.accounts[-1].get(KV_CACHE, 0)
        return several.rest_bytes - self._alone(layout).rest_bytes

    def _further(self, layout: SessionLayout) -> float:
        """Return the bytes of one conversation more."""
        sessions = self._study.demand.sessions
        if sessions == 1:
            return self._kv(layout)
        return (self._kv(layout) + self._further_rests(layout)) / sessions

    # Speed

    def _token_alone_ns(self, layout: SessionLayout) -> float:
        """Return the time of a token of one conversation at its full length."""
        alone = self._alone(layout)
        return alone.token_ns + self._ns_per_depth(layout) * (
            self._depth - _tokens(self._study.conversation)
        )

    def _ns_per_depth(self, layout: SessionLayout) -> float:
        """Return the time that each earlier token adds to a token."""
        factor = 1.0
        lengths = self._two_lengths(layout)
        if lengths is None:
            factor = self._alone(layout).token_ns / self._alone(DEFAULT).token_ns
            lengths = self._two_lengths(DEFAULT)
        if lengths is None:
            raise KeyError(DEFAULT)
        if not self._lengthened:
            return 0.0
        one, other = lengths
        return max(0.0, factor * (other.token_ns - one.token_ns) / self._lengthened)

    def _token_ns(self, layout: SessionLayout) -> float | None:
        """Return the time in which each conversation generates a token, while all do."""
        sessions = self._study.demand.sessions
        if layout.kind == CONTEXTS or sessions == 1:
            return sessions * self._token_alone_ns(layout)
        short = self._study.short_conversation
        together = self._study.sample(Case(SessionLayout(SEQUENCES), sessions, short))
        if together is None:
            return None
        factor = self._alone(layout).token_ns / self._alone(DEFAULT).token_ns
        grown = layout.pool_tokens(sessions, self._wished) - _tokens(short)
        return factor * together.token_ns + sessions * self._ns_per_depth(layout) * grown


def _tokens(conversation: Conversation) -> int:
    return conversation.prompt + conversation.generated
