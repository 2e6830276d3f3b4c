"""The recommended layout of conversations."""

from __future__ import annotations

from reusebench.fit.sessions.layouts import CONTEXTS, SessionLayout, layouts_of
from reusebench.fit.sessions.prediction import SessionCosts
from reusebench.fit.sessions.sample import Account
from reusebench.fit.sessions.search import SessionChoice, SessionWish, choose
from reusebench.fit.sessions.study import Case
from tests.fit.sessions.made_up import demand_of, kv_bytes, measured_study


def _choice(wish: SessionWish, is_busy: bool = False) -> SessionChoice:
    demand = demand_of()
    accounts: dict[SessionLayout, tuple[Account, ...]] = {}
    for layout in layouts_of(demand):
        size = kv_bytes(Case(layout, demand.sessions, demand.conversation))
        accounts[layout] = ({"kv_cache_bytes": size},)
    return choose(demand, SessionCosts(measured_study(demand), accounts), wish, is_busy)


def _recommended(wish: SessionWish, is_busy: bool = False) -> SessionLayout:
    recommended = _choice(wish, is_busy).recommended
    assert recommended is not None
    return recommended.layout


def test_an_exact_cache_that_fits_is_preferred() -> None:
    """A cheaper type of the cache may change tokens: it is for those who have no room."""
    roomy = _choice(SessionWish(limit_bytes=1 << 40))
    assert roomy.recommended is not None
    assert roomy.recommended.layout.cache_type is None
    short = roomy.recommended.limited_bytes - 1
    assert _recommended(SessionWish(limit_bytes=round(short))).cache_type == "q8_0"


def test_nothing_fits() -> None:
    """The layout with the least memory is the answer."""
    choice = _choice(SessionWish(limit_bytes=1))
    assert choice.recommended == choice.candidates[0]
    assert not choice.candidates[0].fits(1)


def test_a_wished_speed() -> None:
    """Contexts take turns and are slower than sequences; a speed of busy hours refuses none."""
    slow = _choice(SessionWish()).today.prediction.tokens_per_s
    assert slow is not None
    assert _recommended(SessionWish(tokens_per_s=slow * 1.01)).kind != CONTEXTS
    assert _choice(SessionWish(tokens_per_s=1e9)).recommended is None
    assert _choice(SessionWish(tokens_per_s=1e9), is_busy=True).recommended is not None
