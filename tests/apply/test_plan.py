"""A plan as settings of an applied program."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import pytest

from reusebench.apply.digests import content_digest, rknn_digest
from reusebench.apply.errors import ApplyError
from reusebench.apply.plan import PlannedContext, PlanSettings
from reusebench.measured.plan import (
    DUP,
    INPUT,
    SHARED_CONTEXT,
    SHARED_WEIGHTS,
    WEIGHTS,
    Context,
    Model,
    Plan,
)
from reusebench.system.package import NATIVE
from reusebench.targets.compilers import compiler_for

#: Calls the library's own function, which is hidden, for ctypes.
_EXPORTED = """
#include "apply/apply.h"
__attribute__((visibility("default"))) void digest(const void *bytes, uint32_t size, uint64_t *to)
{
    struct content content = {bytes, size, 0};
    struct model model = model_of(&content, 0);
    to[0] = model.digest[0];
    to[1] = model.digest[1];
}
"""


@pytest.fixture
def models(tmp_path: Path) -> tuple[Model, ...]:
    """Return two models with files."""
    made = []
    for name in ("detector", "recogniser"):
        path = tmp_path / f"{name}.rknn"
        path.write_bytes(name.encode())
        made.append(Model(name, str(path), digest=name))
    return tuple(made)


def _plan(
    models: tuple[Model, ...], *contexts: Context, runtime: str = "rknn", cores: int = 3
) -> Plan:
    return Plan("mine", None, runtime, models, contexts, cores, rounds=1)


def _dup(model: int, source: int, internal: int, core: int) -> Context:
    return Context(None, model, DUP, source, internal, core=core)


@pytest.mark.process
def test_the_digest_is_that_of_the_library(tmp_path: Path) -> None:
    """Sizes that are no whole words, and contents of several pieces, are known by both."""
    source = tmp_path / "digest.c"
    source.write_text(_EXPORTED, encoding="utf-8")
    library = tmp_path / "digest.so"
    sources = [str(source), str(NATIVE / "apply" / "models.c")]
    options = ["-std=gnu11", "-fPIC", "-shared", "-I", str(NATIVE)]
    compiler_for("x86_64", print).compile([*options, "-o", str(library), *sources])
    digest = ctypes.CDLL(str(library)).digest
    for size in (0, 1, 7, 8, 9, 4096, (1 << 22) + 13):
        content = bytes(number * 7 % 251 for number in range(min(size, 1000)))
        content = (content * (size // 1000 + 1))[:size]
        words = (ctypes.c_uint64 * 2)()
        digest(content, size, words)
        assert rknn_digest(content) == f"{words[0]:016x}{words[1]:016x}", size


def test_models_with_one_other_byte_are_others() -> None:
    """Also if the byte has moved to another word."""
    content = bytes(64)
    others = {rknn_digest(content)}
    for place in range(64):
        others.add(rknn_digest(content[:place] + b"\1" + content[place + 1 :]))
    assert len(others) == 65


def test_each_context_of_a_model_has_a_line(models: tuple[Model, ...]) -> None:
    """Weights, internal memory and cores are those of the plan; models are known by content."""
    plan = _plan(
        models,
        Context(None, 0, internal=0, core=0),
        Context(None, 1, internal=1, core=1),
        _dup(0, 0, internal=1, core=1),
        _dup(0, 0, internal=2, core=2),
    )
    settings = PlanSettings.of(plan)
    assert PlanSettings.read(settings.text()) == settings
    assert settings.left_out == ()
    assert settings.text().splitlines() == [
        "reusebench-apply-plan 1",
        f"model rknn {rknn_digest(b'detector')} 8 detector",
        "context 0 0 0 0",
        "context 2 0 1 1",
        "context 3 0 2 2",
        f"model rknn {rknn_digest(b'recogniser')} 10 recogniser",
        "context 1 1 1 1",
    ]


def test_a_context_without_reuse_has_all_of_its_own(models: tuple[Model, ...]) -> None:
    """Nothing is shared, and no core is set, unless the plan says so."""
    (detector, _) = PlanSettings.of(
        _plan(models, Context(None, 0), Context(None, 0), Context(None, 1))
    ).models
    assert detector.contexts == (PlannedContext(0, 0, -1, -1), PlannedContext(1, 1, -1, -1))


def test_a_model_that_no_context_has_is_left_out(models: tuple[Model, ...]) -> None:
    """Its file need not be there."""
    missing = replace(models[1], path="/no/such/file")
    settings = PlanSettings.of(_plan((models[0], missing), Context(None, 0)))
    assert [model.name for model in settings.models] == ["detector"]


def test_callers_of_one_context_are_sessions_or_duplicates(models: tuple[Model, ...]) -> None:
    """Rockchip's runtime has no context for several callers: they get duplicates in one memory."""
    contexts = (Context(None, 0), Context(None, 0, SHARED_CONTEXT, 0))
    settings = PlanSettings.of(_plan(models, *contexts))
    assert settings.models[0].contexts == (
        PlannedContext(0, 0, 2, -1),
        PlannedContext(0, 0, 2, -1),
    )
    assert settings.left_out == (
        "1 context: one context with several callers; each has a duplicate, in the same internal"
        " memory",
    )
    settings = PlanSettings.of(_plan(models, *contexts, runtime="onnxruntime"))
    assert settings.models[0].digest == content_digest(b"detector")
    assert {context.context for context in settings.models[0].contexts} == {0}
    assert settings.left_out == ()


def test_weights_of_another_resolution_are_shared_within_it(models: tuple[Model, ...]) -> None:
    """A program loads each resolution with its weights."""
    contexts = (
        Context(None, 0),
        Context(None, 1, SHARED_WEIGHTS, 0),
        Context(None, 1, SHARED_WEIGHTS, 0),
    )
    settings = PlanSettings.of(_plan(models, *contexts))
    assert [context.weights for context in settings.models[1].contexts] == [1, 1]
    (sentence,) = settings.left_out
    assert sentence.startswith("2 contexts: weights of another resolution;")


def test_each_part_that_a_program_cannot_be_given_has_a_sentence(
    models: tuple[Model, ...],
) -> None:
    """Tensors, options, devices and the memory of the application are the program's own."""
    context = Context(
        None,
        0,
        outside=(WEIGHTS,),
        allocator="dma_heap",
        zero_copy=(INPUT, "model"),
        options=("a=b",),
    )
    settings = replace(PlanSettings.of(_plan(models, context)), predicted_bytes=5)
    assert PlanSettings.read(settings.text()) == settings
    sentences = settings.left_out
    beginnings = [sentence.partition(";")[0] for sentence in sentences]
    assert beginnings == [
        "1 context: tensors in place",
        "1 context: the model in place",
        "1 context: options of the runtime",
        "1 context: weights in memory of the application",
        "1 context: memory from dma_heap",
    ]


def test_a_plan_that_cannot_be_applied_is_refused(models: tuple[Model, ...]) -> None:
    """Runtimes without hooks, plans without contexts, and models that are gone."""
    with pytest.raises(ApplyError, match="the plan is for ncnn, whose programs have to be changed"):
        PlanSettings.of(_plan(models, Context(None, 0), runtime="ncnn"))
    with pytest.raises(ApplyError, match="nothing to apply"):
        PlanSettings.of(_plan(models))
    Path(models[0].path).unlink()
    with pytest.raises(ApplyError, match="'detector' cannot be read"):
        PlanSettings.of(_plan(models, Context(None, 0)))
