"""Causes that are recognised in the words of Rockchip's libraries, which the double says.

The libraries write these words on the virtual board or, if a case says so, on the boards of users
who quote them.
"""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reusebench.measured.messages import LANGUAGES, Message, words
from reusebench.measured.plan import Context, Model, Plan
from reusebench.measured.runtimes import device_nodes
from reusebench.measured.runtimes.rknn import device, diagnosis
from reusebench.measured.runtimes.rknn.library_file import LIBRARY_VARIABLE, LibraryFile
from reusebench.targets.outcome import Failure
from tests.helpers.forks import RKNN_FORKS
from tests.helpers.support import walk
from tests.measured.messages.test_messages import TEXTS, fields

pytestmark = pytest.mark.process

_VERSION = "librknnrt version: 2.3.2 (double)"
_NO_MODEL = "E RKNN: [1] Import rknn model failed!\nE RKNN: [1] rknn_init, load model failed!"
_NOT_PARSED = (
    "E RKNN: [1] parseRKNN from buffer: Invalid RKNN format!\nE RKNN: [1] rknn_init, load model"
    " failed!"
)
_NO_FD = "failed to convert handle(1020) to fd, ret: -1, errno: 24, errstr: Too many open files"
_NO_NPU = (
    "E RKNN: [1] failed to open rknpu module, need to insmod rknpu dirver!\nE RKNN: [1] failed to"
    " open rknn device!"
)
_NEW_DRIVER = (
    "requires driver version >= 0.7.0, but you have driver version: 0.3.0 which is incompatible!"
)
_UPDATE = (
    "please try updating to the latest version of the toolkit2 and runtime from:"
    " https://example.com"
)

