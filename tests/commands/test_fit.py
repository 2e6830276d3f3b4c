"""`reusebench fit`, on ONNX Runtime and, with Rockchip's library, on the virtual board."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from math import inf
from pathlib import Path
from typing import Any

import pytest

from reusebench.commands.benching import run_bench
from reusebench.measured.plan import INPUT, Plan
from reusebench.models.built_files import ensure
from reusebench.models.recipe import Recipe
from reusebench.storage.fit_answer import FitAnswer, read_answers
from reusebench.system.cache import cache_root
from reusebench.targets.programs import APPLY
from reusebench.targets.rknn_library import RknnLibrary, find_libraries
from reusebench.targets.vboard.catalogue import rknn_board, rocket_board
from tests.commands.replies import result_of
from tests.helpers.support import CHECKOUT, Ended, Reusebench, known

pytestmark = pytest.mark.process

# The user's cache, read during collection, before tests have caches of their own.
_CACHE = cache_root()
_RKNN_MODELS = sorted((_CACHE / "models").glob("tiny-64-seed1-rk3588-*.rknn"))
_PAGE_BYTES = 4096


def _library() -> RknnLibrary | None:
    """Return the newest librknnrt that is here with the virtual board for it."""
    folder = _CACHE / "rknn"
    full = (
        [one for one in find_libraries([folder]) if one.kind == "librknnrt"]
        if folder.is_dir()
        else []
    )
    return max(
        (one for one in full if not rknn_board(one).missing_parts()),
        key=lambda one: one.version,
        default=None,
    )


_LIBRARY = _library()
_with_library = pytest.mark.skipif(
    not (_LIBRARY and _RKNN_MODELS), reason="needs librknnrt, its virtual board and a model"
)

_MISSING_OF_ROCKET = rocket_board().missing_parts()


#: Other processes that have the runtime's library in memory while the CPU is measured.
_USERS_OF_THE_RUNTIME = 4
_USES_THE_RUNTIME = """
import sys
import numpy
import onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1])
(taken,) = session.get_inputs()
session.run(None, {taken.name: numpy.zeros(taken.shape, numpy.float32)})
print(flush=True)
sys.stdin.read()
"""


class Calibrated:
    """A storage in which one call has measured; the calls after it measure nothing."""

    def __init__(self, reusebench: Reusebench, storage: Path, *words: object) -> None:
        self._reusebench = reusebench
        self._words = ("fit", "--storage", storage, *words)
        self.storage = storage

    def fit(self, *words: object) -> Ended:
        """Run the command with stored results and more arguments."""
        return self._reusebench(*self._words, "--stored", *words)

    def answer(self, *words: object) -> dict[str, Any]:
        """Return the answer, as JSON, of a call that ends well or does not fit."""
        ended = self.fit("--json", *words)
        assert ended.exit_code in (0, 1), ended.err
        answer: dict[str, Any] = result_of(ended)
        assert answer["fits"] == (ended.exit_code == 0)
        return answer


@pytest.fixture(autouse=True)
def plain_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest-benchmark does not measure in a worker of pytest-xdist; these tests' plugins are
    not needed.
    """
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--quick -p pytest_benchmark.plugin")


@pytest.fixture(autouse=True)
def short_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure each plan in one process, which infers for less than half a second. Frames count,
    however busy the machine is.
    """
    monkeypatch.setattr("reusebench.fit.conditions.BUSY_PERCENT", inf)
    monkeypatch.setattr("reusebench.commands.fit._REPEATS", {"npu": 1, "cpu": 1})
    monkeypatch.setattr("reusebench.commands.fit._REPEATS_OF_RECOMMENDED", {"npu": 2, "cpu": 1})
    monkeypatch.setattr("reusebench.fit.study._TIMED_S", 0.4)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the storages of the tests here."""
    return tmp_path_factory.mktemp("fit")


@pytest.fixture(scope="module")
def model_of_internal_memory(cache: Path) -> Path:
    """Return a model whose internal memory is far more than what a heap has left over, and which
    infers quickly.
    """
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        return ensure(Recipe("tiny", 320, 1))


@pytest.fixture(scope="module")
def users_of_the_runtime(model_of_internal_memory: Path) -> Iterator[None]:
    """Run processes that have the runtime's library in memory.

    Pages of the library are divided by the processes that map them. With these processes, another
    test that maps them for a while changes the measured process's share little.
    """
    command = [sys.executable, "-c", _USES_THE_RUNTIME, str(model_of_internal_memory)]
    with ExitStack() as stack:
        users = []
        for _ in range(_USERS_OF_THE_RUNTIME):
            user = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            stack.enter_context(user)
            users.append(user)
        for user in users:
            assert known(user.stdout).readline() == b"\n"
        yield


