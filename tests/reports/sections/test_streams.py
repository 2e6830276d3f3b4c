"""The section of streams of video: sentences, tables and figures, on the page and the terminal."""

from __future__ import annotations

import dataclasses
import fcntl
import io
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from reusebench.measured.messages import Message
from reusebench.reports.base.paper import WIDE
from reusebench.reports.base.table import Table
from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.material import Material, read_material
from reusebench.reports.page.terminal import print_group
from reusebench.reports.results.colours import scenario_colour
from reusebench.reports.results.leak_limits import LeakLimits
from reusebench.reports.results.published import published_rows
from reusebench.reports.results.rows import Group
from reusebench.reports.sections.answer import opening, warnings_of
from reusebench.reports.sections.failures import failures
from reusebench.reports.sections.glossary import terms_of
from reusebench.reports.sections.section import Page
from reusebench.reports.sections.streams import StreamsSection, workload_figures
from reusebench.reports.sections.timeline import timeline_figure
from reusebench.reports.streams.sentences import (
    frame_sentences,
    growth_sentences,
    memory_sentences,
    stream_warnings,
)
from reusebench.reports.streams.tables import (
    machine_table,
    memory_table,
    per_stream_table,
    stages_table,
)
from reusebench.reports.streams.workload import Workload, workloads
from reusebench.samplers.readings import MachineState
from reusebench.storage.result import OF_STEADY_STATE, Result
from reusebench.targets.outcome import Failure
from tests.reports.conftest import WrittenReport
from tests.reports.pages import page, section
from tests.reports.stored import (
    changed,
    full_run,
    group_of,
    groups_of,
    npu_account,
    npu_run,
    with_memory,
    write_run,
)
from tests.reports.stored_streams import (
    HOT,
    NAMES,
    SCHEDULE,
    VIDEO,
    Frames,
    Shape,
    grown_until,
    level,
    moving,
    noisy,
    published_run,
    streams_result,
)

pytestmark = pytest.mark.process

ENGLISH = texts_of("en")
NOT_DECODED = dataclasses.replace(SCHEDULE, video=None)
CUT_OFF = Failure("cut_off", "steady", None, Message("session_cut_off", {"seconds": 33.0}))


def workload_of(group: Group) -> Workload:
    (workload,) = workloads(group.rows)
    return workload


def stored_workload(storage: Path, *infos: Result) -> Workload:
    """Return the workload that a run of these results has."""
    return workload_of(group_of(storage, *infos))


def sustained(storage: Path, rates: dict[str, float]) -> list[str]:
    """Return the sentences for runs that sustained these rates."""
    infos = [
        streams_result(storage, name, [Frames(per_s=rate, decode_only=name == NAMES[0])])
        for name, rate in rates.items()
    ]
    return frame_sentences(stored_workload(storage, *infos), ENGLISH)


def cut_off(storage: Path, scenario: str) -> Result:
    """Return the result of a run that was cut off after 33 s: no figure that is read at the end."""
    info = streams_result(storage, scenario, [Frames(seconds=33.0, per_s=40)])
    names = [
        name
        for name in info.memory.__struct_fields__
        if name.startswith(("application_", "residue_"))
    ]
    nothing = dict.fromkeys([*names, "system_memory_bytes"], (None,))
    return with_memory(changed(info, outcome="cut_off", failure=CUT_OFF), **nothing)


def cells_of(table: Table, scenario: str) -> dict[str, str]:
    """Return the cells of a scenario by their heads."""
    name = ENGLISH.scenario(scenario)
    (cells,) = (cells for _, cells in table.rows if cells[0] == name)
    return dict(zip(table.heads, cells))


def test_the_page_has_the_published_table_with_frames(streams_group: Group) -> None:
    """Memory, savings and frames share a table with the published figures, which have no frames."""
    table = memory_table(streams_group, workload_of(streams_group), published_rows(), ENGLISH)
    full = cells_of(table, "streams_full_dup")
    assert (
        full["Application memory, MiB"],
        full["Saved, MiB"],
        full["Inference saved, %"],
    ) == (
        "244.0 ±0.0",
        "330.0 ±6.0",
        "68.8",
    )
    assert full["Import / decoding / inference, MiB"] == "30.0 / 64.0 / 150.0"
    assert (full["Frames/s"], full["Frames lost, %"]) == ("43.5 ±0.5", "63.8")
    assert full["Latency, median / 99 % / longest, ms"] == "60.00 / 114.00 / 156.00"
    grey = [list(cells) for look, cells in table.rows if look == "published"]
    assert [cells[1:3] for cells in grey] == [
        ["2.12 GB", "368 MB"],
        ["2.07 GB", "304 MB"],
        ["1.99 GB", "259 MB"],
    ]
    assert {len(cells) for _, cells in table.rows} == {len(table.heads)}
    assert set(grey[0][table.heads.index("Frames/s") :][:3]) == {"-"}


