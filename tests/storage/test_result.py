"""A result: what the barriers of some repeats become on disk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from storage.files import InvalidResult, check_result

from accounting.attribution import COMPONENTS
from samplers.observer import Observer
from scenarios.catalogue import SCENARIOS
from scenarios.plan import Plan
from storage.result import SCHEMA, Configuration, Repeat, build_result
from targets.outcome import OUTCOMES
from tests.support import make_plan, walk

_SCHEMA = json.loads((Path(__file__).parents[2] / "storage" / "schema" / "result-1.json").read_text())
_PROCESS = ("rss_bytes", "pss_bytes", "uss_bytes", "peak_rss_bytes")
_COPIES = {"input_bytes": 600, "output_bytes": 40}
_FAILURE = {"kind": "crashed", "phase": "steady", "context": None, "message": "it crashed", "last_words": "ouch"}


def _barriers(plan: Plan, start: int = 1000) -> list[dict[str, Any]]:
    """Return the records of a walk; PSS rises by 7 and more at each barrier, RSS is 10000 above it, USS 500 below."""
    pss, records = start, []
    for number, step in enumerate(plan.steps()):
        of_phase: dict[str, dict[str, Any]] = {
            "imported": {"runtime_version": "1", "python_version": "3.9.1"},
            "context": {"load_ns": 100 + number},
            "internal_memory": {"allocations": []},
            "first_inference": {"latency_ns": 200 + number, "digest": "0000000a", "copies": _COPIES},
            "steady": {
                "elapsed_ns": 2_000_000_000,
                "latencies_ns": [[30, 10, 20 + index] for index in range(len(plan.contexts))],
                "digests": ["0000000a"] * len(plan.contexts),
            },
            "destroy": {},
        }
        data = of_phase[step.phase]
        pss += 7 * (number + 1) if step.phase != "destroy" else -5
        records.append(_record(step.phase, step.context, pss, data, trimmed=step.phase == "destroy"))
        if step.phase == "steady":
            records.append(_record("trimmed", None, pss - 50, {"trimmed": True}, trimmed=True))
    return records


def _record(phase: str, context: int | None, pss: int, data: dict[str, Any], trimmed: bool) -> dict[str, Any]:
    process = {"rss_bytes": pss + 10000, "pss_bytes": pss, "uss_bytes": pss - 500, "peak_rss_bytes": pss + 20000}
    rest = {"swap_bytes": 0, "fd_count": 5, "thread_count": 2}
    system = {"total_bytes": 10**6, "available_bytes": 10**6 - 10 * pss}
    place = {"phase": phase, "context": context, "at_ns": pss, "data": data, "malloc_trimmed": trimmed}
    return {**place, "process": {**process, **rest}, "system": system}


def _repeat(
    barriers: list[dict[str, Any]], failure: dict[str, Any] | None = None, npu: dict[str, Any] | None = None
) -> Repeat:
    return Repeat(barriers, failure, 1.5, 42, 3.5, "traces/run/one.json.gz", npu)


def _result(plan: Plan, *repeats: Repeat, failure: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    configuration = Configuration(plan, "python", 1, len(plan.contexts), 1, "run", "1", "3.9.1", **changes)
    return build_result(configuration, repeats, failure)


def _account(plan: Plan, **changes: Any) -> dict[str, Any]:
    """Return an account of NPU memory in which every context has 600 bytes of weights and 60 of everything else."""
    row = dict.fromkeys((f"{component}_bytes" for component in COMPONENTS), 60)
    account = {
        "source": "ledger",
        "contexts": [{**row, "weights_bytes": 600}] * len(plan.contexts),
        "unattributed_bytes": 5,
        "total_bytes": 900 * len(plan.contexts) + 5,
        "peak_bytes": 9999,
        "left_bytes": 0,
        "shared": [{"buffer": 2, "component": "weights", "size_bytes": 600, "owner": 0, "readers": [1, 2]}],
        "findings": [],
    }
    return {**account, **changes}


def _with_dmabuf(barriers: list[dict[str, Any]], size: int | None) -> list[dict[str, Any]]:
    """Return the records of a board whose process holds so many bytes of dma-bufs."""
    return [{**each, "npu": {"process_dmabuf_bytes": size}} for each in barriers]


def _pss(barriers: list[dict[str, Any]], phase: str) -> int:
    return int([each for each in barriers if each["phase"] == phase][-1]["process"]["pss_bytes"])


@pytest.fixture
def plan() -> Plan:
    """Return a plan of three contexts."""
    return make_plan("full_dup", "plain", contexts=3)


def test_figures_are_those_of_their_barriers(plan: Plan) -> None:
    """Each figure is read where its description says, one value per repeat and in order."""
    first, second = _barriers(plan), _barriers(plan, start=3000)
    memory = _result(plan, _repeat(first), _repeat(second))["memory"]
    steady, imported = [[_pss(each, phase) for each in (first, second)] for phase in ("steady", "imported")]
    assert memory["application_memory_bytes"] == steady
    assert memory["baseline_memory_bytes"] == imported
    assert memory["application_memory_over_baseline_bytes"] == [steady[0] - imported[0], steady[1] - imported[1]]
    assert memory["application_memory_trimmed_bytes"] == [value - 50 for value in steady]
    assert memory["application_rss_bytes"] == [value + 10000 for value in steady]
    assert memory["application_uss_bytes"] == [value - 500 for value in steady]
    assert memory["system_memory_bytes"] == [10 * value for value in steady]
    assert memory["system_memory_noise_bytes"] == [42, 42]
    destroyed = [_pss(each, "destroy") for each in (first, second)]
    assert memory["residue_memory_bytes"] == [destroyed[0] - imported[0], destroyed[1] - imported[1]]
    assert memory["npu_memory_bytes"] == [None, None]


def test_the_peak_is_of_all_phases_up_to_steady(plan: Plan) -> None:
    """A spike while one context was made is the peak; one while contexts are destroyed is not."""
    barriers = _barriers(plan)
    barriers[2]["process"]["peak_rss_bytes"] = 777_777
    barriers[-1]["process"]["peak_rss_bytes"] = 999_999
    assert _result(plan, _repeat(barriers))["memory"]["application_peak_rss_bytes"] == [777_777]


def test_a_peak_that_was_not_reset_is_unknown(plan: Plan) -> None:
    """With one phase unknown the highest of the others would be a guess."""
    barriers = _barriers(plan)
    barriers[3]["process"]["peak_rss_bytes"] = None
    assert _result(plan, _repeat(barriers))["memory"]["application_peak_rss_bytes"] == [None]


def test_what_contexts_added_sums_to_the_whole(plan: Plan) -> None:
    """Nothing between the import and the last first inference belongs to no context, or to two."""
    barriers = _barriers(plan)
    (added,) = _result(plan, _repeat(barriers))["memory"]["context_memory_bytes"]
    assert len(added) == 3
    assert sum(added) == _pss(barriers, "first_inference") - _pss(barriers, "imported")


def test_what_each_context_added(plan: Plan) -> None:
    """It is the growth when it was made, and the growth at its own first inference."""
    barriers = _barriers(plan)
    levels = [each["process"]["pss_bytes"] for each in barriers[:7]]
    growth = [after - before for before, after in zip(levels, levels[1:])]
    (added,) = _result(plan, _repeat(barriers))["memory"]["context_memory_bytes"]
    assert added == [growth[0] + growth[3], growth[1] + growth[4], growth[2] + growth[5]]


def test_internal_memory_counts_for_the_context_that_got_it() -> None:
    """The step between making and running belongs to the first context of the group, like its other steps."""
    plan = make_plan("full_dup_internal_reuse", "plain", contexts=3, cores=1)
    barriers = _barriers(plan)
    levels = [each["process"]["pss_bytes"] for each in barriers]
    growth = [after - before for before, after in zip(levels, levels[1:])]
    assert [each["phase"] for each in barriers[3:6]] == ["context", "internal_memory", "first_inference"]
    (added,) = _result(plan, _repeat(barriers))["memory"]["context_memory_bytes"]
    assert added == [growth[0] + growth[3] + growth[4], growth[1] + growth[5], growth[2] + growth[6]]


def test_speed_is_what_the_process_reported(plan: Plan) -> None:
    """Median of all inferences, inferences per second of the steady phase, and one time per context."""
    barriers = _barriers(plan)
    speed = _result(plan, _repeat(barriers))["speed"]
    assert speed == {
        "latency_median_ns": [21],
        "throughput_per_s": [9 / 2.0],
        "context_load_ns": [[101, 102, 103]],
        "first_inference_ns": [[204, 205, 206]],
        "idle_cpu_percent": [3.5],
    }


def test_no_speed_where_nothing_computes(plan: Plan) -> None:
    """Every figure of speed is there, of each repeat, and empty; how busy the machine was is still told."""
    repeats = [_repeat(_barriers(plan)), _repeat(_barriers(plan))]
    result = _result(plan, *repeats, computes=False, chip="rk3588", driver_version="0.9.8")
    check_result(result)
    assert (result["computes"], result["chip"], result["driver_version"]) == (False, "rk3588", "0.9.8")
    assert result["speed"] == {
        "latency_median_ns": [None, None],
        "throughput_per_s": [None, None],
        "context_load_ns": [[], []],
        "first_inference_ns": [[], []],
        "idle_cpu_percent": [3.5, 3.5],
    }
    assert set(result["speed"]) == set(_result(plan, *repeats)["speed"])


def test_npu_memory_by_a_ledger(plan: Plan) -> None:
    """Total, peak and what is left are the ledger's; the whole account is stored with each repeat."""
    account = _account(plan)
    result = _result(plan, _repeat(_barriers(plan), npu=account), _repeat(_barriers(plan), npu=_account(plan)))
    check_result(json.loads(json.dumps(result)))
    assert result["memory"]["npu_memory_bytes"] == [2705, 2705]
    assert result["memory"]["npu_peak_bytes"] == [9999, 9999]
    assert result["memory"]["npu_left_bytes"] == [0, 0]
    assert result["repeats"][0]["npu"] == account


