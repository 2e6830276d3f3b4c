"""The content of plan files, and mistakes in them with their file, line and key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reusebench.harness.plans.document import PlanFileError
from reusebench.harness.plans.plan_file import PlanFile, PlanPace
from reusebench.harness.plans.reading import read_plan_file, read_plan_files
from reusebench.measured.plan import (
    ADAPTER,
    DMA_HEAP,
    DUP,
    INPUT,
    INTERNAL,
    OUTPUT,
    RESTORED_PROMPT,
    SEQUENCE,
    SHARED_PROMPT,
    SHARED_WEIGHTS,
    WEIGHTS,
    Context,
    Conversation,
    Model,
    Plan,
)
from reusebench.models import Recipe
from reusebench.models.language import LanguageRecipe

#: A plan whose every line has a test.
_GATE = """\
name = "gate"
cores = 2

[models]
detector = "m.onnx"
reader = { file = "m.onnx", shape = "1x3x8x8" }

[contexts]
detect = { model = "detector", stream = 0, internal = "a" }
read = { model = "reader", stream = 0, after = "detect", internal = "a" }
detect-2 = { dup = "detect", stream = 1 }

[streams]
count = 2
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a file that passes as a model while plans are read."""
    (tmp_path / "m.onnx").write_bytes(b"model")
    return tmp_path


def _read(folder: Path, text: str, name: str = "p.toml") -> PlanFile:
    (folder / name).write_text(text)
    return read_plan_file(folder / name)


def _plan(file: PlanFile, cores: int = 2) -> Plan:
    """Return the plan on a machine with `cores` cores; schedules have tests of their own."""
    models = [Model(model.name, "m", model.name) for model in file.models]
    return file.plan("onnxruntime", models, file.checked_cores(cores, is_known=True), rounds=3)


def _refusal(folder: Path, text: str, name: str = "p.toml", cores: int = 2) -> str:
    """Return the error of the file without its path."""
    with pytest.raises(PlanFileError) as error:
        _plan(_read(folder, text, name), cores)
    return (
        str(error.value)
        .replace(f"--plan {folder / name}", "")
        .removeprefix(", ")
        .removeprefix(": ")
    )


def test_a_pipeline(folder: Path) -> None:
    """A detector and then a reader share one internal memory, and the other stream has a dup."""
    file = _read(folder, _GATE)
    assert (file.name, file.cores, file.scenarios) == ("gate", 2, ("gate.no_reuse", "gate"))
    assert [(model.name, model.source) for model in file.models] == [
        ("detector", folder / "m.onnx"),
        ("reader", folder / "m.onnx"),
    ]
    assert file.models[1].shape == ((None, (1, 3, 8, 8)),)
    plan = _plan(file)
    assert plan.contexts == (
        Context(0, 0, internal=0),
        Context(0, 1, internal=0),
        Context(1, 0, DUP, 0),
    )
    assert [context.name for context in plan.contexts] == ["detect", "read", "detect-2"]
    assert plan.chains == ((0, 1),)
    assert (plan.scenario, plan.baseline) == ("gate", "gate.no_reuse")
    assert (file.stream_count, file.contexts_per_stream) == (2, 1)


def test_all_that_a_context_may_say(folder: Path) -> None:
    """Each key is a field of the plan's contexts."""
    file = _read(
        folder,
        """
        [models]
        a = { network = "tiny", size = 64, seed = 3 }
        b = { network = "tiny" }
        [contexts.first]
        model = "a"
        outside = ["weights", "internal"]
        allocator = "dma_heap"
        core = 0
        [contexts.second]
        model = "b"
        shared_weights = "first"
        zero_copy = ["input", "output"]
        core = 1
        [contexts.third]
        model = "a"
        device_io = true
        device = "cuda"
        core = 1
        """,
        "door.toml",
    )
    assert [model.source for model in file.models] == [Recipe("tiny", 64, 3), Recipe("tiny", 64, 0)]
    assert (file.name, file.streams, file.chains) == ("door", None, ())
    assert file.slaves == [file.models[1]]
    assert _plan(file).contexts == (
        Context(None, 0, outside=(WEIGHTS, INTERNAL), allocator=DMA_HEAP, core=0),
        Context(None, 1, SHARED_WEIGHTS, 0, zero_copy=(INPUT, OUTPUT), core=1),
        Context(None, 0, device_io=True, device="cuda", core=1),
    )