#: Cases: the call, its code, the lines it writes, and the cause.
_SAID = {
    "no driver": ("rknn_init", -1, _NO_NPU, Message("rknn_no_driver")),
    "no driver, mini": (
        "rknn_init",
        -1,
        (
            "E RKNN: failed to open /dev/rknpu node, need to insmod rknpu dirver!\nE RKNN: failed"
            " to open device, fd: -2"
        ),
        Message("rknn_no_driver"),
    ),
    "old driver": (
        "rknn_init",
        -1,
        (
            "E RKNN: [1] Mismatch driver version, librknnrt version: 2.3.2 (429f97ae6b@2025-04-09)"
            f" {_NEW_DRIVER}\nE RKNN: [1] invalid device fd!"
        ),
        Message("rknn_driver_too_old", {"needed": "0.7.0", "driver": "0.3.0"}),
    ),
    # From the library's strings; the virtual board's chips fit their libraries.
    "librknnrt on RV1106": (
        "rknn_init",
        -1,
        (
            "E RKNN: [1] This shared library is not supported on the current platform, hw_version ="
            " 1414677832"
        ),
        Message("rknn_unknown_chip", {"hardware": "1414677832"}),
    ),
    "other chip": (
        "rknn_init",
        -6,
        (
            "E RKNN: [1] failed to check rknpu hardware version: 0\nE RKNN: [1] This rknn model is"
            f" for RK3588, but current platform is RK3566/RK3568\n{_NO_MODEL}"
        ),
        Message("rknn_wrong_platform", {"model": "RK3588", "chip": "RK3566/RK3568"}),
    ),
    # rockchip-linux/rknpu2 25
    "other chip, 1.2": (
        "rknn_init",
        -1,
        (
            "E RKNN: [1] The rknn model does not match the RKNPU hardware version!\nE RKNN:"
            " rknn_init, load model failed!"
        ),
        Message("rknn_model_of_other_chip"),
    ),
    "newer model, 1.4": (
        "rknn_init",
        -1,
        (
            "E RKNN: [1] 6, 1\nE RKNN: [1] Invalid RKNN model version 6\nE RKNN: [1] rknn_init,"
            " load model failed!"
        ),
        Message("rknn_model_version", {"version": "6"}),
    ),
    # From the strings of 1.6.0 and 2.3.2; no such file is known yet.
    "newer model, 2.3": (
        "rknn_init",
        -6,
        (
            "E RKNN: [1] RKNN model version is 7, but current librknnrt.so is support model"
            f" version <= 6\n{_NO_MODEL}"
        ),
        Message("rknn_model_version", {"version": "7"}),
    ),
    "librknnrt's model on RV1106": (
        "rknn_init",
        -1,
        "E RKNN: incompatible model version: 6",
        Message("rknn_mini_model_version", {"version": "6"}),
    ),
    "newer model, mini 1.3": (
        "rknn_init",
        -1,
        "E RKNN: failed to allocate config data memory!",
        Message("rknn_mini_model"),
    ),
    "operator": (
        "rknn_init",
        -1,
        f"E RKNN: [1] Unsupport CPU op: Einsum in this librknnrt.so, {_UPDATE}\n{_NO_MODEL}",
        Message("rknn_operator_missing", {"operator": "Einsum"}),
    ),
    "operator, mini": (
        "rknn_init",
        -1,
        f"E RKNN: unsupport cpu Einsum op, op name: Einsum_3 in current, {_UPDATE}",
        Message("rknn_operator_missing", {"operator": "Einsum"}),
    ),
    "cut": (
        "rknn_init",
        -6,
        (
            "E RKNN: [1] parseRKNN: exportDataSize large then model size: 153920 vs"
            f" 77506!\n{_NOT_PARSED}"
        ),
        Message("rknn_model_damaged"),
    ),
    "cut to nothing": (
        "rknn_init",
        -6,
        f"E RKNN: [1] parseRKNN: rknn model is too small!\n{_NOT_PARSED}",
        Message("rknn_model_damaged"),
    ),
    "no model": (
        "rknn_init",
        -6,
        f"E RKNN: [1] parseRKNN: invalid RKNN_MAGIC!\n{_NOT_PARSED}",
        Message("rknn_model_damaged"),
    ),
    "damaged": (
        "rknn_init",
        -6,
        f"E RKNN: [1] Verify ModelBuffer failed!\nE RKNN: [1] Invalid RKNN format\n{_NO_MODEL}",
        Message("rknn_model_damaged"),
    ),
    "cut, mini": (
        "rknn_init",
        -1,
        "E RKNN: invalid rknn model size: 26681",
        Message("rknn_model_damaged"),
    ),
    "no model, mini": (
        "rknn_init",
        -1,
        "E RKNN: invalid rknn model magic: ff18a10efda464ac",
        Message("rknn_model_damaged"),
    ),
    # airockchip/rknn-llm 195 and 335, with 16 GB free.
    "NPU addresses": (
        "rknn_init",
        -6,
        (
            "E RKNN: [1] failed to allocate handle, ret: -1, errno: 14, errstr: Bad address\n"
            f"E RKNN: [1] failed to malloc npu memory, size: 1427746880, flags: 0x2\n{_NO_MODEL}"
        ),
        Message("rknn_iommu_domain_full", {"size": "1427746880"}),
    ),
    # airockchip/rknn-llm 62
    "file descriptors": (
        "rknn_run",
        -4,
        f"E RKNN: [1] {_NO_FD}\nE RKNN: [1] failed to malloc npu memory, size: 80, flags: 0xa",
        Message("rknn_descriptors_used_up"),
    ),
    "mappings": (
        "rknn_init",
        -6,
        (
            "E RKNN: [1] failed to map memory, errno: Cannot allocate memory\n"
            f"E RKNN: [1] failed to malloc npu memory, size: 4096, flags: 0x2\n{_NO_MODEL}"
        ),
        Message("rknn_mappings_used_up"),
    ),
    # invisiofficial/rk-llama.cpp 6
    "memory of the application": (
        "rknn_run",
        -4,
        (
            "E RKNN: [1] failed to convert fd(11) to handle, ret: -1, errno: 12, errstr: Cannot"
            " allocate memory"
        ),
        Message("rknn_foreign_memory_refused"),
    ),
    "job": (
        "rknn_run",
        -1,
        (
            "E RKNN: [1] failed to submit!, op id: 1, op name: Conv:stem.sum, flags: 0x5, task"
            f" start: 0, task number: 9, run task counter: 0, int status: 0, {_UPDATE}"
        ),
        Message("rknn_job_failed"),
    ),
}