def test_too_slow_a_machine_is_said_to_be(tmp_path: Path) -> None:
    """The rate is named, that decoding is fast enough, and that memory can be compared all the
    same.
    """
    said = sustained(tmp_path, {NAMES[0]: 120, NAMES[1]: 40, NAMES[2]: 44})
    assert said[0].startswith(
        "This machine is too slow: it sustained 40.0 to 44.0 of 120 frames a second."
    )
    assert "Decoding alone kept up" in said[0]
    assert "Memory can be compared" in said[1]


def test_some_modes_may_be_too_slow(tmp_path: Path) -> None:
    """The slow modes are named with the rate that they sustained."""
    said = sustained(tmp_path, {NAMES[1]: 40, NAMES[2]: 120})
    assert "Not every mode kept up with 120 frames a second on this machine" in said[0]
    assert f"{ENGLISH.scenario(NAMES[1])} 40.0. The others kept up." in said[0]


def test_a_machine_that_cannot_decode_all_frames(tmp_path: Path) -> None:
    """If decoding alone is too slow, the inferences are not the reason."""
    assert (
        "cannot even decode that many: decoding alone sustained 80.0 "
        in sustained(tmp_path, {NAMES[0]: 80, NAMES[1]: 40})[0]
    )


def test_a_machine_that_keeps_up(tmp_path: Path) -> None:
    """One sentence is enough."""
    (said,) = sustained(tmp_path, {NAMES[0]: 120, NAMES[1]: 120})
    assert said == "Every mode kept up: it processed 120.0 of 120 frames a second."


def test_as_fast_as_possible(tmp_path: Path) -> None:
    """There is nothing to keep up with: the rates are named."""
    schedule = dataclasses.replace(SCHEDULE, fps=0.0)
    infos = [
        streams_result(tmp_path, name, [Frames(fps=0, per_s=rate)], schedule=schedule)
        for name, rate in zip(NAMES[:2], (240, 44))
    ]
    assert frame_sentences(stored_workload(tmp_path, *infos), ENGLISH) == [
        f"As fast as possible, frames a second: {ENGLISH.scenario(NAMES[1])} 44.0.",
        "Decoding alone: 240.0 frames a second.",
    ]


def test_one_context_per_core_against_several_per_stream(streams_group: Group) -> None:
    """One sentence has the memory and the frames of both."""
    sentence = memory_sentences(workload_of(streams_group), ENGLISH)[-1]
    assert sentence.startswith("One context per core (2 in all")
    assert (
        "takes 100.0 MiB ±0.0 less application memory than full dup with its 12. It processed 40"
        in sentence
    )


@pytest.mark.parametrize(
    ("shape", "limit_mib", "sentence"),
    [
        (level, 200, "RSS is level: {name}. Less than 183 MiB a day could still grow."),
        (
            level,
            150,
            (
                "RSS: the run is too short to show whether it grows: {name}. It could still grow by"
                " up to 183 MiB a day. Run it longer: --duration 3m."
            ),
        ),
        (
            grown_until(41),
            5000,
            "RSS grew, then stayed level: {name} after 41 s. Less than 3,557 MiB a day could",
        ),
        (
            moving(1.02),
            10,
            (
                "RSS is still growing: {name} by 1.02 MiB/min (0.88 to 1.16, confidence 99.9 %),"
                " 1,469 MiB a day."
            ),
        ),
        (moving(-0.6), 10, "RSS is falling: {name} -0.60 MiB/min (-0.73 to -0.47)."),
        (noisy, 10, "RSS: the run is too short to show whether it grows: {name}. "),
    ],
)
def test_memory_over_time_in_words(
    tmp_path: Path, shape: Shape, limit_mib: int, sentence: str
) -> None:
    """Every verdict has its sentence, with its figures; the limit says what is level."""
    info = streams_result(tmp_path, NAMES[1], [Frames(rss=shape)])
    limits = LeakLimits(bytes_per_day=limit_mib * 2**20)
    workload = workload_of(group_of(tmp_path, info, leak_limits=limits))
    rss, heap = growth_sentences(workload, ENGLISH)[:2]
    assert rss.startswith(sentence.format(name=ENGLISH.scenario(NAMES[1])))
    assert heap.startswith("The heap in use is level: ")


