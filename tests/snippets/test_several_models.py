"""The programs of plans with several models, run for real: outputs equal the driver's."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import onnx
import pytest

from reusebench.measured.plan import Model, Plan
from reusebench.measured.runtimes import RUNTIMES, RuntimeEntry, available
from reusebench.measured.runtimes.base import InputData, NotSupported
from reusebench.models import OnnxFile, Recipe, converter_of
from reusebench.models.built_files import ensure
from reusebench.models.megengine.environment import MEGENGINE
from reusebench.models.networks.network import INPUT_NAME
from reusebench.snippets import Snippet, snippet_of
from reusebench.system.package import PACKAGE, python_command
from reusebench.targets.measured_process import prepare_models
from reusebench.targets.outcome import Failure
from reusebench.targets.target import THIS_INTERPRETER, Target
from tests.helpers.support import CHECKOUT, PROGRAM_LIMIT_S, known, walk
from tests.measured.runtimes.ncnn_models import DETECTOR, write_net
from tests.snippets.several_models import (
    FIRST,
    FREE,
    LARGE,
    PLANS,
    SECOND,
    SIZES,
    ModelFile,
    put_together,
)

pytestmark = pytest.mark.process

#: The user's cache, since the tests have their own.
_MEGENGINE = MEGENGINE.folder()
_RECIPES = {
    FIRST: Recipe("tiny", SIZES[0], 1),
    SECOND: Recipe("tiny", SIZES[0], 2),
    LARGE: Recipe("tiny", SIZES[1], 1),
}
#: All models of all plans.
_MODELS = sorted({model for several in PLANS.values() for model in several.models}, key=str)
#: Modules to import before the programs run, if not the runtime's own module. A runtime that starts
#: threads at its import has none, since a fork would lack the threads.
_MODULES = {"litert": "ai_edge_litert.compiled_model", "mnn": "MNN.expr", "openvino": "numpy"}
#: Programs set the first before they import ONNX Runtime, which is imported before them here; with
#: the second numpy starts no threads.
_BEFORE_IMPORTS = {"ORT_DISABLE_TELEMETRY": "1", "OPENBLAS_NUM_THREADS": "1"}
#: Time limit for all programs of a runtime, and for the driver with their plans.
_TIME_LIMIT_S = 2 * PROGRAM_LIMIT_S
_OUTPUTS = re.compile(r"^context (\d+): CRC-32 of its outputs ([0-9a-f]{8})$", re.MULTILINE)


@dataclass
class Programs:
    """A runtime with its Python and its files; programs are written into the files' folder."""

    entry: RuntimeEntry
    target: Target
    #: Files by name; FREE is missing if nothing makes such a file.
    files: dict[str, Path]
    folder: Path
    #: Values by the digest of the model; empty until a plan asks.
    _prepared: dict[str, str | None] = field(default_factory=dict)
    #: The outputs' digests that the driver has sent, by the name of the plan: empty until a plan
    #: asks.
    _measured: dict[str, list[str]] = field(default_factory=dict)

    def plan(self, name: str) -> Plan:
        """Return a plan by its name; skip if one of its files is missing."""
        several = PLANS[name]
        missing = [model.file for model in several.models if model.file not in self.files]
        if missing:
            pytest.skip(f"no {self.entry.suffix} file that leaves sizes free")
        return several.plan(
            name, self.entry.name, {model: self._model(model) for model in several.models}
        )

    def _model(self, model: ModelFile) -> Model:
        path = self.files[model.file]
        inputs: tuple[InputData, ...] = ()
        if model.size is not None:
            inputs = (_input_of(self.entry, model.size),)
        return Model(path.stem, str(path), f"{model.file}-{model.size}", inputs=inputs)

    def written(self, plan: Plan) -> Snippet:
        """Return the plan's program; skip if there is none, or if it is in C."""
        try:
            snippet = snippet_of(plan)
        except NotSupported as refused:
            pytest.skip(str(refused))
        if snippet.language != "python":
            pytest.skip(f"programs for {self.entry.title} are in C")
        return snippet

    def printed(self, plan: Plan) -> list[str]:
        """Return the digests of each context's outputs that the plan's program prints."""
        program = self._program(plan)
        if not program.exists():
            self._run_all()
        exit_code, err, out = (
            Path(f"{program}.{name}").read_text(encoding="utf-8")
            for name in ("exit_code", "err", "out")
        )
        assert exit_code == "0", err
        lines = _OUTPUTS.findall(out)
        assert [int(number) for number, _ in lines] == list(range(len(plan.contexts)))
        return [digest for _, digest in lines]

    def _program(self, plan: Plan) -> Path:
        return self.folder / f"{plan.scenario}.py"

    def _run_all(self) -> None:
        """Write and run the programs of all plans, one after the other."""
        programs = []
        for plan in self._plans():
            program = self._program(plan)
            program.write_text(snippet_of(plan).text)
            files = dict.fromkeys(plan.models[context.model].path for context in plan.contexts)
            programs.append([str(program), *files])
        module = _MODULES.get(self.entry.name, self.entry.module)
        done = subprocess.run(
            [self.target.command[0], "-m", "tests.snippets.noise_client", str(module)],
            cwd=CHECKOUT,
            env={**os.environ, "PYTHONPATH": str(PACKAGE.parent), **_BEFORE_IMPORTS},
            input=json.dumps(programs),
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=_TIME_LIMIT_S,
        )
        assert done.returncode == 0, done.stderr

    def measured(self, plan: Plan) -> list[str]:
        """Return the checksums of the driver's steady phase."""
        if not self._measured:
            self._measure_all()
        return self._measured[plan.scenario]

    def _measure_all(self) -> None:
        """Let the driver run all plans: first those whose contexts have cores, then the others."""
        on_cores: list[Plan] = []
        elsewhere: list[Plan] = []
        for plan in self._plans():
            (elsewhere if plan.contexts[0].core is None else on_cores).append(plan)
        for plans in filter(None, (on_cores, elsewhere)):
            run = walk(
                self._with_prepared(put_together(plans)), self.target, time_limit_s=_TIME_LIMIT_S
            )
            assert run.failure is None, run.failure
            (digests,) = (
                reading.data.digests for reading in run.barriers if reading.phase == "steady"
            )
            rest = iter(digests)
            for plan in plans:
                self._measured[plan.scenario] = list(islice(rest, len(plan.contexts)))

    def _plans(self) -> list[Plan]:
        """Return the plans with existing files and a program."""
        plans = []
        for name, several in PLANS.items():
            if several.files() <= self.files.keys():
                plan = self.plan(name)
                with contextlib.suppress(NotSupported):
                    snippet_of(plan)
                    plans.append(plan)
        return plans

    def _with_prepared(self, plan: Plan) -> Plan:
        """Return the plan with prepared models, which the first plan prepares for all."""
        if not plan.models_to_prepare() or not self.entry.prepares:
            return plan
        if not self._prepared:
            models = [self._model(model) for model in _MODELS]
            made = prepare_models(
                self.target, self.entry.name, models, self.folder / "prepared", _TIME_LIMIT_S
            )
            assert not isinstance(made, Failure), made
            self._prepared.update(
                {digest: known(preparation).path for digest, preparation in made.items()}
            )
        return plan.with_prepared(self._prepared)