@pytest.mark.parametrize(
    ("source", "held", "figure"),
    [
        ("ledger", 7777, 2705),
        ("ledger", None, 2705),
        ("runtime", 7777, 7777),
        ("runtime", None, 2705),
        ("runtime", 0, 0),
        (None, 7777, 7777),
        (None, None, None),
    ],
)
def test_the_most_exact_source_gives_npu_memory(plan: Plan, source: str | None, held: int | None, figure: int) -> None:
    """The ledger, else what the process holds, else the runtime's own words."""
    npu = _account(plan, source=source, peak_bytes=None, left_bytes=None) if source else None
    result = _result(plan, _repeat(_with_dmabuf(_barriers(plan), held), npu=npu))
    check_result(json.loads(json.dumps(result)))
    assert result["memory"]["npu_memory_bytes"] == [figure]
    assert result["repeats"][0]["phases"]["steady"]["npu"] == {"process_dmabuf_bytes": held}


def test_live_bytes_stand_with_their_phases(plan: Plan) -> None:
    """With a ledger each phase says what the NPU's buffers took at its end."""
    barriers = [{**each, "npu_live_bytes": number} for number, each in enumerate(_barriers(plan))]
    result = _result(plan, _repeat(barriers, npu=_account(plan)))
    check_result(result)
    live = {phase: reading["npu_live_bytes"] for phase, reading in result["repeats"][0]["phases"].items()}
    assert live == {"imported": 0, "context": 3, "first_inference": 6, "steady": 7, "trimmed": 8, "destroy": 11}


