"""`reusebench fit --sessions`: the layout of conversations of a language model within a limit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import click

from reusebench.commands.fit_limits import limit_on
from reusebench.commands.fit_plans import PlanBench, write_plan
from reusebench.commands.fit_sessions_text import session_lines
from reusebench.commands.reply import give, warn
from reusebench.fit.sessions.answering import recommended_plan, stored_answer, with_measured
from reusebench.fit.sessions.layouts import SessionDemand, SessionLayout, layouts_of, plan_of
from reusebench.fit.sessions.prediction import SessionCosts
from reusebench.fit.sessions.sample import Account
from reusebench.fit.sessions.search import SessionChoice, SessionWish, choose
from reusebench.fit.sessions.study import Case, SessionStudy, has_ended
from reusebench.harness.errors import UserError
from reusebench.harness.measuring.models.model_files import ModelFile
from reusebench.harness.model_request import TIME_LIMIT_S, ModelRequest, resolve_model_sets
from reusebench.harness.selection import resolve_targets
from reusebench.measured.messages import Message
from reusebench.measured.plan import Conversation
from reusebench.measured.runtimes import RUNTIMES, find_runtime
from reusebench.models.model_kinds import is_language_model
from reusebench.scenarios.catalogue import SESSIONS
from reusebench.snippets import snippet_of
from reusebench.storage.fit_sessions import SessionsAnswer, write_session_answer
from reusebench.storage.trace import Trace, read_trace
from reusebench.targets.measured_process import estimates_of
from reusebench.targets.outcome import Failure
from reusebench.targets.resolve import Selection
from reusebench.targets.target import Target

__all__ = ["SessionRequest", "fit_sessions"]

#: Tokens of an answer, if the user gives no number.
_GENERATED = 16
#: Longest time of a step of plans whose speed is not known yet.
_FIRST_LIMIT_S = 1800
#: A step may take this many times as long as predicted.
_PATIENCE = 4


@dataclass(frozen=True)
class SessionRequest:
    """The options of `reusebench fit --sessions`."""

    models: Sequence[Path]
    limit: int | str | None
    sessions: int
    tokens: Optional[int]
    prompt: Optional[int]
    generated: Optional[int]
    common: Optional[int]
    tokens_per_s: Optional[float]
    stored: bool
    verify: bool
    code: bool
    storage: Path

    def conversation(self) -> Conversation:
        """Return the conversation; raise UserError if it has no room."""
        if self.tokens is None:
            raise UserError(
                "--sessions needs --tokens: how many tokens has a conversation room for?"
            )
        if self.tokens < 2:
            raise UserError("--tokens 1 has no room for a prompt and an answer; give 2 or more")
        generated = self.generated or min(_GENERATED, self.tokens // 2)
        if generated >= self.tokens:
            raise UserError(
                f"--generated {generated} leaves no room for a prompt in --tokens {self.tokens};"
                " lower it, or raise --tokens"
            )
        prompt = self.prompt or self.tokens - generated
        if prompt + generated > self.tokens:
            raise UserError(
                f"a prompt of {prompt} tokens and an answer of {generated} are more than --tokens"
                f" {self.tokens}; lower --prompt or --generated, or raise --tokens"
            )
        common = self.common or 0
        if common >= prompt:
            raise UserError(
                f"--common {common}: the prompt has {prompt} tokens, and at least one is of its"
                f" own; valid: up to {prompt - 1}"
            )
        return Conversation(self.tokens, prompt, generated, common)


def fit_sessions(request: SessionRequest, selection: Selection) -> int:
    """Answer the request, and return the exit code: 0 if the recommended layout fits."""
    conversation = request.conversation()
    for path in request.models:
        if not is_language_model(path):
            raise UserError(
                f"--sessions is for language models, and {path.name} is none by its name; leave"
                " --sessions and --tokens out"
            )
    runtime, target = _runtime(selection)
    demand = _demand(request, runtime, target, conversation)
    limit = limit_on(target, request.limit, binds=False)
    bench = PlanBench(runtime, target, selection, request.storage)
    measuring = _Measuring(SessionStudy(demand), bench)
    if request.stored:
        measuring.study.add(bench.stored(), bench.results)
    wish = SessionWish(limit.size_bytes, request.tokens_per_s)
    choice = measuring.choice(wish)
    answer = stored_answer(
        measuring.study, wish, choice, limit.source, tuple(measuring.refused().values())
    )
    if request.verify and choice.recommended:
        answer = measuring.verified(answer, choice)
    write_session_answer(request.storage, answer)
    if answer.short:
        warn(
            "memory was short while plans were measured, so that the answer may be too small:"
            f" {', '.join(short.plan for short in answer.short)}. Free memory, and measure again"
        )
    if request.code:
        click.echo("\n".join(session_lines(answer)), err=True)
        return _print_program(answer)
    give(answer, _lines(answer, request.storage))
    return 0 if answer.fits else 1


def _runtime(selection: Selection) -> tuple[str, Target]:
    """Return the first runtime of language models that the target has."""
    chosen = selection.runtimes
    for name in chosen:
        if not find_runtime(name).has_conversations:
            valid = ", ".join(entry.name for entry in RUNTIMES if entry.has_conversations)
            raise UserError(f"{name} has no conversations; --sessions is for: {valid}")
    for name, target in resolve_targets(selection).items():
        if find_runtime(name).has_conversations:
            return name, target
    advice = [entry.install for entry in RUNTIMES if entry.has_conversations]
    raise UserError(f"no runtime of language models is installed: {advice[0]}")


def _demand(
    request: SessionRequest, runtime: str, target: Target, conversation: Conversation
) -> SessionDemand:
    files = tuple(map(ModelFile.of_path, request.models))
    sets = resolve_model_sets(ModelRequest(files=files), {runtime: target})
    model = sets.of(runtime, SESSIONS)[0]
    options = find_runtime(runtime).options
    return SessionDemand(runtime, model, request.sessions, conversation, options)


@dataclass
class _Measuring:
    """Measurements of the plans of a study."""

    study: SessionStudy
    bench: PlanBench

    def choice(self, wish: SessionWish) -> SessionChoice:
        """Measure until the recommended layout was measured in small, and return the choice."""
        accounts = self._accounts()
        self._measure(self.study.plain_cases(), "Measuring")
        self._check_default()
        costs = SessionCosts(self.study, accounts)
        demand = self.study.demand
        while True:
            choice = choose(demand, costs, wish, self.study.is_busy)
            cases: list[Case] = []
            if choice.recommended:
                cases = self.study.missing(self.study.cases_of(choice.recommended.layout))
            if not cases:
                return choice
            self._measure(cases, "Measuring the recommended layout")

    def _accounts(self) -> dict[SessionLayout, tuple[Account, ...]] | None:
        """Return the runtime's account of every layout; None if it tells none in advance."""
        demand = self.study.demand
        layouts = list(layouts_of(demand))
        plans = []
        for layout in layouts:
            plans.append(plan_of(layout, demand, demand.sessions, demand.conversation, "fit"))
        target = self.bench.target
        accounts = estimates_of(target, plans, TIME_LIMIT_S)
        if not isinstance(accounts, Failure):
            return dict(zip(layouts, accounts))
        if accounts.kind == "not_supported":
            return None
        raise UserError(f"{demand.model.name} cannot have these conversations: {accounts}")

    def _measure(self, cases: Sequence[Case], reason: str) -> None:
        cases = self.study.missing(cases)
        if not cases:
            return
        plans = [self.study.plan(case, _name(case, number)) for number, case in enumerate(cases, 1)]
        tokens = sum(case.sessions * case.conversation.prompt for case in cases)
        noun = "plan" if len(plans) == 1 else "plans"
        click.echo(f"{reason}: {len(plans)} {noun}, prompts of {tokens:,} tokens in all", err=True)
        options = ["--time-limit", str(_FIRST_LIMIT_S)]
        results, output = self.bench.run(plans, 1, options)
        self.study.add(results, self.bench.results)
        if self.study.missing(cases):
            click.echo(output, err=True)
            raise UserError("the plans were not measured: pytest's output above has the reason")

    def _check_default(self) -> None:
        """Raise UserError if the model does not run with the runtime's defaults."""
        plain = self.study.plain_cases()
        for case in plain:
            failure = self.study.failure(case)
            if failure and case.layout == SessionLayout():
                name = self.study.demand.model.name
                raise UserError(f"{name} does not run: {failure}")

    def refused(self) -> dict[str, Message]:
        """Return the reasons for which layouts are missing, by the layout in words."""
        reasons: dict[str, Message] = {}
        for case in self.study.plain_cases():
            failure = self.study.failure(case)
            if failure:
                layout = " ".join((case.layout.kind, *case.layout.options))
                reasons[layout] = Message(
                    "fit_sessions_refused", {"layout": layout, "reason": failure.message}
                )
        return reasons

    def verified(self, answer: SessionsAnswer, choice: SessionChoice) -> SessionsAnswer:
        """Return the answer with figures of the recommended layout, measured as it is."""
        assert choice.recommended is not None
        prediction = choice.recommended.prediction
        seconds = 3 * (prediction.prompts_s or 0.0)
        click.echo(
            f"Verifying the recommended layout, some {_duration(seconds)}: --prompt with fewer"
            " tokens takes less",
            err=True,
        )
        limit_s = max(_FIRST_LIMIT_S, math.ceil(_PATIENCE * seconds))
        plan = recommended_plan(choice.recommended, self.study.demand)
        results, output = self.bench.run([plan], 1, ["--time-limit", str(limit_s)])
        if not results or not has_ended(results[-1]):
            click.echo(output, err=True)
            failure = str(results[-1].failure) if results else "pytest did not measure it"
            raise UserError(f"the recommended layout could not be measured: {failure}")
        trace = read_trace(self.bench.results, results[-1].repeats[0].trace, Trace)
        if trace is None:
            raise UserError("the trace of the recommended layout is missing; measure again")
        return with_measured(answer, results[-1], trace)


def _name(case: Case, number: int) -> str:
    """Return a name for the plan of a case."""
    options = [option.replace("=", "_") for option in case.layout.options]
    parts = [case.layout.kind, *options, str(case.sessions), str(case.conversation.prompt)]
    return "-".join((f"{number:02}", *parts))


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"


def _lines(answer: SessionsAnswer, storage: Path) -> Iterator[str]:
    """Yield the answer, and the command that measures it again."""
    yield from session_lines(answer)
    if answer.recommended:
        path = write_plan(answer.recommended, storage, "recommended-sessions")
        yield f"\nreusebench bench --plan {path} measures it again."


def _print_program(answer: SessionsAnswer) -> int:
    """Print the program of a layout that fits, and return the exit code."""
    if answer.fits and answer.recommended:
        click.echo(snippet_of(answer.recommended).text, nl=False)
        return 0
    click.echo(
        "Error: no program is printed, for its layout does not fit. Raise --limit, or lower"
        " --sessions, --tokens or --tokens-per-s",
        err=True,
    )
    return 1