def _input_of(entry: RuntimeEntry, size: int) -> InputData:
    """Return the input of a file at a size."""
    name = "in0" if entry.name == "ncnn" else INPUT_NAME
    shape = (1, size, size, 3) if entry.name == "litert" else (1, 3, size, size)
    return InputData(name, "float32", shape)


#: Runtimes of language models hold conversations, which these plans have none of.
_OF_TENSORS = [entry for entry in RUNTIMES if not entry.has_conversations]


@pytest.fixture(scope="module", params=_OF_TENSORS, ids=lambda entry: entry.name)
def programs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """Return one runtime after the other; skip missing ones."""
    entry: RuntimeEntry = request.param
    if entry.name == "rknn":
        pytest.skip("programs for RKNN are in C: test_rknn_snippets.py has these plans")
    is_there = MEGENGINE.installed() if entry.has_own_python else available(entry)
    if not is_there:
        pytest.skip(f"{entry.title} is not installed: {entry.install}")
    target = THIS_INTERPRETER
    if entry.has_own_python:
        target = Target(entry.name, tuple(python_command(python=str(MEGENGINE.python()))))
    folder = tmp_path_factory.mktemp(entry.name)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        if ".onnx" in entry.suffixes:
            files = _onnx_files(folder)
        else:
            files = _OWN_FILES.get(entry.name, _converted)(entry, folder)
    return Programs(entry, target, files, folder)