@pytest.mark.parametrize(
    "change",
    [
        {"source": "guess"},
        {"total_bytes": None},
        {"contexts": [{"weights_bytes": 1}]},
        {"findings": [{"kind": "odd", "context": None, "buffer": None, "owner": None, "amount": 1}]},
        {"shared": [{"buffer": 1, "owner": None, "readers": []}]},
        {"more": 1},
    ],
)
def test_an_account_of_another_form_is_refused(plan: Plan, change: dict[str, Any]) -> None:
    """What readers rely on is held where it is written."""
    with pytest.raises(InvalidResult):
        check_result(_result(plan, _repeat(_barriers(plan), npu=_account(plan, **change))))


def test_results_of_before_are_valid(plan: Plan) -> None:
    """What came into the form later is optional: a result that was stored without it is read."""
    result = _result(plan, _repeat(_barriers(plan)))
    for name in ("driver_version", "chip", "computes"):
        del result[name]
    for name in ("npu_peak_bytes", "npu_left_bytes"):
        del result["memory"][name]
    for repeat in result["repeats"]:
        del repeat["npu"]
    check_result(result)


def test_where_nothing_was_trimmed_there_is_no_trimmed_figure(plan: Plan) -> None:
    """A C library without malloc_trim gives None, and not the untrimmed figure under another name."""
    barriers = _barriers(plan)
    for record in barriers:
        record["malloc_trimmed"] = False
    assert _result(plan, _repeat(barriers))["memory"]["application_memory_trimmed_bytes"] == [None]


