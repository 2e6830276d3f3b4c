"""Temperatures, frequencies, NPU load and throttling, on trees like those of boards and PCs."""

from __future__ import annotations

import math
import os
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reusebench.samplers.host import LOCAL_HOST, LocalHost
from reusebench.samplers.machine.watch import MachineWatch
from reusebench.samplers.npu.rknpu import NPU_LOAD
from reusebench.samplers.readings import CpuUse, MachineState, NpuLoad, Temperature, Throttle
from reusebench.samplers.sources import machine_sources
from tests.samplers.hosts import CountingHost

_THERMAL = "sys/class/thermal"
_CPU = "sys/devices/system/cpu"
_FIRMWARE = "sys/devices/platform/soc/soc:firmware/get_throttled"
_NPU_LOAD = "sys/kernel/debug/rknpu/load"

_RK3588 = {
    f"{_THERMAL}/thermal_zone0/type": "soc-thermal",
    f"{_THERMAL}/thermal_zone0/temp": "45307",
    f"{_THERMAL}/thermal_zone6/type": "npu-thermal",
    f"{_THERMAL}/thermal_zone6/temp": "44384",
    f"{_THERMAL}/cooling_device0/type": "thermal-cpufreq-0",
    f"{_THERMAL}/cooling_device0/cur_state": "0",
    f"{_THERMAL}/cooling_device3/type": "thermal-devfreq-0",
    f"{_THERMAL}/cooling_device3/cur_state": "0",
    f"{_THERMAL}/cooling_device4/type": "pwm-fan",
    f"{_THERMAL}/cooling_device4/cur_state": "0",
    f"{_CPU}/cpufreq/policy0/related_cpus": "0 1 2 3",
    f"{_CPU}/cpufreq/policy0/scaling_cur_freq": "1800000",
    f"{_CPU}/cpufreq/policy4/related_cpus": "4 5",
    f"{_CPU}/cpufreq/policy4/scaling_cur_freq": "2256000",
    "sys/class/devfreq/dmc/cur_freq": "2112000000",
    "sys/class/devfreq/fdab0000.npu/cur_freq": "1000000000",
    "sys/class/devfreq/fdab0000.npu/load": "100@1000000000Hz",
    "sys/module/rknpu/version": "0.9.8",
    _NPU_LOAD: "NPU load:  Core0:  0%, Core1:  0%, Core2:  0%,",
    "sys/kernel/debug/rknpu/freq": "never read",
}

_RASPBERRY_PI = {
    f"{_THERMAL}/thermal_zone0/type": "cpu-thermal",
    f"{_THERMAL}/thermal_zone0/temp": "61342",
    f"{_CPU}/cpufreq/policy0/related_cpus": "0 1 2 3",
    f"{_CPU}/cpufreq/policy0/scaling_cur_freq": "1800000",
    # Under-voltage and capping since boot, none of them now.
    _FIRMWARE: "30000",
}

_PC = {
    f"{_THERMAL}/thermal_zone0/type": "acpitz",
    f"{_THERMAL}/thermal_zone0/temp": "27800",
    f"{_THERMAL}/thermal_zone1/type": "acpitz",
    f"{_THERMAL}/thermal_zone1/temp": "29800",
    f"{_THERMAL}/thermal_zone2/type": "x86_pkg_temp",
    f"{_THERMAL}/thermal_zone2/temp": "71000",
    f"{_THERMAL}/cooling_device0/type": "Processor",
    f"{_THERMAL}/cooling_device0/cur_state": "0",
    f"{_THERMAL}/cooling_device1/type": "Processor",
    f"{_THERMAL}/cooling_device1/cur_state": "0",
    f"{_THERMAL}/cooling_device2/type": "intel_powerclamp",
    f"{_THERMAL}/cooling_device2/cur_state": "-1",
    **{f"{_CPU}/cpu{core}/thermal_throttle/core_throttle_count": "7" for core in range(2)},
    **{f"{_CPU}/cpu{core}/thermal_throttle/package_throttle_count": "9" for core in range(2)},
    **{f"{_CPU}/cpufreq/policy{core}/related_cpus": f"{core}" for core in range(2)},
    **{f"{_CPU}/cpufreq/policy{core}/scaling_cur_freq": "3600000" for core in range(2)},
}

_BOARDS = {"rk3588": _RK3588, "raspberry_pi": _RASPBERRY_PI, "pc": _PC, "container": {}}


