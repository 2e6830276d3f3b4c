"""The context and the component of NPU buffers."""

from __future__ import annotations

from typing import Any

import pytest

from reusebench.accounting.attribution import BufferPart, attribute
from reusebench.accounting.ledger import Ledger, Read
from reusebench.measured.plan import DUP, INTERNAL, SHARED_WEIGHTS, WEIGHTS, Context, Plan, Step
from reusebench.measured.runtimes.base import Allocation
from tests.accounting.hand_made import (
    ACCOUNT,
    KERNEL_MAPPING,
    PAGE,
    during,
    make_barriers,
    make_buffer,
    make_ledger,
    make_plan,
    make_submit,
    steady_of,
    tensors_in,
    weights_in,
)

_LOADS = make_plan(Context(0, 0), Context(0, 0))
_DUP = make_plan(Context(0, 0), Context(0, 0, DUP, 0))


def _parts(plan: Plan, ledger: Ledger, **options: Any) -> list[tuple[int, int | None, str, int]]:
    """Return the parts at the end of the steady phase, in pages."""
    barriers = make_barriers(plan, **options)
    steady = barriers[steady_of(barriers)]
    return [
        (part.buffer, part.context, part.component, part.size_bytes // PAGE)
        for part in attribute(plan, barriers, ledger, steady.at_ns)
    ]


# Whose


def test_a_buffer_belongs_to_the_context_whose_step_it_was_made_in() -> None:
    """A buffer belongs to the context in whose step it was made."""
    plan = make_plan(Context(0, 0, internal=0), Context(0, 1, internal=0))
    barriers = make_barriers(plan)
    steps = [step for step in plan.steps() if step.context is not None and step.phase != "destroy"]
    assert [step.phase for step in steps] == [
        *["context"] * 2,
        "internal_memory",
        *["first_inference"] * 2,
    ]
    buffers = [
        make_buffer(number, PAGE, during(barriers, *step))
        for number, step in enumerate(steps, start=1)
    ]
    assert [part[1] for part in _parts(plan, make_ledger(*buffers))] == [
        step.context for step in steps
    ]


@pytest.mark.parametrize("step", [Step("imported"), Step("steady")])
def test_a_buffer_of_no_context(step: Step) -> None:
    """Buffers of the import, and of the steady phase, belong to no context."""
    barriers = make_barriers(_LOADS)
    assert _parts(_LOADS, make_ledger(make_buffer(1, PAGE, during(barriers, *step)))) == [
        (1, None, "other", 1)
    ]


def test_only_what_lives_is_attributed() -> None:
    """Freed and future buffers are no parts."""
    barriers = make_barriers(_LOADS)
    made = during(barriers, "context", 0)
    gone = make_buffer(1, PAGE, made, died_ns=during(barriers, "first_inference", 0))
    later = make_buffer(2, PAGE, during(barriers, "destroy", 1))
    assert _parts(_LOADS, make_ledger(gone, later, make_buffer(3, PAGE, made))) == [
        (3, 0, "register_commands", 1)
    ]


# Components


def test_the_buffers_of_an_init() -> None:
    """Without submits, flags and sizes tell the task list and internal memory.

    The rest is weights, register commands and a copy of the task list. Without a buffer of its own,
    as with librknnmrt, internal memory is in the same buffer.
    """
    made = during(make_barriers(_LOADS), "context", 1)
    tasks = make_buffer(1, PAGE - 20, made, flags=3 | KERNEL_MAPPING)
    large = make_buffer(2, 12 * PAGE, made)
    internal = make_buffer(3, ACCOUNT["internal_bytes"], made)
    assert _parts(_LOADS, make_ledger(tasks, large, internal)) == [
        (1, 1, "task_list", 1),
        (2, 1, "weights", 8),
        (2, 1, "task_list_copy", 1),
        (2, 1, "register_commands", 3),
        (3, 1, "internal", 3),
    ]
    assert _parts(_LOADS, make_ledger(large)) == [
        (2, 1, "weights", 8),
        (2, 1, "internal", 3),
        (2, 1, "register_commands", 1),
    ]


@pytest.mark.parametrize("context", [Context(0, 0, internal=0), Context(0, 0, outside=(INTERNAL,))])
def test_internal_memory_of_the_application_is_not_beside_weights(context: Context) -> None:
    """Only the first sharing context has the buffer; the library reports the size for each."""
    plan = make_plan(context, context)
    large = make_buffer(1, 12 * PAGE, during(make_barriers(plan), "context", 1))
    assert _parts(plan, make_ledger(large)) == [
        (1, 1, "weights", 8),
        (1, 1, "register_commands", 4),
    ]


def test_submits_decide_what_sizes_do_not() -> None:
    """Submits tell a task list without the flag, and register commands beside weights."""
    made = during(make_barriers(_LOADS), "context", 0)
    ledger = make_ledger(
        make_buffer(1, PAGE, made),
        make_buffer(2, 10 * PAGE, made),
        make_buffer(3, PAGE, made),
        submits=[make_submit(1, 2, weights_in(2), tensors_in(3))],
    )
    assert _parts(_LOADS, ledger) == [
        (1, 0, "task_list", 1),
        (2, 0, "weights", 8),
        (2, 0, "register_commands", 2),
        (3, 0, "other", 1),
    ]


def test_weights_stand_apart_where_a_run_reads_them_elsewhere() -> None:
    """Register commands in their own buffer are no weights, however large."""
    made = during(make_barriers(_LOADS), "context", 0)
    ledger = make_ledger(
        make_buffer(1, PAGE, made, flags=KERNEL_MAPPING),
        make_buffer(2, 10 * PAGE, made),
        make_buffer(3, 9 * PAGE, made),
        submits=[make_submit(1, 2, weights_in(3))],
    )
    assert (2, 0, "register_commands", 10) in _parts(_LOADS, ledger)


@pytest.mark.parametrize("walked", [True, False])
@pytest.mark.parametrize("mechanism", [DUP, SHARED_WEIGHTS])
def test_shared_weights_count_once(mechanism: str, walked: bool) -> None:
    """The reported weights of a dup or slave are in the source's buffer, not in its own."""
    plan = make_plan(Context(0, 0), Context(0, 0, mechanism, 0))
    barriers = make_barriers(plan)
    source, further = (during(barriers, "context", index) for index in (0, 1))
    ledger = make_ledger(
        make_buffer(1, PAGE, source, flags=KERNEL_MAPPING),
        make_buffer(2, 10 * PAGE, source),
        make_buffer(3, PAGE, further, flags=KERNEL_MAPPING),
        make_buffer(4, 9 * PAGE, further),
        submits=[make_submit(1, 2, weights_in(2)), make_submit(3, 4, weights_in(2))]
        if walked
        else [],
    )
    assert _parts(plan, ledger) == [
        (1, 0, "task_list", 1),
        (2, 0, "weights", 8),
        (2, 0, "register_commands", 2),
        (3, 1, "task_list", 1),
        (4, 1, "register_commands", 9),
    ]


def test_what_the_first_inference_makes_is_input_and_output() -> None:
    """Buffers that the library makes in the first inference are input and output."""
    barriers = make_barriers(_LOADS)
    ledger = make_ledger(make_buffer(1, 2 * PAGE, during(barriers, "first_inference", 1)))
    assert _parts(_LOADS, ledger) == [(1, 1, "io", 2)]


@pytest.mark.parametrize(
    ("kind", "component"),
    [("weights", "weights"), ("internal", "internal"), ("input", "io"), ("output", "io")],
)
@pytest.mark.parametrize("flags", [3, KERNEL_MAPPING])
def test_what_the_adapter_allocated(kind: str, component: str, flags: int) -> None:
    """The adapter's allocations, matched by inode, win over size and flags."""
    plan = make_plan(Context(0, 0, outside=(WEIGHTS, INTERNAL)))
    made = during(make_barriers(plan), "context", 0)
    allocation = Allocation(kind, 10 * PAGE, 77)
    ledger = make_ledger(make_buffer(1, 10 * PAGE, made, inode=77, flags=flags))
    for step in (Step("context", 0), Step("first_inference", 0)):
        assert _parts(plan, ledger, allocations={step: [allocation]}) == [(1, 0, component, 10)]


def test_a_buffer_without_an_inode_is_not_the_adapters() -> None:
    """Inode 0, of memory without a file descriptor, matches no buffer."""
    made = during(make_barriers(_LOADS), "context", 0)
    allocation = Allocation("input", PAGE, 0)
    parts = _parts(
        _LOADS,
        make_ledger(make_buffer(1, PAGE, made)),
        allocations={Step("context", 0): [allocation]},
    )
    assert parts == [(1, 0, "register_commands", 1)]


@pytest.mark.parametrize(
    ("size", "internal", "component"),
    [
        (3 * PAGE - 100, 3 * PAGE - 100, "internal"),
        (4 * PAGE, 3 * PAGE - 100, "register_commands"),
        (2 * PAGE, 3 * PAGE - 100, "register_commands"),
        (100, 0, "register_commands"),
    ],
)
def test_internal_memory_is_recognised_by_its_size(
    size: int, internal: int, component: str
) -> None:
    """Internal memory has the reported size, rounded up to a page; zero bytes match no buffer."""
    ledger = make_ledger(make_buffer(1, size, during(make_barriers(_LOADS), "context", 0)))
    (_, _, name, _), *padding = _parts(
        _LOADS, ledger, accounts={0: {**ACCOUNT, "internal_bytes": internal}}
    )
    assert name == component
    assert {name for _, _, name, _ in padding} <= {"padding"}


def test_parts_keep_every_byte() -> None:
    """Weights leave the requested rest of their buffer to the register commands."""
    barriers = make_barriers(_DUP, accounts={0: {**ACCOUNT, "weights_bytes": 8 * PAGE - 123}})
    steady = barriers[steady_of(barriers)]
    ledger = make_ledger(make_buffer(1, 9 * PAGE - 7, during(barriers, "context", 0)))
    assert attribute(_DUP, barriers, ledger, steady.at_ns) == [
        BufferPart(1, 0, "weights", 8 * PAGE - 123),
        BufferPart(1, 0, "register_commands", PAGE + 123 - 7),
        BufferPart(1, 0, "padding", 7),
    ]


#: Bytes that librknnrt 2.3.2 requested and reported for networks on virtual boards: the buffer with
#: the weights, the weights, the distance of the first register commands from its beginning, and the
#: task list; last its own `regcmdbuffer size`.
_LIBRKNNRT = {
    "RK3588, MobileNetV2": (4061120, 3697472, 3697472, 14080, 349568),
    "RK3588, a convolution": (13248, 6144, 6144, 440, 6656),
    "RK3588, a sum, without weights": (4096, 0, 0, 240, 3840),
    "RK3576, MobileNetV2, constants beside the weights": (4038976, 3731136, 3770112, 9280, 259584),
    "RK3566, a frame, constants beside the weights": (160320, 192, 5312, 21280, 133696),
    "RV1126B, MobileNetV2, constants beside the weights": (3835328, 3731136, 3770112, 2200, 62976),
}


def _loaded(name: str, core: int | None = None) -> tuple[Plan, Any, Ledger]:
    """Return a plan of one context, its barriers, and its ledger, as librknnrt does it."""
    asked, weights, start, tasks, _ = _LIBRKNNRT[name]
    plan = make_plan(Context(0, 0, core=core), cores=2)
    barriers = make_barriers(plan, accounts={0: {**ACCOUNT, "weights_bytes": weights}})
    made = during(barriers, "context", 0)
    reads = [Read("0x0010", 2, "live", 1, lowest_bytes=start)]
    if weights:
        reads.append(weights_in(2))
    ledger = make_ledger(
        make_buffer(1, tasks, made),
        make_buffer(2, asked, made),
        make_buffer(3, ACCOUNT["internal_bytes"], made),
        submits=[make_submit(1, 2, *reads)],
    )
    return plan, barriers, ledger


def _sizes(plan: Plan, barriers: Any, ledger: Ledger) -> dict[str, int]:
    """Return the parts of the second buffer."""
    steady = barriers[steady_of(barriers)]
    parts = attribute(plan, barriers, ledger, steady.at_ns)
    return {part.component: part.size_bytes for part in parts if part.buffer == 2}


@pytest.mark.parametrize("name", _LIBRKNNRT)
def test_register_commands_are_what_the_library_calls_so(name: str) -> None:
    """Weights, constants, a copy of the task list and padding are no register commands."""
    asked, weights, start, tasks, commands = _LIBRKNNRT[name]
    sizes = _sizes(*_loaded(name))
    assert sizes.pop("register_commands") == commands
    assert sizes.pop("weights", 0) == weights
    assert sizes.pop("other", 0) == start - weights
    assert 0 <= sizes.pop("task_list_copy") - tasks < 64
    assert sizes.pop("padding", 0) == -asked % PAGE
    assert sizes == {}


def test_a_context_of_another_core_does_not_show_where_commands_begin() -> None:
    """A core may have commands of its own behind those of the first one."""
    name = "RK3576, MobileNetV2, constants beside the weights"
    sizes = _sizes(*_loaded(name, core=1))
    assert "other" not in sizes
    assert sum(sizes.values()) == -(-_LIBRKNNRT[name][0] // PAGE) * PAGE


def test_a_dup_has_register_commands_and_padding_alone() -> None:
    """The buffer of a dup holds neither weights nor a copy of the task list."""
    barriers = make_barriers(_DUP)
    made = during(barriers, "context", 1)
    ledger = make_ledger(
        make_buffer(1, 2440, made, flags=3 | KERNEL_MAPPING), make_buffer(2, 45568, made)
    )
    assert _sizes(_DUP, barriers, ledger) == {"register_commands": 45568, "padding": 3584}


def test_librknnmrt_has_no_copy_of_the_task_list() -> None:
    """Its buffer holds register commands, weights and internal memory."""
    barriers = make_barriers(
        _LOADS, accounts={0: {"weights_bytes": 86400, "internal_bytes": 61440, "dma_bytes": 159744}}
    )
    made = during(barriers, "context", 0)
    ledger = make_ledger(
        make_buffer(1, 448, made, flags=2 | KERNEL_MAPPING), make_buffer(2, 157632, made)
    )
    assert _sizes(_LOADS, barriers, ledger) == {
        "weights": 86400,
        "internal": 61440,
        "register_commands": 9792,
        "padding": 2112,
    }
