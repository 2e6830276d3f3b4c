"""Layouts of conversations, and their plans."""

from __future__ import annotations

from reusebench.fit.sessions.layouts import (
    CONTEXTS,
    SEQUENCES,
    SHARED,
    UNIFIED,
    SessionLayout,
    layouts_of,
    plan_of,
)
from reusebench.measured.plan import DUP, LOAD, SEQUENCE, SHARED_PROMPT
from tests.fit.sessions.made_up import demand_of


def test_layouts_vary_kind_cache_and_micro_batch() -> None:
    """Each kind has each cache type with each micro-batch; other options are not varied."""
    layouts = list(layouts_of(demand_of(common=10)))
    assert layouts[0] == SessionLayout()
    assert {layout.kind for layout in layouts} == {CONTEXTS, SEQUENCES, UNIFIED, SHARED}
    assert len(layouts) == len(set(layouts)) == 4 * 3 * 2
    assert SessionLayout(UNIFIED, ("cache_type=q4_0", "n_ubatch=128")) in layouts
    assert not any("flash_attn=0" in layout.options for layout in layouts)


def test_layouts_that_make_no_sense() -> None:
    """One conversation has no sequences, and without common tokens no prompt is shared."""
    assert {layout.kind for layout in layouts_of(demand_of(sessions=1))} == {CONTEXTS}
    assert SHARED not in {layout.kind for layout in layouts_of(demand_of(common=0))}


def test_plans_of_layouts() -> None:
    """The first context is loaded with the options, and the others reuse it."""
    demand = demand_of(common=10)
    mechanisms = {CONTEXTS: DUP, SEQUENCES: SEQUENCE, UNIFIED: SEQUENCE, SHARED: SHARED_PROMPT}
    for kind, mechanism in mechanisms.items():
        layout = SessionLayout(kind, ("cache_type=q8_0",))
        plan = plan_of(layout, demand, 3, demand.conversation, "plan")
        assert [context.mechanism for context in plan.contexts] == [LOAD, mechanism, mechanism]
        assert plan.contexts[0].options == ("cache_type=q8_0",)
        assert plan.contexts[0].unified_cache == (kind in (UNIFIED, SHARED))


def test_tokens_that_an_inference_looks_over() -> None:
    """A cache that sequences share is looked over as a whole."""
    conversation = demand_of(tokens=100, prompt=90, common=40).conversation
    pools = [SessionLayout(kind).pool_tokens(3, conversation) for kind in (CONTEXTS, SEQUENCES)]
    assert pools == [100, 100]
    assert SessionLayout(UNIFIED).pool_tokens(3, conversation) == 300
    assert SessionLayout(SHARED).pool_tokens(3, conversation) == 40 + 3 * 60