def _onnx_files(folder: Path) -> dict[str, Path]:
    """Return copies of the built-in networks: programs write prepared files into their folder."""
    files = {}
    for name, recipe in _RECIPES.items():
        files[name] = folder / f"{name}.onnx"
        files[name].write_bytes(ensure(recipe).read_bytes())
    model = onnx.load(str(files[FIRST]))
    for number, size in ((2, "height"), (3, "width")):
        model.graph.input[0].type.tensor_type.shape.dim[number].dim_param = size
    files[FREE] = folder / "free.onnx"
    onnx.save(model, str(files[FREE]))
    return files


def _converted(entry: RuntimeEntry, folder: Path) -> dict[str, Path]:
    """Return the converted files; MegEngine's, made from the description, have no free sizes."""
    sources: dict[str, Recipe | OnnxFile] = dict(_RECIPES)
    if entry.has_own_python:
        MEGENGINE.folder().parent.mkdir(parents=True)
        MEGENGINE.folder().symlink_to(_MEGENGINE)
    else:
        inputs = _RECIPES[FIRST].inputs
        sources[FREE] = OnnxFile(
            str(_onnx_files(folder)[FREE]), "free", inputs, has_free_sizes=False
        )
    with known(converter_of(entry.suffix))() as converter:
        recipes = [
            converter.recipe(source, None, weightless=False, quantised=False)
            for source in sources.values()
        ]
        return dict(zip(sources, converter.ensure_all(recipes)))


def _ncnn_files(_: RuntimeEntry, folder: Path) -> dict[str, Path]:
    """Return small nets: pnnx would take longer than all programs."""
    sizes: dict[str, int | None] = {FIRST: SIZES[0], SECOND: SIZES[0], LARGE: SIZES[1], FREE: None}
    files = {}
    for name, size in sizes.items():
        weights = DETECTOR.weights(seed=int(name == SECOND))
        files[name] = write_net(folder / f"{name}.param", DETECTOR.layers(size), weights)
    return files


def _litert_files(_: RuntimeEntry, folder: Path) -> dict[str, Path]:
    """Return small models: onnx2tf would take longer than all programs."""
    from tests.measured.runtimes.litert_models import write_model  # it needs LiteRT's schema

    sizes = {FIRST: SIZES[0], SECOND: SIZES[0], LARGE: SIZES[1], FREE: 0}
    files = {}
    for name, size in sizes.items():
        files[name] = write_model(folder / f"{name}.tflite", size, seed=int(name == SECOND))
    return files


#: Converters for the runtimes whose conversions take long.
_OWN_FILES: dict[str, Callable[[RuntimeEntry, Path], dict[str, Path]]] = {
    "ncnn": _ncnn_files,
    "litert": _litert_files,
}


@pytest.mark.parametrize("name", PLANS)
def test_each_context_runs_its_own_model(programs: Programs, name: str) -> None:
    """Equal inputs give the driver's outputs, bit for bit, which differ between models."""
    plan = programs.plan(name)
    programs.written(plan)
    digests = programs.printed(plan)
    assert digests == programs.measured(plan)
    of_models = {(context.model, digest) for context, digest in zip(plan.contexts, digests)}
    assert (
        len(of_models)
        == len({digest for _, digest in of_models})
        == len({model for model, _ in of_models})
    )
