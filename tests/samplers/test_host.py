"""Local hosts: this machine, and trees in its place."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from reusebench.samplers.host import LOCAL_HOST, LocalHost, names_in, own_pid, read_text, read_texts
from tests.samplers.child import Child


@pytest.fixture
def host(tmp_path: Path) -> LocalHost:
    """Return a machine that is a folder with two files and a link."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text("cpu\n")
    (tmp_path / "proc/maps").write_bytes(bytes(range(256)) * 1000)
    (tmp_path / "proc/self").symlink_to("stat")
    return LocalHost(tmp_path)


def test_a_file_is_read_whole(host: LocalHost) -> None:
    """The length and the bytes do not matter; a missing file raises the kernel's error."""
    assert host.read("/proc/maps") == bytes(range(256)) * 1000
    assert host.read("/proc/stat") == b"cpu\n"
    with pytest.raises(FileNotFoundError):
        host.read("/proc/meminfo")


def test_each_of_several_has_its_own_error(host: LocalHost) -> None:
    """Contents and errors come in the order of the paths."""
    paths = ["/proc/nothing", "/proc/stat", "/proc"]
    gone, content, folder = host.read_all(paths)
    assert isinstance(gone, FileNotFoundError)
    assert content == b"cpu\n"
    assert isinstance(folder, OSError)
    assert folder.errno == errno.EISDIR
    link, no_link = host.links(["/proc/self", "/proc/stat"])
    assert link == "stat"
    assert isinstance(no_link, OSError)
    assert no_link.errno == errno.EINVAL
    status, same, none = host.statuses(["/proc/stat", "/proc/self", "/proc/nothing"])
    assert status == same
    assert isinstance(none, FileNotFoundError)


def test_texts_are_of_what_can_be_read(host: LocalHost) -> None:
    """Unreadable files are left out; invalid bytes are replaced."""
    texts = read_texts(host, ["/proc/nothing", "/proc/stat", "/proc/maps", "/proc/stat"])
    assert list(texts) == ["/proc/stat", "/proc/maps"]
    assert texts["/proc/stat"] == "cpu\n"
    assert "\ufffd" in texts["/proc/maps"]
    assert read_text(host, "/proc/nothing") is None


def test_names_of_a_folder(host: LocalHost) -> None:
    """Names with the prefix are sorted; a missing folder has none."""
    assert names_in(host, "/proc") == ["maps", "self", "stat"]
    assert names_in(host, "/proc", "s") == ["self", "stat"]
    assert names_in(host, "/sys") == []
    with pytest.raises(FileNotFoundError):
        host.names("/sys")


def test_only_files_that_exist_are_written(host: LocalHost) -> None:
    """The kernel's files exist; no file is created."""
    host.write("/proc/stat", b"5")
    assert host.read("/proc/stat")[:1] == b"5"
    with pytest.raises(FileNotFoundError):
        host.write("/proc/clear_refs", b"5")


def test_this_machine() -> None:
    """Its clock is the monotonic one; pages, CPUs and pid are this process's."""
    before_ns = time.monotonic_ns()
    assert before_ns <= LOCAL_HOST.now_ns() <= time.monotonic_ns()
    assert LOCAL_HOST.page_bytes == os.sysconf("SC_PAGE_SIZE")
    assert LOCAL_HOST.usable_cpus() == len(os.sched_getaffinity(0))
    assert own_pid(LOCAL_HOST) == os.getpid()


@pytest.mark.process
def test_samples_end_with_the_process(child: Child) -> None:
    """Each call gives a sample until the process has gone; then there are none."""
    sampler = LOCAL_HOST.sampler(child.pid, 0.01)
    (sample,) = sampler.take()
    assert sample.rss_bytes > 0
    assert sample.system_bytes > 0
    child.reap()
    assert sampler.take() == []
    sampler.close()
    with pytest.raises(ProcessLookupError, match=str(child.pid)):
        LOCAL_HOST.sampler(child.pid, 0.01)
