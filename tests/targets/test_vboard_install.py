"""The installation of the virtual board, with a few lines of shell as the package manager."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import pytest

from reusebench.targets.errors import TargetError
from reusebench.targets.machine import LOCAL
from reusebench.targets.programs import NativeProgram
from reusebench.targets.rknn_library import read_library
from reusebench.targets.vboard import install, loading, packages
from reusebench.targets.vboard.catalogue import rknn_board, rknn_system
from reusebench.targets.vboard.emulator import ensure_emulator, find_emulator, is_needed
from reusebench.targets.vboard.folders import check_usable, vboard_folder
from reusebench.targets.vboard.loading import Guest
from reusebench.targets.vboard.packages import PackageSource, PinnedPackage
from reusebench.targets.vboard.root_file_system import RootFileSystem
from reusebench.targets.vboard.virtual_board import VirtualBoard
from tests.targets.library_files import write_library

pytestmark = pytest.mark.process

#: The stand-in for Debian: packages are tar archives in $POOL, and dependencies are text files next
#: to them.
_TOOLS = {
    "apt-get": (
        """#!/bin/sh
        echo "$@" >> "$POOL/calls"
        cp "$APT_CONFIG" "$POOL/configuration"
        [ ! -f suites.list ] || cp suites.list "$POOL"
        if [ "$1" = indextargets ]; then cat "$POOL/sources"; exit; fi
        if [ "$1" = update ]; then echo "E: a mirror is out of reach" >&2; exit 100; fi
        shift
        for name in "$@"; do
            case "$name" in -*) continue ;; esac
            name=${name%%=*}
            if [ ! -f "$POOL/$name.tar" ]; then
                echo "E: Unable to locate package $name" >&2
                exit 100
            fi
            cp "$POOL/$name.tar" "${name}_1%3a2-1_arm.deb"
        done
    """
    ),
    "apt-cache": (
        """#!/bin/sh
        case "$1" in
            madison) cat "$POOL/$2.versions" ;;
            *) cat "$POOL/$3.depends" ;;
        esac 2>/dev/null
    """
    ),
    "dpkg": (
        """#!/bin/sh
        [ "$2" != "$4" ] && printf '%s\\n' "$4" "$2" | sort -C -V
    """
    ),
    "dpkg-deb": (
        """#!/bin/sh
        mkdir -p "$3" && tar -xf "$2" -C "$3"
    """
    ),
}


class Pool:
    """The available packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def add(self, name: str, files: Sequence[str] = (), depends: Sequence[str] = ()) -> None:
        """Add a package with these files, each holding its own name."""
        with tarfile.open(self.folder / f"{name}.tar", "w") as archive:
            for path in files:
                entry = tarfile.TarInfo(path)
                entry.size = len(path)
                archive.addfile(entry, BytesIO(path.encode()))
        lines = "".join(f"  Depends: {package}\n" for package in depends)
        (self.folder / f"{name}.depends").write_text(
            f"{name}\n{lines}  Suggests: nonsense\n", encoding="ascii"
        )

    def calls(self) -> list[str]:
        """Return the arguments of all calls of apt-get."""
        calls = self.folder / "calls"
        return calls.read_text(encoding="ascii").splitlines() if calls.exists() else []


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pool:
    """Return a distribution with Python 3.14, in which /lib is a link."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, script in _TOOLS.items():
        (tools / name).write_text(
            "\n".join(line.strip() for line in script.splitlines()), encoding="ascii"
        )
        (tools / name).chmod(0o755)
    pool = Pool(tmp_path / "pool")
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    monkeypatch.setenv("POOL", str(pool.folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    pool.add("python3-minimal", depends=["python3.14-minimal", "dpkg"])
    pool.add(
        "python3.14-minimal",
        ["usr/bin/python3.14"],
        ["libpython3.14-minimal", "libc6", "zlib1g", "debconf"],
    )
    pool.add(
        "libpython3.14-minimal",
        ["usr/lib/python3.14/os.py", "usr/share/doc/text", "etc/python3.14/site"],
    )
    pool.add(
        "libpython3.14-stdlib",
        ["usr/lib/python3.14/idlelib/a.py"],
        ["libffi9", "libexpat1t64", "libssl9"],
    )
    for name in ("libc6", "zlib1g", "libffi9", "libexpat1t64", "libgcc-s1", "libstdc++6"):
        pool.add(name, [f"usr/lib/arm-linux-gnueabihf/{name}.so"])
    return pool


def _quiet(_step: str) -> None:
    """Show no step."""


def test_the_system_is_made_of_the_distributions_own_python(pool: Pool) -> None:
    """The release decides on the version and on names of libraries; unused files are not kept."""
    board = rknn_system("armhf")
    board.ensure(None, _quiet)
    system = board.folder
    assert board.is_installed()
    assert board.python() == system / "usr/bin/python3.14"
    libraries = ("libc6", "zlib1g", "libffi9", "libexpat1t64", "libgcc-s1", "libstdc++6")
    assert {path.name for path in board.library_folders()[0].iterdir()} == {
        f"{name}.so" for name in libraries
    }
    assert not (system / "usr/share").exists()
    assert not (system / "etc").exists()
    assert [path.name for path in (system / "usr/lib/python3.14").iterdir()] == ["os.py"]
    assert (system / "lib").resolve() == system.resolve() / "usr/lib"
    calls = pool.calls()
    board.ensure(None, _quiet)
    assert pool.calls() == calls
    # A damaged root file system, and one with another layout, are made again.
    for stamp in ("", "{", "[]", '{"layout": 0}'):
        (system / "installed.json").write_text(stamp, encoding="ascii")
        assert not board.is_installed()
    board.ensure(None, _quiet)
    assert board.is_installed()


def test_apt_works_for_the_other_architecture_in_folders_of_its_own(pool: Pool) -> None:
    """The host's lists, state and cache are neither read nor changed, and no file is left."""
    rknn_system("aarch64").ensure(None, _quiet)
    configuration = (pool.folder / "configuration").read_text(encoding="ascii")
    assert 'APT::Architecture "arm64";' in configuration
    assert configuration.count(str(vboard_folder())) == 5
    assert "Dir::Etc" not in configuration
    assert sorted(path.name for path in vboard_folder().iterdir()) == [".lock", "system-aarch64"]