def test_a_plan_of_conversations(folder: Path) -> None:
    """Numbers that the file leaves out come from the options; each way to reuse is a key."""
    file = _read(
        folder,
        """
        [models]
        base = { network = "decoder" }
        lora = { network = "decoder", part = "adapter", number = 2 }
        [conversation]
        tokens = 512
        common = 20
        [contexts]
        a = { model = "base", unified_cache = true }
        b = { shared_prompt = "a" }
        c = { sequence = "a" }
        d = { restored_prompt = "a" }
        e = { adapter = "a", model = "lora" }
        """,
        "talk.toml",
    )
    assert file.has_language_models
    assert file.adapters == [file.models[1]]
    assert file.models[1].source == LanguageRecipe(part="adapter", number=2)
    conversation = file.checked_conversation(Conversation(1024, 120, 16, 96))
    assert conversation == Conversation(512, 120, 16, 20)
    models = [Model(model.name, "m", model.name) for model in file.models]
    plan = file.plan("llama_cpp", models, 1, 3, conversation=conversation)
    assert plan.contexts == (
        Context(None, 0, unified_cache=True),
        Context(None, 0, SHARED_PROMPT, 0),
        Context(None, 0, SEQUENCE, 0),
        Context(None, 0, RESTORED_PROMPT, 0),
        Context(None, 1, ADAPTER, 0),
    )
    with pytest.raises(PlanFileError, match=r"contexts\.b.*for language models, and the plan has"):
        file.plan("llama_cpp", models, 1, 3)
    long = _read(
        folder,
        "[models]\nm = 'm.onnx'\n[conversation]\nprompt = 600\ntokens = 512\n"
        "[contexts]\na = { model = 'm' }",
    )
    with pytest.raises(PlanFileError, match=r"line 3, conversation: .* 512 tokens has no room"):
        long.checked_conversation(Conversation(1024, 120, 16, 96))


def test_mistakes_about_conversations(folder: Path) -> None:
    """Each is a sentence with its line and its key."""
    context = "[contexts]\na = { model = 'm' }"
    model = "[models]\nm = { network = 'decoder'%s }\n"
    assert "line 2, models.m.size: decoder is a language model" in _refusal(
        folder, model % ", size = 64" + context
    )
    assert "line 2, models.m.part: there is no part 'lora'" in _refusal(
        folder, model % ", part = 'lora'" + context
    )
    assert "line 2, models.m.number: adapter 9 does not exist" in _refusal(
        folder, model % ", part = 'adapter', number = 9" + context
    )
    tiny = "[models]\nm = { network = 'tiny', part = 'adapter' }\n"
    assert "only a built-in language model has it" in _refusal(folder, tiny + context)
    assert "line 4, conversation.tokens: 0 is not valid" in _refusal(
        folder, model % "" + "[conversation]\ntokens = 0\n" + context
    )
    file = _read(folder, "cores = 2\n" + model % "" + context)
    with pytest.raises(PlanFileError, match=r"line 1, cores: .* take turns"):
        file.checked_conversation(Conversation(1024, 120, 16, 96))


def test_the_same_in_json(folder: Path) -> None:
    """JSON has the same keys."""
    document = {
        "name": "gate",
        "cores": 2,
        "models": {"detector": "m.onnx", "reader": {"file": "m.onnx", "shape": "1x3x8x8"}},
        "contexts": {
            "detect": {"model": "detector", "stream": 0, "internal": "a"},
            "read": {"model": "reader", "stream": 0, "after": "detect", "internal": "a"},
            "detect-2": {"dup": "detect", "stream": 1},
        },
        "streams": {"count": 2},
    }
    file = _read(folder, json.dumps(document), "p.json")
    toml = _read(folder, _GATE)
    assert (file.models, file.contexts, file.chains, file.streams) == (
        toml.models,
        toml.contexts,
        toml.chains,
        toml.streams,
    )


def test_order_of_running_and_of_making(folder: Path) -> None:
    """`after` may name a context that is made later; a chain may have any length."""
    contexts = (
        "[models]\nm = 'm.onnx'\n[contexts]\nc = {model='m', after='b'}\na = {model='m'}\nb ="
        " {model='m', after='a'}"
    )
    assert _read(folder, contexts).chains == ((1, 2, 0),)


def test_shapes_and_data_of_inputs(folder: Path) -> None:
    """A model with several inputs has a table of shapes; the path of the data is relative to the
    plan's file.
    """
    (folder / "data").mkdir()
    (folder / "data" / "real.npz").write_bytes(b"arrays")
    (model,) = _read(
        folder,
        "[models.m]\nfile = 'm.onnx'\ninputs = 'data/real.npz'\nweightless = 'm.onnx'\n"
        "[models.m.shape]\nids = '1x128'\nmask = '1x128'\n[contexts]\na = { model = 'm' }",
    ).models
    assert model.shape == (("ids", (1, 128)), ("mask", (1, 128)))
    assert (model.inputs, model.weightless) == (folder / "data" / "real.npz", folder / "m.onnx")