def test_a_leak_that_fills_holes_of_the_heap(tmp_path: Path) -> None:
    """If RSS is level and the heap in use grows, sentence, panel and table say so."""
    info = streams_result(tmp_path, NAMES[1], [Frames(heap=moving(1.02))])
    group = group_of(tmp_path, info, leak_limits=LeakLimits(bytes_per_day=500 * 2**20))
    workload = workload_of(group)
    rss, heap = growth_sentences(workload, ENGLISH)
    assert rss.startswith("RSS is level: ")
    assert heap.startswith(
        f"The heap in use is still growing: {ENGLISH.scenario(NAMES[1])} by 1.02 MiB/min"
    )
    svg = workload_figures(group, ENGLISH)["streams_1_over_time"](WIDE)
    assert svg is not None
    words = " ".join(re.findall(">([^<]+)</text>", svg))
    assert "level; heap growing, 1.02 MiB/min, 1,469 MiB a day" in words
    table = machine_table(workload, ENGLISH)
    assert table is not None
    assert cells_of(table, NAMES[1])["Slope of the heap, MiB/min"] == "1.02"


def test_a_library_that_does_not_say_its_heap(tmp_path: Path) -> None:
    """The bytes that it has handed out are not known; RSS is shown alone."""
    group = group_of(tmp_path, streams_result(tmp_path, NAMES[1], [Frames(heap=None)]))
    (sentence,) = growth_sentences(workload_of(group), ENGLISH)
    assert sentence.startswith("RSS: the run is too short to show whether it grows: ")
    assert workload_figures(group, ENGLISH)["streams_1_over_time"](WIDE) is not None


def test_a_run_without_a_slope_is_named(tmp_path: Path) -> None:
    """A run with too few readings for a slope is named."""
    infos = [
        streams_result(tmp_path, name, [Frames(seconds=seconds)])
        for name, seconds in zip(NAMES[1:3], (4.0, 120.0))
    ]
    rss, _, short = growth_sentences(stored_workload(tmp_path, *infos), ENGLISH)
    assert ENGLISH.scenario(NAMES[2]) in rss
    assert short.startswith("Too short for a slope")
    assert short.endswith(f": {ENGLISH.scenario(NAMES[1])}.")


def test_memory_over_time_is_drawn_if_there_is_a_slope(tmp_path: Path) -> None:
    """If no run was long enough for a slope, there is no figure."""
    group = group_of(tmp_path, streams_result(tmp_path, NAMES[1], [Frames(seconds=4.0)]))
    assert workload_figures(group, ENGLISH)["streams_1_over_time"](WIDE) is None


def test_what_is_to_be_mistrusted_is_said(tmp_path: Path) -> None:
    """Throttled, interrupted and cut-off runs are shown with their figures and a warning."""
    group = group_of(
        tmp_path,
        streams_result(tmp_path, NAMES[1], [Frames(machine=HOT)]),
        streams_result(tmp_path, NAMES[2], [Frames(interrupted=True, seconds=4.0)]),
        cut_off(tmp_path, NAMES[4]),
    )
    workload = workload_of(group)
    hot, interrupted, cut = stream_warnings(workload, ENGLISH)
    assert "throttled, for up to 35.0 % of the time" in hot
    assert "thermal-cpufreq-0" in hot
    assert f"{ENGLISH.scenario(NAMES[2])} 4 s" in interrupted
    assert f"{ENGLISH.scenario(NAMES[4])} 33 s" in cut
    table = memory_table(group, workload, (), ENGLISH)
    cut_cells = cells_of(table, NAMES[4])
    assert (
        cut_cells["Application memory, MiB"],
        cut_cells["Frames/s"],
        cut_cells["Outcome"],
    ) == (
        "-",
        "40.0",
        "cut off",
    )
    assert cells_of(table, NAMES[2])["Outcome"] == "ended early"