class _Machine:
    """A tree that changes between readings, and its watch."""

    def __init__(self, root: Path, files: Mapping[str, str]) -> None:
        self.root = root
        self.host = CountingHost(LocalHost(root))
        self.write(files)
        self.watch = MachineWatch(self.host, os.getpid())

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")

    def read(self, **changes: Mapping[str, str]) -> MachineState:
        """Read once with each change, and return the stored state."""
        for files in changes.values():
            self.write(files)
            self.watch.read()
        return self.watch.machine()


@pytest.fixture
def machine(tmp_path: Path) -> Callable[[str], _Machine]:
    """Return a function that makes one of the machines above."""
    return lambda name: _Machine(tmp_path / name, _BOARDS[name])


def test_a_board_with_an_npu(machine: Callable[[str], _Machine]) -> None:
    """Temperatures, frequencies and the load of each NPU core are summarised."""
    board = machine("rk3588").read(
        cool={},
        hot={
            f"{_THERMAL}/thermal_zone6/temp": "84384",
            f"{_CPU}/cpufreq/policy4/scaling_cur_freq": "1200000",
            _NPU_LOAD: "NPU load:  Core0: 80%, Core1: 100%, Core2:  5%,",
        },
        warm={
            f"{_THERMAL}/thermal_zone6/temp": "60000",
            _NPU_LOAD: "NPU load:  Core0: 40%, Core1: 50%, Core2:  1%,",
        },
    )
    assert board.temperatures == (
        Temperature("soc-thermal", 45.307, 45.307, 45.307),
        Temperature("npu-thermal", 44.384, 84.384, 60.0),
    )
    assert [clock.name for clock in board.frequencies] == [
        "cpu0-3",
        "cpu4-5",
        "dmc",
        "fdab0000.npu",
    ]
    clock = board.frequencies[1]
    assert (clock.lowest_hz, round(clock.mean_hz), clock.highest_hz) == (1.2e9, 1.552e9, 2.256e9)
    assert board.npu_load_percent == (NpuLoad(0, 40, 80), NpuLoad(1, 50, 100), NpuLoad(2, 2, 5))
    assert board.throttled == ()


def test_throttled_is_the_share_of_readings(machine: Callable[[str], _Machine]) -> None:
    """A clock held down in one of four readings is throttled for 25 %; a spinning fan is not."""
    cooling = f"{_THERMAL}/cooling_device"
    board = machine("rk3588").read(
        cool={},
        hot={f"{cooling}0/cur_state": "3", f"{cooling}4/cur_state": "4"},
        warm={f"{cooling}0/cur_state": "0"},
        cooler={},
    )
    assert board.throttled == (Throttle("thermal-cpufreq-0", "cooling_device", 25.0),)


@pytest.mark.parametrize(
    ("kind", "slows"),
    [
        ("cpufreq-cpu0", True),
        ("devfreq-fdab0000.npu", True),
        ("Processor", True),
        ("mali-gpu", True),
        ("npu_cooling0", True),
        ("pwm-fan", False),
        ("gpu-fan", False),
        ("intel_powerclamp", False),
        ("TCC Offset", False),
        ("input-current", False),
    ],
)
def test_which_cooling_devices_slow_the_machine(tmp_path: Path, kind: str, slows: bool) -> None:
    """Devices of processors count; if there are only others, throttling is unknown."""
    device = f"{_THERMAL}/cooling_device0"
    board = _Machine(tmp_path, {f"{device}/type": kind, f"{device}/cur_state": "1"}).read(now={})
    assert board.throttled == ((Throttle(kind, "cooling_device", 100),) if slows else None)


def test_a_raspberry_pi_reports_what_its_firmware_does_now(
    machine: Callable[[str], _Machine], tmp_path: Path
) -> None:
    """The low bits are the current state; events since boot may be older than the run.

    On a Pi 5 the name has the address.
    """
    board = machine("raspberry_pi")
    assert board.read(before={}).throttled == ()
    assert board.read(capped={_FIRMWARE: "e0006"}).throttled == (
        Throttle("frequency capped", "firmware", 50),
        Throttle("throttled", "firmware", 50),
    )
    file = "sys/devices/platform/soc@107c000000/soc@107c000000:firmware/get_throttled"
    assert _Machine(tmp_path / "pi5", {file: "8"}).read(now={}).throttled == (
        Throttle("soft temperature limit", "firmware", 100),
    )


def test_a_pc_counts_its_throttling_since_boot(machine: Callable[[str], _Machine]) -> None:
    """Growth between two readings counts, on any core; the first reading is the base."""
    pc = machine("pc")
    count = f"{_CPU}/cpu1/thermal_throttle/package_throttle_count"
    assert pc.read(first={}, second={}).throttled == ()
    assert pc.read(third={count: "10"}, fourth={}, fifth={}).throttled == (
        Throttle("package_throttle_count", "thermal_throttle", 25),
    )