def test_each_phase_is_stored_with_its_last_reading(plan: Plan) -> None:
    """As allocated and trimmed readings stand apart, each marked."""
    barriers = _barriers(plan)
    (stored,) = _result(plan, _repeat(barriers))["repeats"]
    assert list(stored["phases"]) == ["imported", "context", "first_inference", "steady", "trimmed", "destroy"]
    assert stored["phases"]["context"]["process"] == barriers[3]["process"]
    marks = {phase: reading["malloc_trimmed"] for phase, reading in stored["phases"].items()}
    assert [phase for phase, trimmed in marks.items() if trimmed] == ["trimmed", "destroy"]
    assert (stored["elapsed_s"], stored["trace"], stored["failure"]) == (1.5, "traces/run/one.json.gz", None)


def test_copies_are_those_of_each_context(plan: Plan) -> None:
    """As the first repeat's contexts said after their first inference; none where none came so far."""
    barriers = _barriers(plan)
    assert _result(plan, _repeat(barriers), _repeat(barriers))["copies"] == [_COPIES] * 3
    assert _result(plan, _repeat(barriers[:2], _FAILURE), failure=_FAILURE)["copies"] is None
    assert _result(plan, failure=_FAILURE)["copies"] is None


def test_digests_of_all_outputs_are_kept(plan: Plan) -> None:
    """A single different output, of any context, phase or repeat, is seen."""
    assert list(_result(plan, _repeat(_barriers(plan)))["output_digests"].values()) == [["0000000a"]]
    one, two = _barriers(plan), _barriers(plan)
    next(each for each in one if each["phase"] == "steady")["data"]["digests"][2] = "0000000b"
    next(each for each in two if each["phase"] == "first_inference")["data"]["digest"] = "0000000c"
    found = _result(plan, _repeat(one), _repeat(two))["output_digests"]
    assert list(found.values()) == [["0000000a", "0000000b", "0000000c"]]


def test_digests_belong_to_their_models() -> None:
    """Each model has outputs of its own."""
    plan = make_plan("no_reuse", "a", "b", streams=2, contexts=1)
    barriers = _barriers(plan)
    for record in barriers:
        if record["phase"] == "first_inference":
            record["data"]["digest"] = f"first {record['context']}"
        if record["phase"] == "steady":
            record["data"]["digests"] = ["steady 0", "steady 1"]
    found = _result(plan, _repeat(barriers))["output_digests"]
    assert found == {model.digest: [f"first {i}", f"steady {i}"] for i, model in enumerate(plan.models)}