@pytest.fixture
def on_cpu(
    folders: Path,
    reusebench: Reusebench,
    model_of_internal_memory: Path,
    users_of_the_runtime: None,  # noqa: ARG001  they run meanwhile
) -> Calibrated:
    """Return two contexts of a tiny network on ONNX Runtime."""
    words = (
        "--runtime",
        "onnxruntime",
        "--model",
        model_of_internal_memory,
        "--streams",
        1,
        "--contexts",
        2,
    )
    return Calibrated(reusebench, folders / "cpu", *words)


@pytest.fixture
def on_npu(folders: Path, reusebench: Reusebench, monkeypatch: pytest.MonkeyPatch) -> Calibrated:
    """Return four contexts of a tiny network on the virtual board."""
    assert _LIBRARY is not None
    monkeypatch.setenv("XDG_CACHE_HOME", str(_CACHE.parent))
    words = ("--runtime", "rknn", "--target", "vboard:rk3588", "--rknn-library", _LIBRARY.path)
    return Calibrated(
        reusebench, folders / "npu", *words, "--model", _RKNN_MODELS[0], "--contexts", 1
    )


@pytest.mark.slow
def test_a_process_on_a_cpu(on_cpu: Calibrated) -> None:
    """The recommended layout takes the predicted memory, less than without reuse; it is stored
    as printed.
    """
    answer = on_cpu.answer("--verify", "--limit", "1GiB")
    assert (answer["limit_of"], answer["limit_bytes"], answer["fits"]) == (
        "application_memory",
        2**30,
        True,
    )
    # The whole process is not compared: another test that maps the runtime's library halves its
    # share.
    assert answer["predicted_application_memory_bytes"] > 0
    assert answer["measured_application_memory_bytes"] > 0
    # A tiny network takes little more than what a heap has left over, which differs from process to
    # process.
    left_over_bytes = 4 * 2**20
    predicted, measured = (
        answer[f"{kind}_application_memory_over_baseline_bytes"]
        for kind in ("predicted", "measured")
    )
    assert measured == pytest.approx(predicted, rel=0.05, abs=left_over_bytes)
    assert answer["predicted_npu_memory_bytes"] is answer["least_bytes"] is None
    assert answer["best"]["bytes"] <= answer["today"]["bytes"] + left_over_bytes
    assert answer["predicted_frames_per_s"] > 0
    assert answer["measured_frames_per_s"] > 0
    plan = Plan.from_json(answer["recommended"])
    assert plan.runtime == "onnxruntime"
    assert len(plan.contexts) == answer["best"]["contexts"] <= 2
    (stored,) = read_answers(on_cpu.storage)
    assert isinstance(stored, FitAnswer)
    assert stored.recommended == plan
    assert stored.measured_application_memory_bytes == answer["measured_application_memory_bytes"]


def test_the_plan_is_a_file_that_pytest_takes(on_cpu: Calibrated) -> None:
    """It has the recommended plan, and what is stored is not measured again. The last line tells
    how a program that nobody changes gets such a layout.
    """
    on_cpu.fit()
    ended = on_cpu.fit()
    assert ended.exit_code == 0, ended.err
    assert "Measuring" not in ended.err
    (stored,) = read_answers(on_cpu.storage)
    assert isinstance(stored, FitAnswer)
    lines = ended.out.splitlines()[-2:]
    path = lines[0].removeprefix("reusebench bench --plan ").removesuffix(" measures it again.")
    assert Plan.from_json(json.loads(Path(path).read_text())) == stored.recommended
    assert "reusebench apply" in lines[1]


def test_a_stored_plan_of_short_memory_is_measured_again(on_cpu: Calibrated) -> None:
    """It is not believed; the others are. The first one, of a single context, was measured once."""
    on_cpu.fit()
    sign = {"code": "shortage_swapped", "values": {"mib": "5.0"}}
    file = min((on_cpu.storage / "fit" / "measured").glob("*/*.json"), key=lambda path: path.name)
    document = json.loads(file.read_text())
    document["benchmarks"][0]["extra_info"]["repeats"][0]["shortage"]["signs"] = [sign]
    file.write_text(json.dumps(document))
    assert on_cpu.fit().err == "Measuring: 1 plan of 1 context, in 1 process\n"
    assert "Measuring" not in on_cpu.fit().err


def test_what_does_not_fit(on_cpu: Calibrated) -> None:
    """Exit code 1, how much is missing, and the layout that takes the least all the same."""
    ended = on_cpu.fit("--limit", "1MiB")
    assert ended.exit_code == 1
    assert re.search(r"^Smallest .*does not fit", ended.out, re.MULTILINE)
    assert "Recommended" not in ended.out


def test_what_is_free_here(on_cpu: Calibrated) -> None:
    """`free` is what this machine has available."""
    assert on_cpu.answer("--limit", "free")["limit_bytes"] > 2**20