def test_a_run_that_is_being_measured_is_not_said_to_be_cut_off(tmp_path: Path) -> None:
    """While its writer lives it is being measured, in the warning, the table and the failures."""
    path = write_run(tmp_path, [cut_off(tmp_path, NAMES[4])], is_finished=False)
    words = []
    with path.open("rb") as file:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        for _ in range(2):
            (group,) = groups_of(tmp_path)
            workload = workload_of(group)
            table = memory_table(group, workload, (), ENGLISH)
            (warning,) = stream_warnings(workload, ENGLISH)
            outcome = cells_of(table, NAMES[4])["Outcome"]
            (reason,) = failures(group, ENGLISH)
            words.append((warning.partition(":")[0], outcome, reason.outcome, reason.message))
            fcntl.flock(file.fileno(), fcntl.LOCK_UN)
    running, left = words
    assert running[:3] == ("Still being measured", "being measured", "being measured")
    assert running[3] == ENGLISH("end_running")
    assert left[:3] == ("No end was recorded", "no end recorded", "no end recorded")
    assert "still being measured on another machine, or power was lost" in left[3]


def test_a_busy_machine_is_said_to_be(tmp_path: Path) -> None:
    """Other work costs frames, so the modes are named; if nothing computes, it costs none."""
    busy = streams_result(tmp_path, NAMES[1], [Frames()], idle_cpu_percent=51.0)
    quiet = streams_result(tmp_path, NAMES[2], [Frames()])
    (sentence,) = stream_warnings(stored_workload(tmp_path, busy, quiet), ENGLISH)
    assert "up to 51 % busy" in sentence
    assert sentence.endswith(f"do not trust frames and latencies of {ENGLISH.scenario(NAMES[1])}.")


def test_repeats_that_were_finished_before_the_cut_are_shown(tmp_path: Path) -> None:
    """Their memory is in the table, without a saving."""
    info = streams_result(tmp_path, NAMES[4], [Frames(), Frames(seconds=2.0)])
    first = {name: getattr(info.memory, name)[0] for name in OF_STEADY_STATE}
    cut = with_memory(
        changed(info, outcome="cut_off", failure=CUT_OFF),
        **{name: [size, None] for name, size in first.items()},
    )
    group = group_of(tmp_path, streams_result(tmp_path, NAMES[3]), cut)
    cut_cells = cells_of(memory_table(group, workload_of(group), (), ENGLISH), NAMES[4])
    assert (cut_cells["Application memory, MiB"], cut_cells["Saved, MiB"]) == ("244.0", "-")


def test_on_a_virtual_board_there_is_only_memory(tmp_path: Path) -> None:
    """There are no frames and latencies, and a sentence tells why."""
    published_run(tmp_path, frames=Frames(computes=False), schedule=NOT_DECODED, npu=npu_account)
    (group,) = groups_of(tmp_path)
    workload = workload_of(group)
    (sentence,) = frame_sentences(workload, ENGLISH)
    assert sentence.startswith("Nothing is decoded and nothing computed on a virtual board")
    heads = memory_table(group, workload, published_rows(), ENGLISH).heads
    assert not any(word in head for head in heads for word in ("Frames", "Latency", "decoding"))
    assert (per_stream_table(workload, ENGLISH), stages_table(workload, ENGLISH)) == (None, None)
    drawn = {name for name, draw in workload_figures(group, ENGLISH).items() if draw(WIDE)}
    assert drawn == {"streams_1_over_time", "streams_1_explanation"}


def test_figures_have_every_mode(streams_group: Group) -> None:
    """Bars, panels and latencies name each scenario; none is missing."""
    for name, draw in workload_figures(streams_group, ENGLISH).items():
        svg = draw(WIDE)
        assert svg is not None, name
        rows = [
            row
            for row in streams_group.rows
            if row.info.plan.contexts or not name.endswith("explanation")
        ]
        assert all(ENGLISH.scenario(row.scenario) in svg for row in rows), name
    assert timeline_figure(streams_group.rows, ENGLISH) is not None


def test_frames_that_were_never_done_are_drawn_too(tmp_path: Path) -> None:
    """A mode that did nothing at all has a figure of memory, and no latency."""
    group = group_of(tmp_path, streams_result(tmp_path, NAMES[1], [Frames(per_s=0)]))
    figures = workload_figures(group, ENGLISH)
    assert figures["streams_1_memory"](WIDE) is not None
    assert figures["streams_1_latency"](WIDE) is None


