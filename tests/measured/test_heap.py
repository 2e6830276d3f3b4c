"""The heap in use of this process."""

from __future__ import annotations

import ctypes

import pytest

from reusebench.measured import heap as heap_module
from reusebench.measured.heap import Heap

_MIB = 1 << 20


@pytest.fixture(params=["mallinfo2", "mallinfo"])
def heap(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Heap:
    """Return the heap by each of the C library's calls."""
    form = {"mallinfo2": heap_module._Mallinfo2, "mallinfo": heap_module._Mallinfo}[request.param]
    call = getattr(ctypes.CDLL(None), request.param, None)
    if call is None:
        pytest.skip(f"this C library has no {request.param}")
    call.restype = form
    monkeypatch.setattr(heap_module, "_mallinfo", lambda: call)
    return Heap()


@pytest.mark.parametrize("pieces", [(64 << 10, 64), (4 * _MIB, 1)])
def test_what_is_allocated_is_in_use_until_it_is_freed(heap: Heap, pieces: tuple[int, int]) -> None:
    """Arenas and mappings count, to within a tenth; holes in the heap do not."""
    size, count = pieces
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]

    def in_use() -> int:
        heap.read()
        size_bytes = heap.take_lowest()
        assert size_bytes is not None
        return size_bytes

    before = in_use()
    addresses = [library.malloc(size) for _ in range(count)]
    held = in_use()
    for address in addresses:
        library.free(address)
    assert held - before == pytest.approx(size * count, rel=0.1)
    assert abs(in_use() - before) < size * count / 10


def test_the_lowest_of_several_readings_is_kept(heap: Heap) -> None:
    """It is forgotten when it was taken."""
    held = bytearray(8 * _MIB)
    heap.read()
    high = heap.take_lowest()
    heap.read()
    del held
    heap.read()
    low = heap.take_lowest()
    assert high is not None
    assert low is not None
    assert low < high - 7 * _MIB
    assert heap.take_lowest() is None


def test_another_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without such a call there is no reading."""
    monkeypatch.setattr(heap_module, "_mallinfo", lambda: None)
    heap = Heap()
    heap.read()
    assert heap.take_lowest() is None