def test_frames_that_nothing_reaches(on_cpu: Calibrated) -> None:
    """Exit code 1, and how many the best layout does; nothing is recommended."""
    ended = on_cpu.fit("--fps", 1000)
    assert ended.exit_code == 1
    assert "No layout has 1,000 frames per second of each stream; the most is" in ended.out
    assert on_cpu.answer("--fps", 1000)["recommended"] is None


def test_a_program_of_a_layout_that_fits(on_cpu: Calibrated) -> None:
    """Standard output is the program alone; the answer with its measurement goes to standard
    error.
    """
    ended = on_cpu.fit("--code", "--verify", "--limit", "1GiB")
    assert ended.exit_code == 0
    compile(ended.out, "program", "exec")
    assert "Recommended" in ended.err
    assert re.search("predicted +measured", ended.err)


@pytest.mark.parametrize("words", [("--limit", "1MiB"), ("--fps", 1000)])
def test_no_program_of_a_layout_that_does_not_fit(
    on_cpu: Calibrated, words: tuple[object, ...]
) -> None:
    """Exit code 1 and nothing on standard output; standard error has the answer and the reason."""
    ended = on_cpu.fit("--code", *words)
    assert (ended.exit_code, ended.out) == (1, "")
    assert "Without reuse" in ended.err
    assert "Error: no program is printed, for its layout does not fit" in ended.err