def test_streams(folder: Path) -> None:
    """Options decide what the file leaves out."""
    streams = _read(folder, _GATE + "fps = 12.5\nqueue = 1\nduration = '2m'").streams
    assert streams is not None
    assert (streams.count, streams.pace) == (2, PlanPace(12.5, 1, 120.0))
    plain = _read(folder, _GATE).streams
    assert plain is not None
    assert plain.pace == PlanPace()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            '"gate"',
            '"full_dup"',
            "line 1, name: 'full_dup' is the name of a built-in scenario; give the plan another",
        ),
        (
            '"gate"',
            '"my gate"',
            "line 1, name: 'my gate' is no name for a plan; valid: letters, digits, - and _",
        ),
        ('"gate"', '"gate.no_reuse"', "line 1, name: 'gate.no_reuse' is no name for a plan"),
        ('"gate"', "3", "line 1, name: 3 is not valid; valid: a text"),
        ("cores = 2", "cores = 0", "line 2, cores: 0 is not valid; valid: a whole number from 1"),
        ("cores = 2", "cores = true", "line 2, cores: True is not valid; valid: a whole number"),
        (
            "cores = 2",
            "cores = 4",
            "line 2, cores: this machine has 2; valid: 1 to 2, or leave it out",
        ),
        (
            "cores = 2",
            "coers = 2",
            "line 2, coers: there is no such key here; did you mean 'cores'? valid: name, ",
        ),
        ('"m.onnx"\n', '"n.onnx"\n', "line 5, models.detector: /"),
        ('"m.onnx"\n', "3\n", "line 5, models.detector: 3 is not valid; valid: a text"),
        (
            'file = "m',
            'fiel = "m',
            "line 6, models.reader.fiel: there is no such key here; did you mean 'file'? valid",
        ),
        (
            'file = "m.onnx", ',
            "",
            "line 6, models.reader: a model is either a `file` or a built-in `network`",
        ),
        (
            'file = "m.onnx", shape',
            'network = "tiny", shape',
            "line 6, models.reader.shape: this is of a `file`",
        ),
        (
            'file = "m.onnx", shape = "1x3x8x8"',
            'network = "tniy"',
            "network: there is no built-in network 'tniy'; did ",
        ),
        (
            'file = "m.onnx", shape = "1x3x8x8"',
            'network = "tiny", size = 3',
            "size: tiny cannot be made for size 3; ",
        ),
        (
            "1x3x8x8",
            "1,3,8,8",
            "line 6, models.reader.shape: '1,3,8,8' is no shape; valid: sizes as in 1x3x640x640",
        ),
        ('"1x3x8x8"', "{ x = 3 }", "line 6, models.reader.shape.x: 3 is not valid; valid: a text"),
        (
            '"detector", s',
            '"detctor", s',
            "contexts.detect.model: there is no model 'detctor'; did you mean 'detector'?",
        ),
        (
            'model = "detector", ',
            "",
            "line 9, contexts.detect.model: it is missing; valid: detector, reader",
        ),
        (
            "0, internal",
            "2, internal",
            "line 9, contexts.detect.stream: there is no stream 2; valid: 0 to 1, or no ",
        ),
        (
            "stream = 0, internal",
            "internal",
            "line 9, contexts.detect: its `stream` is missing; valid: 0 to 1",
        ),
        (
            "stream = 1",
            'stream = "1"',
            "line 11, contexts.detect-2.stream: '1' is not valid; valid: a whole number",
        ),
        (
            'dup = "detect"',
            'dup = "detekt"',
            "contexts.detect-2.dup: there is no context 'detekt'; did you mean 'detect",
        ),
        (
            'dup = "detect"',
            'dup = "detect-2"',
            "line 11, contexts.detect-2.dup: this is the context itself; a context",
        ),
        (
            'model = "detector", ',
            'dup = "detect-2", ',
            "line 9, contexts.detect.dup: 'detect-2' comes later in the file",
        ),
        (
            'dup = "detect"',
            'dup = "detect", model = "reader"',
            "detect-2.model: 'detect' has 'detector'; leave it out",
        ),
        (
            'dup = "detect"',
            'dup = "detect", shared_context = "read"',
            "detect-2.shared_context: a context reuses another",
        ),
        (
            "detect-2 =",
            'x = { dup = "read", stream = 0 }\ny = { dup = "x", stream = 0 }\ndetect-2 =',
            "'x' reuses 'read' itself; name a context that is loaded: 'read'",
        ),
        (
            "stream = 1",
            'stream = 1, internal = "a"',
            "contexts.detect-2: with 'detect': they share an internal memory and ",
        ),
        (
            "stream = 1",
            "stream = 1, core = 1",
            "line 9, contexts.detect: its `core` is missing: 'detect-2' has one; give ",
        ),
        (
            "stream = 1",
            'stream = 1, outside = ["weights"]',
            "contexts.detect-2: its weights are its source's; only ",
        ),
        (
            "stream = 1",
            'stream = 1, outside = "weights"',
            "detect-2.outside: 'weights' is not valid; valid: a list of ",
        ),
        (
            "stream = 1",
            'stream = 1, zero_copy = ["inputs"]',
            "'inputs' is unknown; did you mean 'input'? valid: input, o",
        ),
        (
            "stream = 1",
            'stream = 1, allocator = "malloc"',
            "there is no allocator 'malloc'; valid: create_mem, dma_heap",
        ),
        (
            "stream = 1",
            'stream = 1, device = "tpu"',
            "detect-2.device: there is no device 'tpu'; valid: cuda",
        ),
        (
            "stream = 1",
            "stream = 1, device_io = 1",
            "contexts.detect-2.device_io: 1 is not valid; valid: true or false",
        ),
        (
            "stream = 1",
            'stream = 1, device_io = true, zero_copy = ["input"]',
            "detect-2: tensors that stay on the device ",
        ),
        (
            'after = "detect"',
            'after = "detect-2"',
            "read.after: 'detect-2' serves another stream; contexts of a chain",
        ),
        (
            'stream = 0, internal = "a" }\nread',
            'stream = 0, after = "read" }\nread',
            "run after each other in a circle",
        ),
        (
            "detect-2 =",
            'x = { model = "reader", stream = 0, after = "detect" }\ndetect-2 =',
            "'read' runs after 'detect' already; name the last of the chain",
        ),
        (
            "count = 2",
            "count = 3",
            "line 14, streams.count: no context serves stream 2 of 3; give it one, or lower the ",
        ),
        (
            "count = 2",
            "fps = 2",
            "line 13, streams.count: it is missing; give the number of streams",
        ),
        (
            "count = 2",
            "count = 2\nfps = -1",
            "line 15, streams.fps: -1 is not valid; valid: a number from 0",
        ),
        (
            "count = 2",
            "count = 2\nduration = 'x'",
            "line 15, streams.duration: 'x' is not valid; valid: a time from 1s",
        ),
        (
            "[streams]",
            "[[streams]]",
            "line 13, streams: [{'count': 2}] is not valid; valid: a table of keys and values",
        ),
        (
            "count = 2",
            "count = ",
            (
                "it is no valid TOML (JSON needs a name that ends with .json): Invalid value (at"
                " line 14"
            ),
        ),
    ],
)
def test_a_mistake_has_its_line_and_its_key(folder: Path, old: str, new: str, words: str) -> None:
    """Mistakes of the plan are told in the terms of the file, with what is valid."""
    assert old in _GATE
    assert words in _refusal(folder, _GATE.replace(old, new, 1))