@pytest.mark.parametrize("reached", range(12))
def test_a_repeat_that_stopped_anywhere_is_valid(plan: Plan, reached: int) -> None:
    """Figures of phases that were not reached are None, those before are kept, and the result can be stored."""
    barriers = _barriers(plan)[:reached]
    result = _result(plan, _repeat(_barriers(plan)), _repeat(barriers, _FAILURE), failure=_FAILURE)
    check_result(result)
    assert result["outcome"] == "crashed"
    assert all(len(values) == 2 for part in ("memory", "speed") for values in result[part].values())
    memory = {name: values[1] for name, values in result["memory"].items()}
    phases = [each["phase"] for each in barriers]
    assert (memory["baseline_memory_bytes"] is None) == ("imported" not in phases)
    assert (memory["application_memory_bytes"] is None) == ("steady" not in phases)
    assert (memory["context_memory_bytes"] is None) == (phases.count("first_inference") < 3)
    assert memory["residue_memory_bytes"] is None
    assert memory["system_memory_noise_bytes"] == 42


def test_a_failure_before_any_process_is_valid(plan: Plan) -> None:
    """A model that cannot be prepared has no repeats at all."""
    result = _result(plan, failure={**_FAILURE, "phase": "prepare"})
    check_result(result)
    assert result["memory"]["application_memory_bytes"] == []


@pytest.mark.parametrize("scenario", [each.name for each in SCENARIOS if not each.is_variant])
def test_a_real_run_is_valid(scenario: str) -> None:
    """What real processes and a real observer give, of every mechanism, is of the schema, also after JSON."""
    plan = make_plan(scenario, "plain", "plain;", "plain;;", "plain;;;", streams=2, contexts=2)
    repeats = []
    for _ in range(2):
        run = walk(plan, observer=Observer(sample_hz=100))
        assert run.failure is None
        repeats.append(Repeat(run.phases, None, run.elapsed_s, 0, 0.0, "traces/x"))
    result = _result(plan, *repeats)
    check_result(json.loads(json.dumps(result)))
    memory = result["memory"]
    for repeat in range(2):
        added, over = memory["context_memory_bytes"][repeat], memory["application_memory_over_baseline_bytes"][repeat]
        growth = repeats[repeat].reading("steady", "process", "pss_bytes")
        last = [each["process"]["pss_bytes"] for each in repeats[repeat].of_contexts("first_inference")][-1]
        assert growth is not None
        assert sum(added) + (growth - last) == over
        assert memory["application_memory_bytes"][repeat] <= memory["application_rss_bytes"][repeat]
        assert memory["application_uss_bytes"][repeat] <= memory["application_memory_bytes"][repeat]


def _names(schema: dict[str, Any], place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for name, definition in schema.get("properties", {}).items():
        yield f"{place}/{name}", definition
        yield from _names(definition, f"{place}/{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _names(schema[key], f"{place}/*")


def test_every_name_is_described() -> None:
    """A metric whose definition nobody can find is worth nothing."""
    names = dict(_names(_SCHEMA))
    assert len(names) > 50
    assert [name for name, definition in names.items() if not definition.get("description")] == []


def test_the_schema_knows_every_outcome_and_its_own_version() -> None:
    """What the code can write is what the schema allows."""
    properties = _SCHEMA["properties"]
    assert properties["schema"]["const"] == SCHEMA
    assert properties["outcome"]["enum"] == list(OUTCOMES)
    assert ["ok", *properties["failure"]["properties"]["kind"]["enum"]] == list(OUTCOMES)


def test_sizes_and_times_have_units_in_their_names() -> None:
    """Every figure says what it is in."""
    for part in ("memory", "speed"):
        for name in _SCHEMA["properties"][part]["properties"]:
            assert name.endswith(("_bytes", "_ns", "_per_s", "_percent")), name
