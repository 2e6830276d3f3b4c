"""The account of ledgers of the mainline driver rocket, as Mesa's delegate makes its buffers.

The network has four convolutions; its buffers and their only submit are those of Debian's 26.1.6.
"""

from __future__ import annotations

from collections.abc import Sequence

from reusebench.accounting.account import Account, account_of_ledger
from reusebench.accounting.domains import DomainUse
from reusebench.accounting.ledger import Buffer, Ledger, Mapping, Read, Submit
from reusebench.accounting.requested import requested_sizes
from reusebench.accounting.rocket import BIAS_REGISTER, ROCKET, WEIGHT_REGISTER, rocket_components
from reusebench.accounting.sharing import Finding
from reusebench.accounting.sizes import ContextMemory
from reusebench.measured.plan import DUP, SHARED_CONTEXT, Context, Plan
from tests.accounting.hand_made import (
    PAGE,
    during,
    make_barriers,
    make_buffer,
    make_ledger,
    make_plan,
    steady_of,
)

_LAYERS = 4
_WEIGHTS_BYTES = 73_728
_BIASES_BYTES = 256
_TENSOR_BYTES = 131_072
_COMMANDS_BYTES = 1_088
#: A context of this network, its buffers in whole pages.
_MEMORY = ContextMemory(
    weights_bytes=4 * _WEIGHTS_BYTES,
    biases_bytes=4 * PAGE,
    internal_bytes=3 * _TENSOR_BYTES,
    register_commands_bytes=4 * PAGE,
    task_list_bytes=0,
    task_list_copy_bytes=0,
    padding_bytes=0,
    io_bytes=2 * _TENSOR_BYTES,
    other_bytes=0,
)


def _buffers(context: int, born_ns: int) -> list[Buffer]:
    """Return the buffers of one context, numbered from 100 times the context plus 1."""
    sizes = [_WEIGHTS_BYTES, _BIASES_BYTES] * _LAYERS
    sizes += [_TENSOR_BYTES] * (_LAYERS + 1) + [_COMMANDS_BYTES] * _LAYERS
    return [
        make_buffer(100 * context + number, size, born_ns, source=ROCKET, flags=0)
        for number, size in enumerate(sizes, start=1)
    ]


def _submit(context: int, at_ns: int = 0, names_tensors: bool = True) -> Submit:
    """Return the submit of one context: each layer reads the tensor that the one before wrote."""
    first = 100 * context
    reads = []
    for layer in range(_LAYERS):
        reads += [
            Read("0x1070", first + 9 + layer, "live", 1),
            Read(WEIGHT_REGISTER, first + 1 + 2 * layer, "live", 1),
            Read("0x4020", first + 10 + layer, "live", 1),
            Read(BIAS_REGISTER, first + 2 + 2 * layer, "live", 1),
        ]
    tensors = tuple(range(first + 9, first + 9 + _LAYERS + 1)) if names_tensors else ()
    commands = tuple(range(first + 14, first + 14 + _LAYERS))
    return Submit(at_ns, 0, commands, tuple(reads), tensors[:-1], tensors[1:])