def test_devices_of_one_type(machine: Callable[[str], _Machine]) -> None:
    """Their names have the kernel's number."""
    pc = machine("pc").read(hot={f"{_THERMAL}/cooling_device1/cur_state": "2"})
    names = [zone.name for zone in pc.temperatures]
    assert names == ["acpitz (thermal_zone0)", "acpitz (thermal_zone1)", "x86_pkg_temp"]
    assert pc.throttled == (Throttle("Processor (cooling_device1)", "cooling_device", 100),)


def test_a_container_that_shows_nothing(machine: Callable[[str], _Machine]) -> None:
    """NPU load and throttling are unknown then, rather than none."""
    container = machine("container")
    assert container.read(first={}, second={}) == MachineState((), (), None, None)
    assert container.watch.cpu() == CpuUse((), 0, 0)


@pytest.mark.parametrize("text", ["", "<unknown>", "-274000"])
def test_a_reading_without_a_figure_is_left_out(
    machine: Callable[[str], _Machine], text: str
) -> None:
    """The figures come from the other readings."""
    zones = {f"{_THERMAL}/thermal_zone{number}/temp": text for number in (0, 6)}
    assert machine("rk3588").read(good={}, bad=zones).temperatures[0].last_celsius == 45.307


@pytest.mark.parametrize("name", _BOARDS)
def test_files_that_vanish(machine: Callable[[str], _Machine], name: str) -> None:
    """Earlier readings stay, even if every file vanishes."""
    board = machine(name)
    before = board.read(good={})
    for path in board.root.rglob("*"):
        if path.is_file():
            path.unlink()
            board.watch.read()
    after = board.watch.machine()
    assert after.throttled in ((), None)
    assert msgspec.structs.replace(after, throttled=before.throttled) == before


@pytest.mark.parametrize("source", NPU_LOAD)
@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("NPU load:  Core0:  0%, Core1: 12%, Core2: 100%,\n", [0, 12, 100]),
        ("NPU load:  7%\n", [7]),
        ("NPU load: \n", None),
        ("on\n", None),
        ("100@1000000000Hz\n", None),
        ("", None),
    ],
)
def test_the_driver_s_load(
    tmp_path: Path, source: Any, text: str, cores: list[float] | None
) -> None:
    """Both formats are read, and nothing else."""
    path = tmp_path / source.path.lstrip("/")
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert source.read(LocalHost(tmp_path)) == cores


def test_devfreq_does_not_have_the_load_of_the_npu(machine: Callable[[str], _Machine]) -> None:
    """Rockchip's driver leaves it empty: without the driver's own node there is no figure."""
    board = machine("rk3588")
    (board.root / _NPU_LOAD).unlink()
    assert MachineWatch(board.host, os.getpid()).machine().npu_load_percent is None


def test_memory_does_not_grow_with_readings(machine: Callable[[str], _Machine]) -> None:
    """Two hundred readings take as much memory as ten."""
    watch = machine("rk3588").watch
    sizes = []
    for readings in (10, 190):
        for _ in range(readings):
            watch.read()
        sizes.append(len(pickle.dumps(watch)))
    assert sizes[1] < sizes[0] * 1.1


@pytest.mark.parametrize("name", _BOARDS)
def test_a_reading_is_two_round_trips(machine: Callable[[str], _Machine], name: str) -> None:
    """One is for all files and one for the time, however many files a board has."""
    board = machine(name)
    before = board.host.round_trips
    board.watch.read()
    assert board.host.round_trips == before + 2


def test_the_sources_of_a_machine(machine: Callable[[str], _Machine]) -> None:
    """Each source is readable or not; NPU load is tried only if there is an NPU."""
    readable = {
        name: [source.readable for source in machine_sources(machine(name).host)]
        for name in _BOARDS
    }
    assert readable == {
        "rk3588": [True, True, True, True, True],
        "raspberry_pi": [True, True, False, True],
        "pc": [True, True, False, True],
        "container": [False, False, False, False],
    }


def test_this_machine() -> None:
    """Every figure that it shows is within its bounds."""
    watch = MachineWatch(LOCAL_HOST, os.getpid())
    watch.read()
    watch.read()
    machine = watch.machine()
    for zone in machine.temperatures:
        assert max(zone.first_celsius, zone.last_celsius) <= zone.highest_celsius
    for clock in machine.frequencies:
        assert 0 <= clock.lowest_hz <= clock.highest_hz < math.inf
    assert all(0 < throttle.share_percent <= 100 for throttle in machine.throttled or ())
