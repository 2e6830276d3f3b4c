"""The question of conversations: what a further one costs, by component, and at which speed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from reusebench.measured.plan import SHARED_PROMPT
from reusebench.reports.base.drawing import (
    Draw,
    Rows,
    bars,
    end_with_room,
    line,
    new_canvas,
    patch,
    svg_of,
    write_labels,
)
from reusebench.reports.base.formatting import (
    EMPTY,
    MIB,
    component_mib,
    mib,
    milliseconds,
    per_second,
    percent,
    whole,
)
from reusebench.reports.base.paper import WIDE, Paper
from reusebench.reports.base.statistics import Figure, difference, rounded, rounded_spread, total
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.colours import OTHER_COLOUR, PALETTE, looks_of
from reusebench.reports.results.memory_use import PAGE_KINDS
from reusebench.reports.results.rows import Row
from reusebench.reports.results.sessions import (
    ALL_GENERATED,
    FIRST_TOKEN,
    GENERATED,
    KV_CACHE,
    PROMPT,
    SESSION_COMPONENTS,
    WEIGHTS,
    SessionMemory,
    component_bytes,
    conversation_count,
    conversation_of,
    further_conversation,
    has_other_tokens,
    has_sequences,
    is_alike,
    one_conversation,
    options_of,
    session_memory,
    speed_figure,
    token_costs,
)
from reusebench.reports.sections.contexts import context_costs, draw_points
from reusebench.reports.sections.question import ComparisonSection
from reusebench.reports.sections.section import GroupView, Values
from reusebench.reports.shared.comparison import against, name_in_words, usual_cells
from reusebench.reports.shared.session_words import (
    further_costs,
    further_sentence,
    least_sentence,
)
from reusebench.scenarios.catalogue import SESSIONS
from reusebench.storage.savings import APPLICATION

#: Columns of the exported table; new ones come at the end.
SESSION_COLUMNS = (
    "sessions",
    "tokens",
    "prompt_tokens",
    "generated_tokens",
    "common_tokens",
    "options",
    "over_baseline_bytes",
    "over_baseline_spread_bytes",
    "further_session_bytes",
    "further_session_spread_bytes",
    *(f"{component}_bytes" for component in SESSION_COMPONENTS),
    "account_bytes",
    "mapped_again_bytes",
    *(f"{kind}_bytes" for kind in PAGE_KINDS),
    "difference_bytes",
    "token_bytes",
    "token_spread_bytes",
    "token_kv_cache_bytes",
    "first_token_ns",
    "prompt_tokens_per_s",
    "generated_tokens_per_s",
    "all_generated_tokens_per_s",
)
#: Colours of components by the account, and of kinds of pages as measured.
_COLOURS = dict(zip(SESSION_COMPONENTS, (*PALETTE[:6], OTHER_COLOUR)))
_KIND_COLOURS = dict(zip(PAGE_KINDS, PALETTE[6:9]))
#: Pixels of a bar's lane, of the bar in it, between two scenarios, and of the axis.
_LANE_PX = 16
_BAR_PX = 12
_GAP_PX = 12
_AXIS_PX = 50
_THOUSAND = 1000
#: Sizes of marks, in points.
_LARGEST_MARK = 10
_SMALLEST_MARK = 4


class SessionsSection(ComparisonSection):
    """Conversations of a language model: ways to hold several, their memory and their speed."""

    template = "sections/sessions.html.j2"

    def __init__(self) -> None:
        super().__init__(SESSIONS)

    def part(self, view: GroupView) -> Values:
        """Return the answer, and tables of ways, of components and of speed."""
        texts = view.texts
        rows = view.rows
        answer = [further_sentence(rows, texts), least_sentence(rows, texts)]
        return {
            **super().part(view),
            "steps": texts.sentences(answer),
            "reasons": reason_sentences(rows, texts),
            "components": None,
            "parts": None,
            "comparison": ways_table(rows, texts),
            "tokens": token_sentences(rows, texts),
            "memory": memory_table(rows, texts),
            "speed": speed_table(rows, texts),
        }

    def part_summary(self, view: GroupView) -> str | None:
        """Return the sentence of a further conversation."""
        sentence = further_sentence(view.rows, view.texts)
        return sentence or super().part_summary(view)

    def part_figures(self, view: GroupView) -> dict[str, Draw]:
        """Return the figures of memory by number of conversations, and by component."""
        return {
            "conversations": partial(conversations_figure, view.rows, view.texts),
            "session_memory": partial(memory_figure, view.rows, view.texts),
        }


def ways_table(rows: Sequence[Row], texts: Texts) -> Table:
    """Return the memory of each way to hold the conversations, and of a further one."""
    lines = []
    numbers = []
    for row in rows:
        tokens = whole(conversation_of(row).tokens)
        numbers.append(tokens)
        cells = [
            texts.scenario(row.scenario),
            texts.joined(options_of(row)) or EMPTY,
            tokens,
            str(conversation_count(row)),
            mib(row.memory(APPLICATION)),
            _not_measured_if_unknown(row, further_conversation(row, rows), texts),
            component_mib(_cache_of_tokens(row)),
            mib(row.saved()),
            percent(row.saved_percent()),
            against(row, texts),
            _outcome(row, texts),
        ]
        lines.append((row.outcome, cells))
    heads = (
        "column_scenario",
        "column_session_options",
        "column_tokens",
        "column_sessions",
        "column_application",
        "column_further_session",
        "column_cache_of_tokens",
        "column_saved",
        "column_saved_percent",
        "column_against",
        "column_outcome",
    )
    same_tokens = set(numbers) if len(set(numbers)) == 1 else set()
    return Table(
        heads_of(heads, texts),
        lines,
        words=(0, 1, -2, -1),
        exported="sessions",
        usual=usual_cells(rows, texts) | same_tokens,
    )


def _not_measured_if_unknown(row: Row, size: Figure | None, texts: Texts) -> str:
    """Return the size; of several conversations that it is not measured, if it is not known."""
    if size is None and row.measured and conversation_count(row) > 1:
        return texts("outcome_not_measured")
    return mib(size)


def _outcome(row: Row, texts: Texts) -> str:
    """Return the outcome, and whether the tokens are not the baseline's."""
    if row.measured and row.baseline and has_other_tokens(row, row.baseline):
        return texts("outcome_other_tokens")
    return texts(f"outcome_{row.outcome}")


