"""The IOMMU's domains: 16 address spaces of 4 GiB, one of which a runtime names in each call."""

from __future__ import annotations

import pytest

from tests.targets.preload_support import RunOnBoard

pytestmark = pytest.mark.process

_GIB = 2**30
#: Memory that nobody touches takes none of the host's.
_ATTEMPT = """
def attempt(call):
    try: return call() and "ok"
    except OSError as error: return errno.errorcode[error.errno]
npu = Npu()
def fill(domain):
    count = 0
    while attempt(lambda: npu.create(1 << 29, domain=domain)) == "ok": count += 1
    return count
"""


def test_each_domain_is_full_by_itself(on_board: RunOnBoard) -> None:
    """A buffer that does not fit fails, but fits into another domain; addresses are reused."""
    script = """
first = npu.create(1 << 29)
print(fill(0), attempt(lambda: npu.create(1 << 29)), fill(15))
npu.free(first)
print(attempt(lambda: npu.create(1 << 29)), attempt(lambda: npu.create(1 << 29)))
"""
    ended = on_board(_ATTEMPT + script)
    assert ended.output.split() == ["6", "ENOMEM", "7", "ok", "ENOMEM"]
    full = [event["domain"] for event in ended.named("fault") if event["fault"] == "domain-full"]
    assert full == [0, 0, 15, 0]


@pytest.mark.parametrize(("chip", "invalid"), [("rk3588", (-1, 16)), ("rv1106", (-1, 1, 16))])
def test_domains_that_are_none(on_board: RunOnBoard, chip: str, invalid: tuple[int, ...]) -> None:
    """Calls with such a domain fail; without an IOMMU there is only the first."""
    script = f"""
tasks = npu.create(4096)
for domain in {invalid}:
    made = attempt(lambda: npu.create(4096, domain=domain))
    print(made, attempt(lambda: npu.submit(tasks, 0, 0, domain=domain)))
    print(attempt(lambda: npu.action(25, domain)))
"""
    ended = on_board(_ATTEMPT + script, chip=chip)
    assert set(ended.output.split()) == {"EINVAL"}
    assert [event["domain"] for event in ended.addresses] == ([0] if chip == "rk3588" else [])


def test_every_call_switches_the_domain(on_board: RunOnBoard) -> None:
    """The driver reports the current one, set by the last buffer, job or setting."""
    script = """
print(npu.action(24))
memory = npu.create(4096, domain=3); print(npu.action(24))
npu.create(4096, whole=False); print(npu.action(24))
npu.submit(memory, 0, 0, domain=3); print(npu.action(24))
npu.action(25, 7); print(npu.action(24))
npu.free(memory); print(npu.action(24))
"""
    assert on_board(_ATTEMPT + script).output.split() == ["0", "3", "0", "3", "7", "3"]


def test_the_ledger_tells_what_a_domain_holds(on_board: RunOnBoard) -> None:
    """Each object takes addresses in the domain that its creation named, and gives them back."""
    script = """
npu, heap = Npu(), Heap()
memory = npu.create(5000, domain=2)
alias = npu.create(0, handle=memory.handle)
npu.destroy(alias); npu.free(memory)
fd = heap.allocate(100)
npu.create(100, handle=fd)
os.close(npu.fd)
"""
    ended = on_board(script)
    seen = [
        (event["event"], event["buffer"], event["domain"], event["bytes"])
        for event in ended.addresses
    ]
    first = [("map", 1, 2, 8192), ("map", 1, 0, 8192), ("unmap", 1, 0, 8192), ("unmap", 1, 2, 8192)]
    assert seen == [*first, ("map", 2, 0, 4096), ("unmap", 2, 0, 4096)]


def test_a_job_reads_its_own_domain(on_board: RunOnBoard) -> None:
    """An address means another buffer in each domain."""
    script = """
npu = Npu()
data = [npu.create(1 << 20, domain=domain) for domain in (0, 1)]
assert data[0].address == data[1].address
tasks, commands = npu.create(4096, domain=1), npu.create(4096, domain=1)
write(mapped(commands.handle, 4096), command(0x1070, data[0].address) + bytes(32))
write(mapped(tasks.handle, 4096), task(commands.address, 1))
npu.submit(tasks, 0, 1, domain=1)
"""
    (submit,) = on_board(script).named("submit")
    assert [(read["register"], read["buffer"]) for read in submit["reads"]] == [
        ("0x0010", 4),
        ("0x1070", 2),
    ]


def test_addresses_that_another_domain_gives_out(on_board: RunOnBoard) -> None:
    """A job that reads a buffer that its domain has lost reads a dead one."""
    script = """
npu = Npu()
data, tasks, commands = npu.create(1 << 20), npu.create(4096), npu.create(4096)
npu.free(data)
assert npu.create(1 << 20, domain=1).address == data.address
write(mapped(commands.handle, 4096), command(0x1070, data.address) + bytes(32))
write(mapped(tasks.handle, 4096), task(commands.address, 1))
npu.submit(tasks, 0, 1)
"""
    (submit,) = on_board(script).named("submit")
    reads = [(read["register"], read["buffer"], read["state"]) for read in submit["reads"]]
    assert reads == [("0x0010", 3, "live"), ("0x1070", 1, "dead")]
