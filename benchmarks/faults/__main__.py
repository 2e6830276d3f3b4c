"""`python -m benchmarks.faults CAMPAIGN`: runs campaigns of injected faults.

It prints their rows of the table in docs/evidence/faults.md.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.faults.disk import Disk
from benchmarks.faults.kills import Kills
from benchmarks.faults.machines import MACHINES, Machines
from benchmarks.faults.memory import Memory
from benchmarks.faults.models import Models
from benchmarks.faults.running import Campaign, run_campaign, usable_cpus
from benchmarks.faults.samples import MakingFailed, Samples
from benchmarks.faults.stored import Stored
from benchmarks.faults.trial import Tally, markdown_table
from benchmarks.quick import parse

#: Number of inputs for docs/evidence/faults.md; a third of those of `models` is measured.
_CAMPAIGNS: dict[str, tuple[Callable[[Samples, int, Path], Campaign], int]] = {
    "stored": (Stored, 20_000),
    "models": (Models, 1500),
    "kills": (Kills, 300),
    "disk": (Disk, 270),
    "memory": (Memory, 100),
    "machines": (Machines, 4 * len(MACHINES)),
}

#: Options for the first inputs of three campaigns. They are always the same: a fault that other
#: inputs find should not hold up an unrelated change.
_QUICK = ("stored", "kills", "disk", "--seconds=2", "--seed=1")
#: Interval of progress messages.
_PROGRESS_S = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaigns; return exit code 1 if the product has any fault."""
    options = parse(_parser(), arguments, _QUICK)
    # Programs that a shell starts in the background, and their children, ignore Ctrl-C otherwise.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    names = options.campaigns or list(_CAMPAIGNS)
    tallies = []
    with tempfile.TemporaryDirectory(prefix="reusebench-faults-") as folder:
        try:
            samples = Samples(Path(folder) / "samples").make()
        except MakingFailed as error:
            sys.exit(f"the product does not work here: {error}")
        if "models" in names:
            samples.add_models(options.model)
        for name in names:
            tally = _run(name, samples, options, Path(folder) / name)
            tallies.append(tally)
            print("\n".join(tally.places_in_words(options.keep)), file=sys.stderr)
    print(markdown_table(tallies))
    return 1 if any(tally.kinds for tally in tallies) else 0


def _run(name: str, samples: Samples, options: argparse.Namespace, folder: Path) -> Tally:
    """Run a campaign and return its sums; Ctrl-C ends it early."""
    make, count = _CAMPAIGNS[name]
    indexes = range(options.count or count) if options.only is None else [options.only]
    tally = Tally(name)
    campaign = make(samples, options.seed, options.keep.absolute())
    trials = run_campaign(campaign, indexes, options.workers, folder, options.seconds)
    next_s = time.monotonic() + _PROGRESS_S
    with suppress(KeyboardInterrupt):
        for trial in trials:
            tally.add([trial])
            if trial.wrongs:
                fault = f"{name} {trial.index}: {trial.about}: {trial.wrongs[0].place}"
                print(fault, file=sys.stderr, flush=True)
            if time.monotonic() >= next_s:
                next_s += _PROGRESS_S
                progress = f"{name}: {tally.tried:,} of {len(indexes):,}"
                print(progress, file=sys.stderr, flush=True)
    return tally


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.faults", description=__doc__)
    names = ", ".join(_CAMPAIGNS)
    parser.add_argument(
        "campaigns",
        nargs="*",
        choices=[*_CAMPAIGNS, []],
        metavar="CAMPAIGN",
        help=f"{names}; default: all",
    )
    parser.add_argument(
        "--count",
        type=int,
        metavar="N",
        help="inputs of each campaign; default: as in docs/evidence/faults.md",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="S", help="other inputs (default: %(default)s)"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="begin no inputs of a campaign after this time",
    )
    parser.add_argument(
        "--workers", type=int, default=usable_cpus(), metavar="N", help="default: the usable CPUs"
    )
    parser.add_argument("--only", type=int, metavar="INDEX", help="only this input")
    parser.add_argument(
        "--model",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="additional model file for `models`, such as an .rknn file; repeatable",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        default=Path("out/faults"),
        metavar="DIR",
        help="folder for inputs with faults (default: %(default)s)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