def _ledger(plan: Plan, submits: Sequence[Submit] | None = None) -> Ledger:
    """Return the ledger of the contexts that make buffers, each with an open file of its own."""
    barriers = make_barriers(plan)
    makers = [
        index for index, context in enumerate(plan.contexts) if context.mechanism != SHARED_CONTEXT
    ]
    buffers = []
    for index in makers:
        buffers += _buffers(index, during(barriers, "context", index))
    mappings = [
        Mapping(buffer.number, buffer.number // 100, buffer.size_bytes, buffer.born_ns)
        for buffer in buffers
    ]
    if submits is None:
        submits = [_submit(index) for index in makers]
    return make_ledger(*buffers, submits=submits, mappings=mappings)


def _account(plan: Plan, ledger: Ledger) -> Account:
    account = account_of_ledger(plan, make_barriers(plan), ledger)
    assert account is not None
    return account


_LOADS = make_plan(Context(0, 0), Context(0, 0))


def test_a_context_by_component() -> None:
    """Weights, biases, commands, inner tensors, and the tensors of the CPU are told apart."""
    account = _account(_LOADS, _ledger(_LOADS))
    assert account.contexts == (_MEMORY, _MEMORY)
    assert (account.total_bytes, account.unattributed_bytes) == (2 * _MEMORY.total_bytes, 0)
    assert [finding for finding in account.findings if finding.kind != "leak"] == []
    assert account.shared == ()


def test_requested_sizes_are_those_of_the_requests() -> None:
    """Before rounding to pages a context takes 4 x (73,728 + 256 + 1,088) + 5 x 131,072 bytes."""
    barriers = make_barriers(_LOADS)
    steady = barriers[steady_of(barriers)]
    sizes, _ = requested_sizes(_LOADS, barriers, _ledger(_LOADS), steady.at_ns)
    assert sizes == {
        "weights": 4 * _WEIGHTS_BYTES,
        "biases": 4 * _BIASES_BYTES,
        "register_commands": 4 * _COMMANDS_BYTES,
        "internal": 3 * _TENSOR_BYTES,
        "input": _TENSOR_BYTES,
        "output": _TENSOR_BYTES,
    }


def test_tensors_are_known_by_either_list() -> None:
    """The registers alone, and the lists of each job alone, tell the same tensors apart."""
    by_registers = rocket_components(make_ledger(submits=[_submit(0, names_tensors=False)]))
    whole = _submit(0)
    lists = Submit(0, 0, whole.registers, (), whole.inputs, whole.outputs)
    by_lists = rocket_components(make_ledger(submits=[lists]))
    tensors = {9: "io", 10: "internal", 11: "internal", 12: "internal", 13: "io"}
    assert {number: by_registers[number] for number in tensors} == tensors
    assert {number: by_lists[number] for number in tensors} == tensors


def test_a_tensor_added_to_another_is_read() -> None:
    """The second operand of an addition that a later job wrote nothing into is an input."""
    reads = [Read("0x5038", 1, "live", 1), Read("0x4020", 2, "live", 1)]
    submits = [
        Submit(0, 0, (3,), tuple(reads)),
        Submit(1, 0, (3,), (Read("0x1070", 2, "live", 1),)),
    ]
    components = rocket_components(make_ledger(submits=submits))
    assert components == {1: "io", 2: "internal", 3: "register_commands"}


def test_what_no_submit_names_is_other() -> None:
    """Without a submit nothing tells what a buffer is for."""
    account = _account(_LOADS, _ledger(_LOADS, [_submit(1)]))
    first, second = account.contexts
    assert (first.other_bytes, first.weights_bytes) == (_MEMORY.total_bytes, 0)
    assert second == _MEMORY


def test_another_interpreter_shares_nothing() -> None:
    """A dup with weights of its own is not shared as planned, and takes as much as its source."""
    plan = make_plan(Context(0, 0), Context(0, 0, DUP, 0))
    account = _account(plan, _ledger(plan))
    assert account.contexts == (_MEMORY, _MEMORY)
    assert Finding("not_shared", 1, None, 0, 0) in account.findings


def test_shared_weights_are_seen() -> None:
    """If a patched delegate shares weights within one open file, the reader and the owner show."""
    plan = make_plan(Context(0, 0), Context(0, 0, DUP, 0))
    whole = _submit(1)
    reads = [
        Read(read.register, read.buffer - 100, read.state, read.count)
        if read.register in (WEIGHT_REGISTER, BIAS_REGISTER)
        else read
        for read in whole.reads
    ]
    sharing = Submit(0, 0, whole.registers, tuple(reads), whole.inputs, whole.outputs)
    account = _account(plan, _ledger(plan, [_submit(0), sharing]))
    assert [shared.component for shared in account.shared] == ["weights", "biases"] * _LAYERS
    assert {shared.readers for shared in account.shared} == {(1,)}
    assert [finding.kind for finding in account.findings] == ["leak"]


def test_foreign_weights_are_a_finding() -> None:
    """Reads of weights of a context that the plan does not name are wrong."""
    stolen = Submit(0, 0, _submit(1).registers, (Read(WEIGHT_REGISTER, 1, "live", 1),))
    account = _account(_LOADS, _ledger(_LOADS, [_submit(0), stolen]))
    assert Finding("reads_foreign", 1, 1, 0, 1) in account.findings


def test_a_thread_on_an_interpreter_adds_nothing() -> None:
    """The submits of a shared context belong to the context whose commands they run."""
    plan = make_plan(Context(0, 0), Context(0, 0, SHARED_CONTEXT, 0))
    account = _account(plan, _ledger(plan))
    assert [memory.total_bytes for memory in account.contexts] == [_MEMORY.total_bytes, 0]
    assert [finding.kind for finding in account.findings] == ["leak"]


def test_each_open_file_is_an_address_space() -> None:
    """Each context has its own 4 GiB, as each delegate opens the device."""
    assert _account(_LOADS, _ledger(_LOADS)).domains == (
        DomainUse(0, _MEMORY.total_bytes, (0,)),
        DomainUse(1, _MEMORY.total_bytes, (1,)),
    )