#: Cases without free memory, whose amount the cause tells.
_NO_MEMORY = {
    "2.3.2": (
        -6,
        (
            "E RKNN: [1] DMA Heap allocation failed\nE RKNN: failed to malloc npu memory, size:"
            f" 132416\n{_NO_MODEL}"
        ),
    ),
    "1.6.0": (
        -6,
        (
            "E RKNN: [1] failed to allocate fd, ret: -1, errno: 12, errstr: Cannot allocate"
            " memory\nE RKNN: [1] failed to malloc npu memory, size: 132416, flags:"
            f" 0x2\n{_NO_MODEL}"
        ),
    ),
    "mini": (
        -1,
        (
            "E RKNN: failed to allocate fd, ret: -1, errno: 12, errstr: Cannot allocate memory\n"
            "E RKNN: failed to allocate model memory!, size: 132416, flags: #2"
        ),
    ),
}
#: rockchip-linux/rknn-toolkit2 218: RK3566 without an IOMMU.
_NO_CMA = (
    "E RKNN: failed to allocate handle, ret: -1, errno: 22, errstr: Invalid argument\n"
    "E RKNN: failed to malloc npu memory!, size: 132416, flags: 0xa"
)


@pytest.fixture(scope="module")
def fail(
    rknn_double: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Failure]:
    """Return fail(call, code, lines): the failure of a process whose call says these lines."""
    library = rknn_double(_VERSION)
    path = tmp_path_factory.mktemp("model") / "model.rknn"
    path.write_text("9000 5000 1 ")
    plan = Plan(
        "mine",
        None,
        "rknn",
        (Model("model", str(path), "0"),),
        (Context(None, 0),),
        cores=1,
        rounds=1,
    )

    def run(call: str, code: int, lines: str) -> Failure:
        said = {"DOUBLE_FAIL": f"{call}={code}", "DOUBLE_SAY": f"{call}={lines}"}
        environment = {LIBRARY_VARIABLE: str(library), **said}
        failure = walk(plan, dataclasses.replace(RKNN_FORKS, environment=environment)).failure
        assert failure is not None
        return failure

    return run


def _cause(failure: Failure) -> Message:
    assert failure.message.code == "rknn_call_explained", failure
    cause = failure.message.values["cause"]
    assert isinstance(cause, Message)
    return cause


@pytest.mark.parametrize("case", _SAID)
def test_what_the_library_says_is_recognised(fail: Callable[..., Failure], case: str) -> None:
    """The cause and a remedy come first; the call, its code and the library's words follow."""
    call, code, lines, cause = _SAID[case]
    failure = fail(call, code, lines)
    assert _cause(failure) == cause
    assert failure.kind == ("out_of_memory" if cause.code == "rknn_iommu_domain_full" else "failed")
    sentence = str(failure.message)
    assert sentence.startswith(f"{cause}. The library's own words: {call} returned {code} (")
    assert sentence.endswith(lines.replace("\n", " | "))


@pytest.mark.parametrize("case", _NO_MEMORY)
def test_a_lack_of_memory(fail: Callable[..., Failure], case: str) -> None:
    """It is of that kind for any code, and tells the requested and the free memory."""
    code, lines = _NO_MEMORY[case]
    failure = fail("rknn_init", code, lines)
    cause = _cause(failure)
    assert (failure.kind, cause.code, cause.values["size"]) == (
        "out_of_memory",
        "rknn_out_of_memory",
        "132416",
    )
    assert int(str(cause.values["available"])) > 0


def test_a_lack_of_contiguous_memory(fail: Callable[..., Failure]) -> None:
    """The driver's error tells it from a lack of memory."""
    failure = fail("rknn_init", -4, _NO_CMA)
    assert (failure.kind, _cause(failure).code) == ("out_of_memory", "rknn_no_contiguous_memory")


def test_what_several_threads_were_told_is_told_once(fail: Callable[..., Failure]) -> None:
    """Lines that differ only in their time are the same."""
    lines = (
        "E RKNN: [10:01:02.345] failed to submit!, op id: 1\nE RKNN: [10:01:02.351] failed to"
        " submit!, op id: 1"
    )
    assert (
        fail("rknn_run", -1, lines).message.values["lines"] == "E RKNN: failed to submit!, op id: 1"
    )