def test_a_core_that_is_not_there(folder: Path) -> None:
    """Cores are checked with the file's number, otherwise with the machine's; for an unknown NPU
    the file may give it.
    """
    text = "[models]\nm = 'm.onnx'\n[contexts]\na = { model = 'm', core = 2 }"
    assert (
        _refusal(folder, text) == "line 4, contexts.a.core: there is no core 2; valid, of 2: 0 to 1"
    )
    assert "valid, of 1: 0 to 0" in _refusal(folder, f"cores = 1\n{text}")
    with pytest.raises(
        PlanFileError, match="How many this machine has is not known: say it with `cores`"
    ):
        _read(folder, text).checked_cores(1, is_known=False)
    assert _read(folder, f"cores = 3\n{text}").checked_cores(1, is_known=False) == 3
    assert _read(folder, text).checked_cores(8, is_known=True) == 8


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '{"contexts": {\n "c": {"model": "b"}}}',
            "line 2, contexts.c.model: there is no model 'b', as there is none at",
        ),
        (
            (
                '{"models": {"m": "m.onnx"},\n "contexts": {"c": {"model": "m",\n "zero_copy":'
                ' ["x"]}}}'
            ),
            "line 3, contexts.c.zero",
        ),
        ("{}", "contexts: a plan needs a context"),
        ("[]", "it has no keys; a plan has models and contexts"),
        ("{", "it is no valid JSON: Expecting property name"),
        (
            '{"scenario": "gate"}',
            (
                "this has a `scenario`, as stored plans have, and is none: Object missing required"
                " field"
            ),
        ),
    ],
)
def test_mistakes_in_json_have_their_lines_too(folder: Path, text: str, words: str) -> None:
    """Mistakes in values and in the text itself have the line."""
    assert _refusal(folder, text, "p.json").startswith(words)


