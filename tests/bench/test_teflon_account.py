"""The account of NPU memory of Mesa's delegate on the virtual board of the mainline driver.

They run if the virtual board is installed (`reusebench board install --target vboard:rocket`), and
if LiteRT's schema is here to write a model with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from reusebench.accounting.account import Account, account_of_ledger
from reusebench.accounting.ledger import Ledger, read_ledger
from reusebench.accounting.rocket import ROCKET, rocket_components
from reusebench.harness.measuring.context_limit import limit_of
from reusebench.measured.plan import CONTEXTS, DUP, SHARED_CONTEXT, Context, Cycles, Model, Plan
from reusebench.measured.runtimes import find_runtime
from reusebench.samplers.observer import Observer
from reusebench.targets.measured_process import MeasuredRun
from reusebench.targets.resolve import Selection, parse_target
from reusebench.targets.target import Target
from reusebench.targets.vboard.catalogue import rocket_board
from tests.helpers.support import known, walk

pytestmark = [pytest.mark.process, pytest.mark.slow]

#: An emulated process imports LiteRT in many seconds.
_TIME_LIMIT_S = 300.0


@dataclass(frozen=True)
class Walked:
    """A walk on the board, and its ledger."""

    plan: Plan
    run: MeasuredRun
    ledger: Ledger

    @property
    def account(self) -> Account:
        """The account of a walk that came to its steady phase."""
        return known(account_of_ledger(self.plan, self.run.barriers, self.ledger))


@pytest.fixture(scope="module")
def target() -> Target:
    """Return the virtual board."""
    missing = rocket_board().missing_parts()
    if missing:
        pytest.skip(f"vboard:rocket is not ready: {', '.join(missing)} missing")
    return parse_target(Selection("vboard:rocket"), find_runtime("teflon"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Return a model of two convolutions, a softmax that stays on the CPU, and a convolution."""
    pytest.importorskip("ai_edge_litert", reason="LiteRT's schema writes the model")
    from tests.measured.runtimes.teflon_models import write_model

    path = tmp_path_factory.mktemp("models") / "parts.tflite"
    write_model(path, layers=("CONV_2D", "CONV_2D", "SOFTMAX", "CONV_2D"))
    return Model(path.stem, str(path), path.stem)


@pytest.fixture(scope="module")
def walked(target: Target, model: Model) -> Walked:
    """Return a walk of a context, another one, an interpreter with the delegate of the first, and a
    thread on the interpreter of the first.
    """
    reusing = [Context(0, 0, mechanism, 0) for mechanism in (DUP, SHARED_CONTEXT)]
    walked = _walk(target, model, Context(0, 0), Context(0, 0), *reusing)
    assert walked.run.failure is None, walked.run.failure
    return walked


def _walk(target: Target, model: Model, *contexts: Context, **of_plan: Any) -> Walked:
    plan = Plan("mine", None, "teflon", (model,), contexts, cores=1, rounds=2, **of_plan)
    observer = Observer(target.machine.host, sample_hz=10)
    run = walk(plan, target, observer, _TIME_LIMIT_S)
    return Walked(plan, run, read_ledger(known(run.ledger)))


def test_each_component_is_told_apart(walked: Walked) -> None:
    """Every buffer is known by submits; the account covers all, and all of it is given back."""
    account = walked.account
    first = account.contexts[0]
    assert {buffer.source for buffer in walked.ledger.buffers.values()} == {ROCKET}
    assert set(rocket_components(walked.ledger)) == set(walked.ledger.buffers)
    parts = (first.weights_bytes, first.biases_bytes, first.register_commands_bytes)
    assert all(parts)
    assert (first.other_bytes, first.task_list_bytes, first.padding_bytes) == (0, 0, 0)
    assert sum(memory.total_bytes for memory in account.contexts) == account.total_bytes
    assert (account.unattributed_bytes, account.left_bytes) == (0, 0)


def test_tensors_of_each_part_are_those_of_the_cpu(walked: Walked) -> None:
    """Each of the two parts has a tensor that the CPU writes and one that it reads; the only tensor
    between operators of the NPU is internal.
    """
    numbers = [buffer.number for buffer in walked.ledger.buffers.values()]
    components = rocket_components(walked.ledger)
    made = [components[number] for number in numbers]
    contexts = 3
    assert (made.count("io"), made.count("internal")) == (4 * contexts, 1 * contexts)


def test_registers_and_lists_of_jobs_agree(walked: Walked) -> None:
    """The tensors that the registers point to are those that the jobs name."""
    for submit in walked.ledger.submits:
        read = {access.buffer for access in submit.reads if access.register == "0x1070"}
        written = {access.buffer for access in submit.reads if access.register == "0x4020"}
        assert (read, written) == (set(submit.inputs), set(submit.outputs))


def test_a_further_interpreter_makes_all_again(walked: Walked) -> None:
    """A context, and a dup with the same delegate, take as much as the first; a thread nothing."""
    first, second, dup, thread = walked.account.contexts
    assert first == second == dup
    assert thread.total_bytes == 0
    assert walked.account.shared == ()
    findings = [(finding.kind, finding.context) for finding in walked.account.findings]
    assert findings == [("not_shared", 2)]


def test_each_delegate_has_an_address_space(walked: Walked) -> None:
    """Contexts with a delegate of their own have 4 GiB each; a dup is in that of its source."""
    assert [use.contexts for use in walked.account.domains] == [(0, 2), (1,)]


def test_application_memory_has_no_npu_memory(walked: Walked) -> None:
    """At no barrier is a buffer mapped: the two sizes can be added."""
    shared = {barrier.process.pss_shmem_bytes for barrier in walked.run.barriers}
    assert shared == {0}


def test_memory_ends_to_the_byte(target: Target, model: Model, walked: Walked) -> None:
    """Two contexts fit into twice the memory of one, and one into a byte less; the next one ends
    the process, as Mesa does not check its buffers.
    """
    one_bytes = walked.account.contexts[0].total_bytes
    for memory_bytes, expected in ((2 * one_bytes, 2), (2 * one_bytes - 1, 1)):
        environment = {**target.environment, "REUSEBENCH_NPU_MEMORY": str(memory_bytes)}
        board = replace(target, environment=environment)
        full = _walk(board, model, *[Context(0, 0)] * 4, fills=True)
        limit = known(limit_of(full.plan, full.run, full.ledger))
        assert limit.contexts == expected
        assert known(limit.failure).kind in ("crashed", "out_of_memory")


def test_a_destroyed_context_gives_its_memory_back(target: Target, model: Model) -> None:
    """After each cycle no NPU memory is left; Mesa 26.1.6 leaves a descriptor of each delegate."""
    cycles = _walk(target, model, Context(0, 0), cycles=Cycles(CONTEXTS, 3))
    ends = [barrier for barrier in cycles.run.barriers if barrier.phase == "cycle"]
    assert [cycles.ledger.live_bytes(barrier.at_ns) for barrier in ends] == [0] * 3
    assert all(mapping.ended_ns is not None for mapping in cycles.ledger.mappings)
    descriptors = [known(barrier.data.usage).fds for barrier in ends]
    grown = [after - before for before, after in zip(descriptors, descriptors[1:])]
    assert set(grown) <= {0, 1}