@_with_library
def test_a_library_that_is_replaced_meanwhile(
    reusebench: Reusebench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An answer is of one library: the command ends with a sentence."""
    assert _LIBRARY is not None
    monkeypatch.setenv("XDG_CACHE_HOME", str(_CACHE.parent))
    library = Path(shutil.copy(_LIBRARY.path, tmp_path))

    def run_and_replace(
        options: Any, storage: Path, tests: Any, output: Any
    ) -> tuple[int, list[Path]]:
        done = run_bench(options, storage, tests[:1], output)
        library.write_bytes(library.read_bytes() + bytes(1))
        return done

    monkeypatch.setattr("reusebench.commands.fit_plans.run_bench", run_and_replace)
    words = [
        "--storage",
        tmp_path,
        "--runtime",
        "rknn",
        "--target",
        "vboard:rk3588",
        "--rknn-library",
        library,
    ]
    ended = reusebench("fit", *words, "--model", _RKNN_MODELS[0], "--contexts", 1)
    assert ended.exit_code == 2
    assert f"--rknn-library {library}: it has changed since it was first read" in ended.err


@_with_library
def test_npu_memory_to_the_byte(on_npu: Calibrated) -> None:
    """Predicted and measured are equal by component, and not below the lower bound; frames are not
    known.
    """
    answer = on_npu.answer("--verify")
    assert answer["limit_of"] == "npu_memory"
    assert answer["measured_npu_components_bytes"] == answer["predicted_npu_components_bytes"]
    assert (
        sum(answer["predicted_npu_components_bytes"].values())
        == answer["predicted_npu_memory_bytes"]
    )
    assert (
        answer["measured_npu_memory_bytes"]
        == answer["predicted_npu_memory_bytes"]
        >= answer["least_bytes"]
    )
    assert answer["predicted_npu_memory_bytes"] < answer["today"]["bytes"]
    assert (answer["best"]["contexts"], answer["best"]["lanes"]) == (4, 3)
    assert answer["predicted_frames_per_s"] is answer["measured_frames_per_s"] is None
    first, *others = Plan.from_json(answer["recommended"]).contexts
    assert {context.core for context in (first, *others)} == {0, 1, 2}
    assert all(INPUT in context.zero_copy for context in (first, *others))


@_with_library
def test_a_program_that_nobody_changes_takes_what_is_predicted(
    on_npu: Calibrated,
) -> None:
    """Applied by fit's plan, its NPU memory is the predicted one to the byte, and the NPU reads no
    wrong memory.
    """
    assert _LIBRARY is not None
    if not APPLY.is_built("aarch64"):
        pytest.skip("no library of apply in the user's cache")
    assert on_npu.fit().exit_code == 0
    plan = on_npu.storage / "fit" / "applied-rknn.json"
    board = ("--target", "vboard:rk3588", "--rknn-library", _LIBRARY.path)
    files = ("--read", CHECKOUT / "src", "--plan", plan)
    program = Path(__file__).with_name("four_contexts.py")
    words = (*board, *files, "--", "python3", program, _RKNN_MODELS[0])
    # Not in this process: a program ends with all processes that are below its recorder.
    ended = subprocess.run(
        [sys.executable, "-m", "reusebench", "apply", *words],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT / "src")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "4 contexts as planned" in ended.stderr
    assert ended.stderr.splitlines()[-1].endswith("bytes), taken to the byte")
    assert "WRONG" not in ended.stderr


@_with_library
def test_the_limit_is_exact_to_the_byte(on_npu: Calibrated) -> None:
    """The recommended layout fits its own size and not a byte less; then the largest that fits
    is shown.
    """
    exact = on_npu.answer()["predicted_npu_memory_bytes"]
    assert on_npu.fit("--limit", f"{exact}B").exit_code == 0
    ended = on_npu.fit("--limit", f"{exact - 1}B")
    assert ended.exit_code == 1
    assert "does not fit" in ended.out
    assert "What fits" in ended.out
    assert on_npu.answer("--limit", "free", "--npu-memory", f"{exact}B")["limit_bytes"] == exact
    assert on_npu.fit("--limit", "free").exit_code == 2


@_with_library
def test_frames_are_not_considered_where_nothing_computes(on_npu: Calibrated) -> None:
    """It is said so."""
    assert "does not compute: --fps was not considered" in on_npu.fit("--fps", "30").out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--limit", "0"), "'0' is not a size"),
        (("--limit", "much"), "or free"),
        (("--limit", "1024TiB"), "or free"),
        (("--limit", "1000000GiB"), "this board has"),
        (("--model", "nowhere.onnx"), "nowhere.onnx"),
        (("--streams", "0"), "--streams"),
        (("--fps", "0"), "--fps"),
        (("--runtime", "nothing"), "--runtime"),
        (("--target", "nowhere"), "nowhere"),
    ],
)
def test_a_mistake_is_a_sentence(
    words: tuple[str, ...], sentence: str, reusebench: Reusebench, tmp_path: Path
) -> None:
    """Exit code 2, what is valid, and nothing is measured or stored."""
    ended = reusebench("fit", "--storage", tmp_path / "storage", "--runtime", "onnxruntime", *words)
    assert ended.exit_code == 2
    assert sentence in ended.err
    assert "Traceback" not in ended.err
    assert not (tmp_path / "storage").exists()


def test_models_and_resolutions_are_two_questions(
    reusebench: Reusebench, tmp_path: Path, tiny_model: Path
) -> None:
    """Both together are refused."""
    words = ("--runtime", "onnxruntime", "--model", tiny_model, "--resolution", tiny_model)
    ended = reusebench("fit", "--storage", tmp_path, *words)
    assert ended.exit_code == 2
    assert "leave one of them out" in ended.err


def test_more_models_than_streams(
    reusebench: Reusebench, tmp_path: Path, tiny_models: tuple[Path, Path]
) -> None:
    """A model serves one stream or more."""
    words = (
        "--runtime",
        "onnxruntime",
        "--model",
        tiny_models[0],
        "--model",
        tiny_models[1],
        "--streams",
        1,
    )
    ended = reusebench("fit", "--storage", tmp_path, *words)
    assert ended.exit_code == 2
    assert "2 models and 1 stream" in ended.err


def test_a_model_that_does_not_run(reusebench: Reusebench, tmp_path: Path) -> None:
    """The runtime's own reason is in the sentence."""
    model = tmp_path / "broken.onnx"
    model.write_bytes(b"no model")
    ended = reusebench(
        "fit", "--storage", tmp_path / "storage", "--runtime", "onnxruntime", "--model", model
    )
    assert ended.exit_code == 2
    assert "broken.onnx" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.slow
@pytest.mark.skipif(bool(_MISSING_OF_ROCKET), reason="needs the virtual board vboard:rocket")
def test_contexts_of_teflon_to_the_byte(
    reusebench: Reusebench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contexts share nothing; a patch to Mesa would leave weights and biases once per open file."""
    pytest.importorskip("ai_edge_litert", reason="writes the model")
    from tests.measured.runtimes.teflon_models import write_model

    monkeypatch.setenv("XDG_CACHE_HOME", str(_CACHE.parent))
    model = write_model(tmp_path / "model.tflite")
    options = ["--runtime", "teflon", "--target", "vboard:rocket", "--storage", tmp_path / "runs"]
    streams = ["--streams", 4, "--contexts", 1, "--verify"]
    ended = reusebench("fit", "--json", "--model", model, *options, *streams)
    answer = result_of(ended)
    components = answer["measured_npu_components_bytes"]
    assert components == answer["predicted_npu_components_bytes"]
    assert answer["measured_npu_memory_bytes"] == answer["today"]["bytes"]
    assert (answer["best"]["contexts"], answer["best"]["lanes"]) == (4, 3)
    of_weights = components["weights"] + components["biases"]
    for patch, open_files in zip(answer["patches"], (3, 1)):
        assert patch["open_files"] == open_files
        saved = answer["best"]["bytes"] - patch["npu_memory_bytes"]
        assert saved == of_weights // 4 * (4 - open_files)