def test_files_that_cannot_be_read(folder: Path) -> None:
    """A missing file, a folder and a file that is no text are refused."""
    (folder / "bytes.toml").write_bytes(b"\xff\xfe")
    for name, words in (
        ("no.toml", "it does not exist"),
        (".", "it is a folder"),
        ("bytes.toml", "it is not UTF-8"),
    ):
        with pytest.raises(PlanFileError, match=words):
            read_plan_file(folder / name)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("p.json", "[" * 10_000 + "]" * 10_000, "nested more than 20 levels deep"),
        ("p.json", '{"a":' * 10_000 + "1" + "}" * 10_000, "nested more than 20 levels deep"),
        ("p.toml", "a = " + "[" * 10_000 + "]" * 10_000, "nested more than 20 levels deep"),
        ("p.toml", ".".join(["a"] * 10_000) + " = 1", "nested more than 20 levels deep"),
        ("p.json", '{"name": "\\ud800"}', "it has half a character"),
        ("p.json", f'{{"{"x" * 101}": 1}}', "it has a name of more than 100 characters"),
        ("p.json", '{"streams": NaN}', "NaN is no number"),
        (
            "p.toml",
            f"[streams]\ncount = {'9' * 4000}",
            "is not valid; valid: a whole number from 1",
        ),
        ("p.toml", "x" * 2**21, "at most 1,048,576 are read"),
        ("p.json", '{"scenario": "x", "contexts": [' + "{}," * 1025 + "{}]}", "length <= 1024"),
        (
            "p.json",
            '{"scenario": "x", "contexts": [], "schedule": {"count": 100000000, "fps": 1}}',
            "Expected `int` <= 1024",
        ),
    ],
)
def test_files_of_any_content(folder: Path, name: str, text: str, problem: str) -> None:
    """Depth, numbers, names and sizes are bounded; the error is a short line."""
    (folder / name).write_text(text)
    with pytest.raises(PlanFileError) as refusal:
        read_plan_file(folder / name)
    assert problem in str(refusal.value)
    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 1000


def test_two_plans_of_one_name(folder: Path) -> None:
    """Two plans of one name are refused: their results could not be told apart."""
    (folder / "p.toml").write_text(_GATE)
    (folder / "q.toml").write_text(_GATE)
    with pytest.raises(
        PlanFileError,
        match=r"q\.toml, line 1, name: .*p\.toml has the name 'gate' too; give another",
    ):
        read_plan_files([folder / "p.toml", folder / "q.toml"])


# Stored plans


def _stored(folder: Path, scenario: str, name: str = "again.json") -> PlanFile:
    plan = Plan(
        scenario,
        None,
        "onnxruntime",
        (Model("m", str(folder / "m.onnx"), "digest"),),
        (Context(0, 0, internal=4, name="first"), Context(0, 0, DUP, 0, internal=4)),
        cores=2,
        rounds=7,
        chains=((1, 0),),
    )
    return _read(folder, json.dumps(plan.to_json()), name)


def test_a_stored_plan(folder: Path) -> None:
    """A stored plan gives an equal plan, with its own cores and rounds; contexts without a name are
    numbered.
    """
    file = _stored(folder, "gate")
    assert (file.name, file.cores, file.rounds, file.runtime) == ("gate", 2, 7, "onnxruntime")
    plan = _plan(file)
    assert plan.contexts == (Context(0, 0, internal=4), Context(0, 0, DUP, 0, internal=4))
    assert [context.name for context in plan.contexts] == ["first", "context-2"]
    assert plan.chains == ((1, 0),)


@pytest.mark.parametrize("scenario", ["full_dup", "gate.no_reuse"])
def test_a_stored_plan_that_is_no_users_is_called_as_its_file(folder: Path, scenario: str) -> None:
    """The names of built-in scenarios are taken."""
    assert _stored(folder, scenario).name == "again"
    with pytest.raises(PlanFileError, match="'full_dup' is the name of a built-in scenario"):
        _stored(folder, "full_dup", "full_dup.json")


def test_a_stored_plan_whose_model_is_gone(folder: Path) -> None:
    """The paths of a stored plan are those of the machine that stored it."""
    (folder / "m.onnx").unlink()
    with pytest.raises(
        PlanFileError, match=r"m\.onnx: it does not exist; it was there when the plan was stored"
    ):
        _stored(folder, "gate")