def _cache_of_tokens(row: Row) -> Figure | None:
    """Return the KV cache for each 1,000 tokens of all conversations, by the account."""
    cache = component_bytes(row, KV_CACHE)
    tokens = conversation_of(row).tokens * conversation_count(row)
    return cache.scaled(_THOUSAND / tokens) if cache else None


def token_sentences(rows: Sequence[Row], texts: Texts) -> list[str]:
    """Return the cost of 1,000 tokens, measured and by the account of the cache."""
    sentences = []
    for cost in token_costs(rows):
        options = options_of(cost.more)
        sentence = texts(
            "tokens_cost",
            size=mib(cost.measured.scaled(_THOUSAND)),
            more=whole(conversation_of(cost.more).tokens),
            fewer=whole(conversation_of(cost.fewer).tokens),
        )
        if cost.kv_cache:
            account = texts(
                "tokens_cost_of_cache",
                size=component_mib(cost.kv_cache.scaled(_THOUSAND)),
                bytes=whole(cost.kv_cache.median),
            )
            sentence = texts.sentences([sentence, account])
        if options:
            sentence = texts("of_group", group=texts.joined(options), words=sentence)
        sentences.append(sentence)
    return sentences or [texts("tokens_not_measured")]


def memory_table(rows: Sequence[Row], texts: Texts) -> Table | None:
    """Return the memory by component, beside what was measured; None if nothing was."""
    lines = []
    for row in rows:
        memory = session_memory(row)
        if memory is None:
            continue
        accounted = [memory.account.get(component) for component in SESSION_COMPONENTS]
        kinds = [memory.measured.get(kind) for kind in PAGE_KINDS]
        again = memory.mapped_again if memory.mapped_again.median else None
        cells = [
            name_in_words(row, texts, rows),
            *map(component_mib, (*accounted, memory.account_total, again)),
            *(mib(kind, spread=False) if kind and kind.median else EMPTY for kind in kinds),
            *map(mib, (memory.total, memory.difference)),
        ]
        lines.append((row.outcome, cells))
    if not lines:
        return None
    names = [f"component_{component}" for component in SESSION_COMPONENTS]
    names += ["session_account", "session_mapped_again"]
    names += [f"part_{kind}" for kind in PAGE_KINDS]
    names += ["session_measured", "session_difference"]
    heads = [texts("column_scenario")]
    heads += [texts("column_in_mib", name=texts(name)) for name in names]
    return Table(heads, lines, exported="sessions")