def test_words_that_are_not_known_stay(fail: Callable[..., Failure]) -> None:
    """The sentence has only the library's words."""
    failure = fail("rknn_run", -5, "E RKNN: something else")
    assert failure.message.code == "rknn_call_failed_with_lines"


def test_every_cause_of_the_table_is_tried_and_has_its_fields() -> None:
    """Another sign needs a case above; a message needs the values that the pattern finds."""
    codes = {
        cause: pattern.groupindex.keys()
        for pattern, cause in diagnosis._SIGNS
        if isinstance(cause, str)
    }
    assert codes.keys() - {cause.code for *_, cause in _SAID.values()} == set()
    assert {code: set(names) for code, names in codes.items()} == {
        code: fields(TEXTS["en"][code]) for code in codes
    }


def test_a_process_that_the_library_ended() -> None:
    """Only the library's last words count, and librknnrt's exception for a damaged description."""
    crashed = (
        "terminate called after throwing an instance of 'jsonxx::json_parse_error'\n  what(): "
        " unexpected token"
    )
    assert diagnosis.cause_of_crash(crashed) == Message("rknn_model_damaged")
    assert diagnosis.cause_of_crash("E RKNN: failed to decode config data!\nqemu: 11") == Message(
        "rknn_mini_model"
    )
    assert diagnosis.cause_of_crash("failed to map memory") is None
    assert diagnosis.cause_of_crash("") is None


@pytest.mark.parametrize(
    ("mib", "compatible", "code"),
    [
        (8192, b"radxa,rock3a\0rockchip,rk3568\0", "rknn_beyond_4_gib"),
        (3800, b"radxa,rock3a\0rockchip,rk3568\0", "rknn_job_failed"),
        (8192, b"radxa,rock-5b\0rockchip,rk3588\0", "rknn_job_failed"),
        (8192, None, "rknn_job_failed"),
    ],
)
def test_memory_beyond_the_reach_of_the_npu(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mib: int,
    compatible: bytes | None,
    code: str,
) -> None:
    """RK3566 and RK3568 with more than 4 GiB get the remedy that users found."""
    if compatible is not None:
        (tmp_path / "compatible").write_bytes(compatible)
    monkeypatch.setattr(diagnosis, "_COMPATIBLE", str(tmp_path / "compatible"))
    monkeypatch.setattr(diagnosis.MachineFacts, "memory_mib", lambda _facts: {"MemTotal": mib})
    assert diagnosis.cause_of("failed to submit!, op id: 1") == Message(code)


# The device


class Board:
    """The nodes of an NPU in the test's own /dev, with rights that also hold for root."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._errors: dict[str, int] = {}
        self._status: dict[str, Any] = {}
        self._driver = folder / "driver"
        self._allowed: set[str] = set()
        monkeypatch.setattr(device, "_DRIVER_FOLDER", str(self._driver))
        system = {
            name: getattr(os, name)
            for name in ("path", "listdir", "O_RDWR", "O_CLOEXEC", "R_OK", "W_OK")
        }
        system.update(open=self._open, close=lambda _fd: None, stat=self._status.__getitem__)
        system["access"] = lambda path, _mode: path in self._allowed
        for module in (device, device_nodes):
            monkeypatch.setattr(module, "os", SimpleNamespace(**system))

    def add(
        self,
        path: str,
        error: int = 0,
        gid: int = 0,
        mode: int = 0o660,
        allowed: bool = False,
    ) -> None:
        """Add a node that opens with this error."""
        self._errors[path] = error
        self._status[path] = SimpleNamespace(st_gid=gid, st_mode=mode)
        self._allowed |= {path} if allowed else set()
        if path.startswith("/dev/dri/"):
            self.bind(f"drm/{Path(path).name}")

    def bind(self, entry: str) -> None:
        """Bind the NPU to the driver, with this entry in its folder."""
        (self._driver / "fdab0000.npu" / entry).mkdir(parents=True, exist_ok=True)
        (self._driver / "bind").touch()

    def _open(self, path: str, _flags: int) -> int:
        error = self._errors.get(path, errno.ENOENT)
        if error:
            raise OSError(error, os.strerror(error), path)
        return 99


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    """Return a board without an NPU."""
    return Board(tmp_path, monkeypatch)


def _why() -> Message:
    return device.not_opened(device.device_nodes())


def test_the_group_to_join(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    """The groups that own the NPU's nodes are named; nodes of the display and open ones are not."""
    monkeypatch.setattr(
        "grp.getgrgid", lambda gid: SimpleNamespace(gr_name={44: "video", 104: "render"}[gid])
    )
    board.add("/dev/dri/card1", errno.EACCES, gid=44)
    board.add("/dev/dri/renderD129", errno.EACCES, gid=104)
    board.add("/dev/rknpu")
    join = Message("rknn_join_group", {"groups": "render,video"})
    assert _why() == Message(
        "rknn_no_permission", {"nodes": "/dev/dri/card1, /dev/dri/renderD129", "remedy": join}
    )
    assert "sudo usermod -aG render,video $USER" in str(_why())