def test_packages_that_are_not_offered(pool: Pool) -> None:
    """The error has apt's reason and the remedy; no partial file is left."""
    (pool.folder / "libffi9.tar").unlink()
    with pytest.raises(
        TargetError, match=r"offer no .*libffi9.* for armhf \(Unable to locate package libffi9\)"
    ):
        rknn_system("armhf").ensure(None, _quiet)
    (pool.folder / "python3-minimal.depends").unlink()
    with pytest.raises(
        TargetError,
        match=r"no python3-minimal for armhf \(a mirror is out of reach\).*--apt-sources FILE",
    ):
        rknn_system("armhf").ensure(None, _quiet)
    assert [path.name for path in vboard_folder().iterdir()] == [".lock"]


def test_other_sources_replace_the_hosts(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path starts in the caller's folder."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TargetError, match=r"--apt-sources ports\.list: there is no such file"):
        rknn_system("armhf").ensure(Path("ports.list"), _quiet)
    Path("ports.list").touch()
    rknn_system("armhf").ensure(Path("ports.list"), _quiet)
    configuration = (pool.folder / "configuration").read_text(encoding="ascii")
    assert f'Dir::Etc::sourcelist "{tmp_path}/ports.list";' in configuration
    assert 'Dir::Etc::sourceparts "-";' in configuration


#: A system as that of the mainline driver, of the packages in the pool.
_OF_SUITES = RootFileSystem(
    "of-suites",
    "armhf",
    layout=1,
    packages=("libstdc++6", PinnedPackage("mesa", "26.1-1~bpo13+1")),
    suites=("trixie", "trixie-backports"),
    unused=("usr/lib/python3*/unused*",),
    files={"proc/cpuinfo": "four"},
)


@pytest.fixture
def suites(pool: Pool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Pool:
    """Return the distribution, with the pinned package, on a machine with Debian's keys."""
    keys = tmp_path / "keys.gpg"
    keys.touch()
    monkeypatch.setattr(packages, "_KEYRING", keys)
    pool.add("mesa", ["usr/lib/mesa.so", "usr/lib/python3.14/unused.so"])
    (pool.folder / "mesa.versions").write_text(
        "mesa | 26.1-1~bpo13+1 | trixie-backports\nmesa | 25.0-1 | trixie\n"
    )
    (pool.folder / "sources").write_text(
        "https://mirror/debian/ bookworm main\nhttps://mirror/debian/ bookworm-updates main\n"
        "https://mirror/debian/ bookworm contrib\nhttps://other/ nodistro main\n"
        "https://mirror/debian/ bookworm main\n"
    )
    return pool


def test_a_system_of_other_suites_than_the_machines(suites: Pool) -> None:
    """Its sources are the machine's address of Debian and Debian's keys, nothing else; versions are
    recorded.
    """
    steps: list[str] = []
    _OF_SUITES.ensure(None, steps.append)
    keys = packages._KEYRING
    assert (suites.folder / "suites.list").read_text().splitlines() == [
        f"deb [signed-by={keys}] https://mirror/debian/ trixie main",
        f"deb [signed-by={keys}] https://mirror/debian/ trixie-backports main",
    ]
    assert 'Dir::Etc::sourceparts "-";' in (suites.folder / "configuration").read_text()
    assert suites.calls()[-1].endswith(" libstdc++6 mesa=26.1-1~bpo13+1")
    system = _OF_SUITES.folder
    assert "mesa 1:2-1" in json.loads((system / "installed.json").read_text())["packages"]
    assert (system / "proc/cpuinfo").read_text() == "four"
    assert [path.name for path in (system / "usr/lib/python3.14").iterdir()] == ["os.py"]
    assert not [step for step in steps if "tried" in step]


def test_a_later_version_than_the_one_that_was_tried(suites: Pool) -> None:
    """It is taken, and said; an earlier one is refused, with what the sources must have."""
    versions = suites.folder / "mesa.versions"
    versions.write_text("mesa | 26.2-1~bpo13+1 | trixie-backports\nmesa | 25.0-1 | trixie\n")
    steps: list[str] = []
    _OF_SUITES.ensure(None, steps.append)
    assert (
        "mesa 26.1-1~bpo13+1, with which this was tried, is not there any more: 26.2-1~bpo13+1 is"
        " taken"
    ) in steps
    shutil.rmtree(_OF_SUITES.folder)
    for text, reason in (
        ("mesa | 25.0-1 | trixie\n", "there is 25.0-1"),
        ("", "a mirror is out of reach"),
    ):
        versions.write_text(text)
        with pytest.raises(
            TargetError,
            match=rf"offer no mesa 26\.1-1~bpo13\+1 or later for armhf \({reason}\).*suites"
            r" trixie and trixie-backports to a file.*--apt-sources FILE",
        ):
            _OF_SUITES.ensure(None, _quiet)
    assert not _OF_SUITES.folder.exists()


def test_a_machine_that_is_not_debian(suites: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentences say what the file of sources must have, or how to get Debian's keys."""
    monkeypatch.setattr(packages, "_KEYRING", suites.folder / "none.gpg")
    with pytest.raises(TargetError, match="apt install debian-archive-keyring"):
        _OF_SUITES.ensure(None, _quiet)
    (suites.folder / "sources").write_text("https://archive/ubuntu/ noble main\n")
    with pytest.raises(
        TargetError,
        match=r"have no address of Debian\. Write sources of Debian with the suites trixie and"
        " trixie-backports to a file.*--apt-sources FILE",
    ):
        _OF_SUITES.ensure(None, _quiet)
    _OF_SUITES.ensure(suites.folder / "sources", _quiet)
    assert _OF_SUITES.is_installed()


def test_a_package_that_cannot_be_unpacked(pool: Pool) -> None:
    """A full disk, for example: the reason is a sentence, and nothing is left."""
    (pool.folder / "libc6.tar").write_text("no archive")
    with pytest.raises(TargetError, match=r"libc6_.*\.deb cannot be unpacked: .*look"):
        rknn_system("armhf").ensure(None, _quiet)
    assert [path.name for path in vboard_folder().iterdir()] == [".lock"]


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="no apt-get")
@pytest.mark.parametrize("option", ["", "[allow-insecure=yes]"])
def test_packages_that_nobody_signed(tmp_path: Path, option: str) -> None:
    """The real apt refuses them, whatever its sources and its configuration allow."""
    package = tmp_path / "package"
    pool = tmp_path / "pool"
    (package / "DEBIAN").mkdir(parents=True)
    pool.mkdir()
    control = (
        "Package: unsigned\nVersion: 1\nArchitecture: all\nMaintainer: nobody\nDescription: none\n"
    )
    (package / "DEBIAN/control").write_text(control, encoding="ascii")
    file = pool / "unsigned_1_all.deb"
    subprocess.run(
        ["dpkg-deb", "--build", str(package), str(file)], check=True, capture_output=True
    )
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    listed = f"{control}Filename: ./{file.name}\nSize: {file.stat().st_size}\nSHA256: {digest}\n"
    (pool / "Packages").write_text(listed, encoding="ascii")
    sources = tmp_path / "own.list"
    sources.write_text(f"deb {option} file:{pool} ./\n", encoding="ascii")
    source = PackageSource("x86_64", tmp_path / "apt", sources)
    with pytest.raises(TargetError, match="offer no unsigned for x86_64"):
        source.fetch(["unsigned"])
    assert not list((tmp_path / "apt/packages").iterdir())
    # The source is complete: if the user permits it, apt takes the package.
    sources.write_text(f"deb [trusted=yes] file:{pool} ./\n", encoding="ascii")
    assert PackageSource("x86_64", tmp_path / "other", sources).fetch(["unsigned"])


def test_a_machine_without_apt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error has the missing programs and what to do."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TargetError, match="has no apt-get and no apt-cache and no dpkg-deb"):
        rknn_system("armhf").ensure(None, _quiet)


@pytest.mark.skipif(not is_needed("armhf"), reason="this machine runs armhf itself")
@pytest.mark.parametrize(
    ("static", "plain", "is_fetched"),
    [
        (["usr/bin/qemu-arm-static"], [], True),
        (["usr/share/doc/qemu-user-static"], ["usr/bin/qemu-arm"], True),
        (["usr/share/a"], ["usr/share/b"], False),
    ],
)
def test_an_emulator_is_fetched(
    pool: Pool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    static: list[str],
    plain: list[str],
    is_fetched: bool,
) -> None:
    """It comes from the package with a static one; otherwise the error names the package."""
    # The shell's tools without qemu, which this machine may have.
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("sh", "cp", "cat", "echo", "mkdir", "tar"):
        (bare / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("PATH", f"{tmp_path / 'tools'}:{bare}")
    pool.add("qemu-user-static", static)
    pool.add("qemu-user", plain)
    if is_fetched:
        ensure_emulator("armhf", _quiet)
        assert find_emulator("armhf") == vboard_folder() / "qemu" / "qemu-arm"
    else:
        with pytest.raises(
            TargetError, match=r"no package of this machine's sources has it\. Install it"
        ):
            ensure_emulator("armhf", _quiet)
    assert sorted(path.name for path in vboard_folder().iterdir()) == [
        ".lock",
        *["qemu"] * is_fetched,
    ]


def test_programs_of_a_system_are_started_by_its_loader_or_the_emulator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel would start them with the host's loader, which is for another libc."""
    system = rknn_system("aarch64")
    words = ("python3", "script.py")
    for needed in (False, True):
        monkeypatch.setattr(loading, "is_needed", lambda _, needed=needed: needed)
        monkeypatch.setattr(loading, "find_emulator", lambda _: Path("/usr/bin/qemu-aarch64"))
        started = loading.started_in(system, words, {"A": "B"}, {"LD_PRELOAD": "/preload.so"})
        assert started.environment == {"A": "B"}
        assert started.command[-2:] == words
        folders = ":".join(map(str, system.library_folders()))
        if needed:
            assert started.command[:3] == ("/usr/bin/qemu-aarch64", "-L", str(system.folder))
            assert f"LD_LIBRARY_PATH={folders}" in started.command
            assert "LD_PRELOAD=/preload.so" in started.command
        else:
            loader = str(system.folder / "lib/ld-linux-aarch64.so.1")
            options = ("--inhibit-cache", "--library-path", folders, "--preload", "/preload.so")
            assert started.command[:-2] == (loader, *options)


def test_an_emulator_on_the_path_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It may have either of its names."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_emulator("aarch64") is None
    program = tmp_path / "qemu-aarch64-static"
    program.touch(mode=0o755)
    assert find_emulator("aarch64") == program


@pytest.mark.usefixtures("own_cache")
def test_a_library_that_does_not_load_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The installation ends with a trial, whose last error line is the reason."""
    script = tmp_path / "python"
    script.write_text(
        "#!/bin/sh\necho first >&2\necho 'libfoo.so: not found' >&2\nexit 1\n", encoding="ascii"
    )
    script.chmod(0o755)
    for name in ("ensure_sandbox", "ensure_emulator", "ensure_bytecode"):
        monkeypatch.setattr(install, name, lambda *_: None)
    monkeypatch.setattr(NativeProgram, "ensure", lambda *_: None)
    monkeypatch.setattr(RootFileSystem, "ensure", lambda *_: None)
    monkeypatch.setattr(VirtualBoard, "guest", lambda _: Guest((str(script),), {}))
    monkeypatch.setattr(VirtualBoard, "machine", lambda _: LOCAL)
    library = read_library(write_library(tmp_path / "library.so"))
    with pytest.raises(
        TargetError, match=r"does not load on the virtual board: libfoo\.so: not found"
    ):
        install.install(rknn_board(library), None, _quiet)


@pytest.mark.parametrize("name", ["my cache", "a,b", "a:b"])
def test_a_cache_with_separators_in_its_path(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """These characters separate paths, and they cannot be escaped."""
    monkeypatch.setenv("XDG_CACHE_HOME", f"/tmp/{name}")
    with pytest.raises(TargetError, match="XDG_CACHE_HOME=FOLDER"):
        check_usable()