def speed_table(rows: Sequence[Row], texts: Texts) -> Table | None:
    """Return the speed of each row; None if none was measured."""
    lines = []
    for row in rows:
        first_token = speed_figure(row, FIRST_TOKEN)
        rates = [speed_figure(row, name) for name in (PROMPT, GENERATED, ALL_GENERATED)]
        if first_token is None and not any(rates):
            continue
        before = speed_figure(row.baseline, ALL_GENERATED) if row.baseline else None
        change = rates[-1].percent_above(before) if rates[-1] and before else None
        cells = [
            name_in_words(row, texts, rows),
            milliseconds(first_token),
            *map(per_second, rates),
            percent(change, spread=True),
            against(row, texts),
        ]
        lines.append((row.outcome, cells))
    if not lines:
        return None
    heads = (
        "column_scenario",
        "column_first_token",
        "column_prompt_speed",
        "column_generation_speed",
        "column_generation_speed_all",
        "column_generation_change",
        "column_against",
    )
    return Table(
        heads_of(heads, texts),
        lines,
        words=(0, -1),
        exported="sessions",
        usual=usual_cells(rows, texts),
    )


def reason_sentences(rows: Sequence[Row], texts: Texts) -> list[str]:
    """Return the saving of each way by the runtime's account, by component, and as measured."""
    sentences = []
    for row in rows:
        if row.baseline is None or row.saved() is None:
            continue
        own = session_memory(row)
        before = session_memory(row.baseline)
        if own is None or before is None or not own.account or not before.account:
            continue
        name = name_in_words(row, texts, rows)
        sentences.append(_reason(name, row.baseline, own, before, texts))
        if SHARED_PROMPT in {context.mechanism for context in row.info.plan.contexts}:
            sentences += _shared_prompt(row, rows, texts)
    return sentences


def _reason(
    scenario: str, baseline: Row, own: SessionMemory, before: SessionMemory, texts: Texts
) -> str:
    parts = []
    zero = Figure(0, 0.0)
    for component in SESSION_COMPONENTS:
        saved = before.account.get(component, zero) - own.account.get(component, zero)
        if saved.median:
            name = texts(f"component_{component}")
            parts.append(texts("error_part", component=name, error=component_mib(saved)))
    again = before.mapped_again - own.mapped_again
    if again.median:
        name = texts("reason_mapped_again")
        parts.append(texts("error_part", component=name, error=component_mib(-again)))
    account = difference(before.account_total, own.account_total)
    assert account is not None
    return texts(
        "session_reason",
        scenario=scenario,
        baseline=texts.scenario(baseline.scenario),
        account=component_mib(account - again),
        parts=texts.joined(parts) or EMPTY,
        measured=mib(before.total - own.total),
    )


def _shared_prompt(row: Row, rows: Sequence[Row], texts: Texts) -> list[str]:
    """Return the size of the common tokens that are kept once, as calculated."""
    common = conversation_of(row).common
    times = conversation_count(row) - 1
    for cost in token_costs(rows):
        if options_of(cost.more) == options_of(row) and cost.kv_cache:
            size = component_mib(cost.kv_cache.scaled(common * times))
            return [texts("session_shared_prompt", common=common, times=times + 1, size=size)]
    return []