@pytest.mark.parametrize(("gid", "mode"), [(0, 0o660), (44, 0o600), (44, 0o640)])
def test_a_node_for_root_alone(board: Board, gid: int, mode: int) -> None:
    """A rule for udev gives it to a group: to join one would not help."""
    board.add("/dev/rknpu", errno.EACCES, gid=gid, mode=mode)
    rule = 'KERNEL=="rknpu", GROUP="video", MODE="0660"'
    remedy = Message("rknn_udev_rule", {"rule": rule})
    assert _why() == Message("rknn_no_permission", {"nodes": "/dev/rknpu", "remedy": remedy})


def test_a_node_that_a_container_keeps_away(board: Board) -> None:
    """Its rights would allow it: the container must be given the device."""
    board.add("/dev/rknpu", errno.EPERM, allowed=True)
    remedy = Message("rknn_pass_device", {"node": "/dev/rknpu"})
    assert _why() == Message("rknn_no_permission", {"nodes": "/dev/rknpu", "remedy": remedy})


def test_the_heap_of_librknnrt_2_3(board: Board) -> None:
    """With /dev/rknpu the library allocates from there; heaps often belong to root alone."""
    said = (
        "E RKNN: Failed to open DMA heap: /dev/dma_heap/system\nE RKNN: DMA Heap allocation failed"
    )
    assert diagnosis.cause_of(said) == Message("rknn_no_heap", {"node": "/dev/dma_heap/system"})
    board.add("/dev/dma_heap/system", errno.EACCES, mode=0o600)
    remedy = Message("rknn_udev_rule", {"rule": 'KERNEL=="system", GROUP="video", MODE="0660"'})
    assert diagnosis.cause_of(said) == Message(
        "rknn_no_permission", {"nodes": "/dev/dma_heap/system", "remedy": remedy}
    )


def test_no_node(board: Board) -> None:
    """The kernel may lack the driver, the driver a node, or the library may refuse the node."""
    assert _why() == Message("rknn_no_driver")
    board.bind("power")
    assert _why() == Message("rknn_no_node")
    board.add("/dev/dri/card1")
    assert _why() == Message("rknn_device_refused", {"nodes": "/dev/dri/card1"})


@pytest.mark.parametrize(
    ("kind", "version", "driver", "code"),
    [
        ("librknnrt", "2.3.2", "0.6.9", "rknn_driver_too_old"),
        ("librknnrt", "2.3.2", "0.7.2", "rknn_driver_old"),
        ("librknnrt", "2.3.2", "0.8.10", "rknn_driver_fits"),
        ("librknnrt", "1.4.0", "0.6.4", "rknn_driver_fits"),
        ("librknnrt", "1.3.0", "0.6.4", "rknn_driver_of_unknown_library"),
        ("librknnmrt", "2.0.0b0", "0.2.0", "rknn_driver_too_old"),
        ("librknnmrt", "2.3.2", "0.9.2", "rknn_driver_fits"),
        ("librknnmrt", "1.5.2", "0.9.2", "rknn_driver_of_unknown_library"),
    ],
)
def test_which_drivers_a_library_takes(kind: str, version: str, driver: str, code: str) -> None:
    """The libraries were seen to refuse, to warn and to run so."""
    state = device.driver_state(driver, LibraryFile("lib.so", kind, "aarch64", version, version))
    assert state.code == code
    for language in LANGUAGES:
        assert driver in words(state, language)