def test_each_mode_has_a_colour_of_its_own() -> None:
    """Lines and marks of the modes can be told apart."""
    assert len(set(map(scenario_colour, NAMES))) == len(NAMES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_section_is_whole_in_every_language(written: WrittenReport, language: str) -> None:
    """Its heading, tables, figures and definitions are on the page."""
    html = written.html[language]
    texts = texts_of(language)
    text = section(html, "streams")
    for key in (
        "question_streams",
        "section_streams_table",
        "section_streams_over_time",
        "section_streams_latency",
    ):
        assert texts(key) in text
    assert f"<dt>{texts('stream_term_done')}</dt>" in html
    assert (text.count("<figure "), text.count("<details>")) == (4, 4)


def test_streams_are_defined_if_there_are_any(full_group: Group) -> None:
    """A page without streams does not explain them."""
    assert ENGLISH("stream_term_done") not in terms_of(Page(Material([full_group]), ENGLISH))


def test_a_page_of_many_groups_has_fewer_tables(tmp_path: Path) -> None:
    """Each of four runtimes has its streams, without the tables that the exported ones have."""
    for number, runtime in enumerate(("onnxruntime", "ncnn", "mnn", "litert"), start=1):
        info = streams_result(tmp_path, NAMES[3], [Frames()] * 2)
        write_run(tmp_path, [changed(info, runtime=runtime)], number)
    text = section(page(tmp_path, tmp_path / "out"), "streams")
    assert text.count(f">{ENGLISH('section_streams_table')}<") >= 4
    assert ENGLISH("section_streams_stages") not in text


def test_a_page_of_streams_alone_does_not_mention_inferences(
    streams_group: Group, streams_storage: Path, tmp_path: Path
) -> None:
    """Speed of inferences and a busy machine are not mentioned: all sentences are about frames."""
    shown = opening([streams_group], ["here"], ENGLISH)
    page_of_streams = Page(Material([streams_group]), ENGLISH)
    summary = StreamsSection().summary(page_of_streams)
    assert summary.startswith(
        "40.5 to 43.5 of 120 frames a second kept; Streams, full dup per core"
    )
    answer, _ = shown.answers
    assert answer.figures[-1].head == ENGLISH("answer_frames")
    assert ENGLISH("speed_of_streams") in section(page(streams_storage, tmp_path), "speed")


@pytest.mark.parametrize(
    ("heap", "memory"),
    [(moving(1.02), "The heap in use by 1.02 MiB/min (1.01 to 1.03, "), (level, "RSS by 2.00 ")],
)
def test_memory_that_still_grows_opens_the_page(tmp_path: Path, heap: Shape, memory: str) -> None:
    """A single mode whose saving is unknown counts too; the heap goes first, since RSS may hide a
    leak.
    """
    group = group_of(
        tmp_path, streams_result(tmp_path, NAMES[1], [Frames(rss=moving(2.0), heap=heap)])
    )
    growing = "memory was still growing at the end, which may be a leak"
    assert f"{growing}: {memory}" in StreamsSection().summary(Page(Material([group]), ENGLISH))
    (warning,) = [
        warning for warning in warnings_of([group], ["here"], ENGLISH) if growing in warning
    ]
    assert memory in warning


def test_virtual_boards_and_streams_share_a_page(tmp_path: Path) -> None:
    """All scenarios of an NPU, streams included, are one group and one page."""
    npu_run(tmp_path)
    published_run(tmp_path, 2, frames=Frames(computes=False), schedule=NOT_DECODED, npu=npu_account)
    (group,) = read_material([tmp_path], None).groups
    assert list(group.questions)[-1] == "streams"
    assert ENGLISH("streams_virtual") in section(page(tmp_path, tmp_path / "out"), "streams")


def printed(group: Group) -> str:
    """Return the output on a terminal of 80 characters."""
    console = Console(file=io.StringIO(), width=80, markup=False)
    print_group(group, "", ENGLISH, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_streams_have_a_table_of_their_own_in_the_terminal(tmp_path: Path) -> None:
    """Each mode has one line, with memory and frames, apart from single
    inferences.
    """
    full_run(tmp_path)
    published_run(tmp_path, 2)
    (group,) = groups_of(tmp_path)
    lines = printed(group).splitlines()
    (full,) = (line.split() for line in lines if "[streams_full_dup]" in line)
    assert full[-7:] == ["[streams_full_dup]", "244.0", "330.0", "57.5", "43.5", "63.8", "114.00"]
    assert not any("…" in line for line in lines)


def test_a_run_that_was_cut_off_has_its_line(tmp_path: Path) -> None:
    """Its frames are shown, and a warning tells that memory is missing."""
    text = printed(
        group_of(tmp_path, streams_result(tmp_path, NAMES[3]), cut_off(tmp_path, NAMES[4]))
    )
    (line,) = (line.split() for line in text.splitlines() if f"[{NAMES[4]}]" in line)
    assert line[-6:] == ["-", "-", "-", "40.0", "66.7", "114.00"]
    assert "! Cut off before the end" in text


def test_a_video_is_named(tmp_path: Path) -> None:
    """The first sentence names the video, its frames, the pace and the duration."""
    schedule = dataclasses.replace(SCHEDULE, queue=2, duration_s=3600.0)
    info = streams_result(tmp_path, NAMES[1], [Frames(seconds=3600.0)], schedule=schedule)
    words = " ".join(printed(group_of(tmp_path, info)).split())
    assert f"4 streams of 1920 \N{MULTIPLICATION SIGN} 1080 video (h264, {VIDEO.name})" in words
    assert "1 h of steady state after 2 s of warm-up" in words
    assert "up to 2 frames of a stream wait" in words


@pytest.mark.parametrize(("seconds", "is_first_look"), [(3.2, True), (3.4, False)])
def test_streams_of_few_frames_have_no_tables_of_their_own(
    seconds: float, is_first_look: bool, tmp_path: Path
) -> None:
    """Percentiles of a stream need a hundred frames that were due."""
    frames = [Frames(seconds=seconds)] * 3
    workload = stored_workload(tmp_path, streams_result(tmp_path, NAMES[1], frames))
    assert workload.is_first_look is is_first_look


def test_a_machine_that_says_nothing_has_no_table(tmp_path: Path) -> None:
    """If neither CPU nor clocks, throttling or growth are known, there is nothing to show."""
    table = machine_table(
        stored_workload(tmp_path, streams_result(tmp_path, NAMES[1], [Frames(machine=HOT)])),
        ENGLISH,
    )
    assert table is not None
    cells = cells_of(table, NAMES[1])
    assert (
        cells["Hottest sensor, start \N{RIGHTWARDS ARROW} highest, °C"]
        == "61 \N{RIGHTWARDS ARROW} 86"
    )
    assert (cells["NPU load, each core, %"], cells["Throttled"]) == (
        "71 / 72 / 73",
        "thermal-cpufreq-0, 35.0 %",
    )
    nothing = Frames(machine=MachineState((), (), None, None), seconds=4.0, computes=False)
    silent = streams_result(tmp_path, NAMES[1], [nothing], schedule=NOT_DECODED)
    assert machine_table(stored_workload(tmp_path, silent), ENGLISH) is None


def sizes(table: Table, column: str) -> Sequence[str]:
    index = list(table.heads).index(column)
    return [cells[index] for _, cells in table.rows]


def test_streams_and_stages_are_told_apart(streams_group: Group) -> None:
    """Each stream of each mode has a row; a mode that only decodes has no time of inference."""
    workload = workload_of(streams_group)
    per_stream = per_stream_table(workload, ENGLISH)
    stages = stages_table(workload, ENGLISH)
    assert per_stream is not None
    assert stages is not None
    assert sizes(per_stream, "Stream") == ["1", "2", "3", "4"] * len(NAMES)
    assert sizes(stages, "Inference, median, ms")[:2] == ["-", "28.80"]


def test_more_streams_than_a_page_can_list(
    streams_group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first streams are listed, and the others are counted."""
    monkeypatch.setattr("reusebench.reports.streams.tables._MOST_STREAM_ROWS", 6)
    table = per_stream_table(workload_of(streams_group), ENGLISH)
    assert table is not None
    assert sizes(table, "Stream") == ["1", "2", "3", "4", "1", "2", "-"]
    assert table.rows[-1][1][0] == f"{len(NAMES) * 4 - 6} more, in streams.csv"
