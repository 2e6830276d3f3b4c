"""Predictions of memory and speed of conversations, where the truth is known."""

from __future__ import annotations

import pytest

from reusebench.fit.sessions.layouts import (
    CONTEXTS,
    SEQUENCES,
    SHARED,
    UNIFIED,
    SessionDemand,
    SessionLayout,
    layouts_of,
)
from reusebench.fit.sessions.prediction import SessionCosts
from reusebench.fit.sessions.sample import Account
from reusebench.fit.sessions.study import Case
from tests.fit.sessions.made_up import (
    BASE,
    OPTIONS,
    demand_of,
    kv_bytes,
    measured_study,
    peak_bytes,
    token_ns,
)


def _accounts(demand: SessionDemand) -> dict[SessionLayout, tuple[Account, ...]]:
    accounts: dict[SessionLayout, tuple[Account, ...]] = {}
    for layout in layouts_of(demand):
        case = Case(layout, demand.sessions, demand.conversation)
        accounts[layout] = ({"kv_cache_bytes": kv_bytes(case)},)
    return accounts


@pytest.mark.parametrize("prompt", [4080, 700, 300])
@pytest.mark.parametrize("kind", [CONTEXTS, SEQUENCES, UNIFIED, SHARED])
@pytest.mark.parametrize("options", [(), ("cache_type=q4_0",)])
def test_memory_of_long_conversations(kind: str, options: tuple[str, ...], prompt: int) -> None:
    """Memory that grows in lines is predicted within a thousandth, whatever was measured."""
    demand = demand_of(tokens=prompt + 16, prompt=prompt, common=prompt // 3)
    costs = SessionCosts(measured_study(demand), _accounts(demand))
    case = Case(SessionLayout(kind, options), demand.sessions, demand.conversation)
    prediction = costs.predict(case.layout)
    assert prediction.kv_bytes == kv_bytes(case)
    assert prediction.application_bytes == pytest.approx(BASE + peak_bytes(case), rel=1e-3)
    assert prediction.peak_bytes >= prediction.application_bytes


def test_memory_without_accounts() -> None:
    """Caches then follow from the room that the measured conversations had."""
    demand = demand_of(prompt=3999, tokens=4096)
    costs = SessionCosts(measured_study(demand), None)
    for kind in (CONTEXTS, SEQUENCES):
        case = Case(SessionLayout(kind), demand.sessions, demand.conversation)
        prediction = costs.predict(case.layout)
        assert prediction.application_bytes == pytest.approx(BASE + peak_bytes(case), rel=1e-3)


@pytest.mark.parametrize("sessions", [2, 4])
@pytest.mark.parametrize("kind", [CONTEXTS, SEQUENCES])
def test_speed_with_full_contexts(kind: str, sessions: int) -> None:
    """Contexts take turns; sequences generate together; earlier tokens take their time."""
    demand = demand_of(sessions)
    costs = SessionCosts(measured_study(demand), _accounts(demand))
    case = Case(SessionLayout(kind), demand.sessions, demand.conversation)
    time_ns = token_ns(case) * (demand.sessions if kind == CONTEXTS else 1)
    prediction = costs.predict(case.layout)
    assert prediction.tokens_per_s == pytest.approx(1e9 / time_ns, rel=1e-3)


def test_the_peak_while_a_model_is_loaded() -> None:
    """One small conversation takes less than reading the model does for a while; many do not."""
    demand = demand_of(sessions=1, tokens=32, prompt=16)
    prediction = SessionCosts(measured_study(demand), _accounts(demand)).predict(SessionLayout())
    assert prediction.peak_bytes > prediction.application_bytes
    demand = demand_of()
    prediction = SessionCosts(measured_study(demand), _accounts(demand)).predict(SessionLayout())
    assert prediction.peak_bytes == prediction.application_bytes


def test_other_tokens_are_told() -> None:
    """A cache of another type may change the tokens; the checksums of the small plans tell."""
    demand = demand_of()
    costs = SessionCosts(measured_study(demand), _accounts(demand))
    assert costs.predict(SessionLayout(SEQUENCES)).has_equal_tokens
    assert not costs.predict(SessionLayout(SEQUENCES, OPTIONS[:1])).has_equal_tokens


def test_a_kind_that_failed_is_not_predicted() -> None:
    """The others are."""
    costs = SessionCosts(measured_study(demand_of(), UNIFIED), None)
    assert not costs.can_predict(SessionLayout(UNIFIED))
    assert costs.can_predict(SessionLayout(SEQUENCES))