def session_records(row: Row, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return a record in SESSION_COLUMNS if the row is of a language model, otherwise none.

    Sequences are compared with one conversation among `rows`.
    """
    conversation = row.info.plan.conversation
    if conversation is None:
        return []
    record: dict[str, Any] = {
        "sessions": conversation_count(row),
        "tokens": conversation.tokens,
        "prompt_tokens": conversation.prompt,
        "generated_tokens": conversation.generated,
        "common_tokens": conversation.common,
        "options": " ".join(sorted(row.options)) or None,
    }
    further = further_conversation(row, rows)
    record["further_session_bytes"] = rounded(further)
    record["further_session_spread_bytes"] = rounded_spread(further)
    memory = session_memory(row)
    if memory:
        record["over_baseline_bytes"] = rounded(memory.total)
        record["over_baseline_spread_bytes"] = rounded_spread(memory.total)
        for name, figure in (*memory.account.items(), *memory.measured.items()):
            record[f"{name}_bytes"] = rounded(figure)
        record["account_bytes"] = rounded(memory.account_total)
        record["mapped_again_bytes"] = rounded(memory.mapped_again)
        record["difference_bytes"] = rounded(memory.difference)
    for cost in token_costs(rows):
        if cost.more is row:
            record["token_bytes"] = rounded(cost.measured, 3)
            record["token_spread_bytes"] = rounded_spread(cost.measured, 3)
            record["token_kv_cache_bytes"] = rounded(cost.kv_cache, 3)
    record["first_token_ns"] = rounded(speed_figure(row, FIRST_TOKEN))
    for name in (PROMPT, GENERATED, ALL_GENERATED):
        record[name] = rounded(speed_figure(row, name), 3)
    return [record]


def conversations_figure(rows: Sequence[Row], texts: Texts, paper: Paper = WIDE) -> str | None:
    """Draw memory against the number of conversations; None if none has several.

    Contexts have a point for each; sequences have one for the first conversation alone, and one for
    all.
    """
    points = {}
    for row in _drawn(rows):
        of_row = _points(row, rows)
        if of_row:
            points[row] = of_row
    if not points:
        return None
    canvas = new_canvas(320, paper)
    axes = canvas.add_subplot()
    legend: list[Artist] = []
    for look, (row, figures) in zip(looks_of([row.scenario for row in points]), points.items()):
        linestyle = ":" if has_sequences(row) else "-"
        # Equal figures cover each other: each row has smaller marks and a thinner line.
        size = max(_LARGEST_MARK - len(legend), _SMALLEST_MARK)
        draw_points(axes, figures, size, linewidth=size / 3, linestyle=linestyle, **look)
        legend.append(line(texts.scenario(row.scenario), linestyle=linestyle, **look))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(0.8, max(map(max, points.values())) + 0.2)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(texts("axis_sessions"))
    axes.set_ylabel(texts("axis_over_baseline"))
    return svg_of(canvas, legend)


def _drawn(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with several conversations of one model, like the plain one, whose options
    they have.
    """
    known = further_costs(rows)
    if known is None:
        return []
    plain = known[0].row
    drawn = []
    for row in rows:
        is_like_it = is_alike(row, plain) and options_of(row) == options_of(plain)
        if is_like_it and conversation_count(row) > 1 and row.measured:
            drawn.append(row)
    return drawn


def _points(row: Row, rows: Sequence[Row]) -> dict[int, Figure]:
    """Return memory over the do-nothing baseline by the number of conversations."""
    if not has_sequences(row):
        return {cost.number: cost.total for cost in context_costs(row)}
    points = {}
    alone = one_conversation(row, rows)
    for one in (alone, row):
        memory = session_memory(one) if one else None
        if one and memory:
            points[conversation_count(one)] = memory.total
    return points


def memory_figure(rows: Sequence[Row], texts: Texts, paper: Paper = WIDE) -> str | None:
    """Draw the account of each row by component, and below it what was measured by kind of page;
    None without an account.
    """
    shown = {}
    for row in rows:
        memory = session_memory(row)
        if memory and memory.account:
            shown[row] = memory
    if not shown:
        return None
    drawn = Rows(paper)
    lanes: list[tuple[float, dict[str, Figure]]] = []
    labels: list[tuple[str, float, float]] = []
    for row, memory in shown.items():
        top_px = drawn.add(name_in_words(row, texts, rows), _GAP_PX + 2 * _LANE_PX)
        for number, (kind, sizes) in enumerate(_lanes(memory).items()):
            middle = top_px + _GAP_PX / 2 + (number + 0.5) * _LANE_PX
            end = total(sizes.values())
            assert end is not None
            words = texts(f"lane_{kind}", size=mib(end, spread=False))
            labels.append((words, max(end.median, 0) / MIB, middle))
            lanes.append((middle, sizes))
    canvas = new_canvas(drawn.end_px + _AXIS_PX, paper)
    axes = canvas.add_subplot()
    colours = {**_COLOURS, **_KIND_COLOURS}
    used = _draw_lanes(axes, lanes, colours)
    write_labels(axes, labels)
    drawn.draw_names(axes)
    axes.set_xlim(0, end_with_room(labels, drawn.panel_px))
    axes.set_xlabel(texts("axis_over_baseline"))
    legend = []
    for name, colour in colours.items():
        if name in used:
            key = f"part_{name}" if name in PAGE_KINDS else f"component_{name}"
            legend.append(patch(texts(key), colour))
    return svg_of(canvas, legend)


def _lanes(memory: SessionMemory) -> dict[str, dict[str, Figure]]:
    """Return the bars of a row: the account, without weights that are in memory once, and the
    measurement.
    """
    account = dict(memory.account)
    if WEIGHTS in account:
        account[WEIGHTS] = account[WEIGHTS] - memory.mapped_again
    lanes = {"account": account}
    if memory.measured:
        lanes["measured"] = memory.measured
    return lanes


def _draw_lanes(
    axes: Axes, lanes: Sequence[tuple[float, dict[str, Figure]]], colours: dict[str, str]
) -> set[str]:
    """Draw the bars, and return the names of their parts."""
    parts = []
    part_colours = []
    used = set()
    for middle, sizes in lanes:
        start = 0.0
        for name, size in sizes.items():
            length = max(size.median, 0.0) / MIB
            if length:
                parts.append((start, length, middle))
                part_colours.append(colours[name])
                used.add(name)
                start += length
    bars(axes, parts, _BAR_PX, facecolors=part_colours)
    return used
