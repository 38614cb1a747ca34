"""What a session did, as spans of time: runs, model calls, tool calls and waits for people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.utils import timezone

from sessions_app.models import Run, Session, ToolExecution
from sessions_app.pages.axis import Axis, Stretch, draw_axis
from sessions_app.pages.lines import LAMPS
from sessions_app.pages.words import dollars, lasting, thousands
from sessions_app.tool_words import subject_of, words_of
from tenants.models import ModelCall

#: Of one page, and of what lies in them.
RUNS, MOST_SPANS = 20, 400
S = ToolExecution.State
RUN_STATES = {
    Run.Status.QUEUED: ("", "Waiting"),
    Run.Status.RUNNING: ("is-running", "Running"),
    Run.Status.COMPLETED: ("is-done", "Done"),
    Run.Status.FAILED: ("is-failed", "Failed"),
    Run.Status.CANCELLED: ("", "Stopped"),
    Run.Status.DEAD: ("is-failed", "Given up"),
}
#: Why a run ended, where that is more than that it is done.
ENDINGS = {"end_turn": "", "requires_action": "waits for an answer", "interrupted": "stopped"}
CALL_STATES = {"failed": ("is-failed", "Failed"), "reserved": ("is-running", "Running")}


@dataclass(frozen=True, kw_only=True)
class Span:
    """One bar. `kind` is `run`, `model`, `tool` or `wait`."""

    kind: str
    name: str
    note: str
    start: datetime
    end: datetime
    lamp: str
    state: str
    facts: list[tuple[str, str]]
    run_id: UUID
    tool_use_id: str = ""

    @property
    def took(self) -> str:
        return lasting(self.end - self.start)


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A span at its place on the line."""

    span: Span
    x: int
    width: int


@dataclass(frozen=True, kw_only=True)
class Timeline:
    axis: Axis | None
    bars: list[Bar]
    #: The run that is looked at closely, or none.
    run: Run | None
    #: Before which run the next page begins, or none.
    older: UUID | None
    is_clipped: bool


def draw_timeline(
    session: Session, *, run_id: UUID | None = None, before: UUID | None = None
) -> Timeline:
    """The newest runs on one line, or one run. Three queries, however long the session is."""
    runs = Run.objects.filter(session=session, started_at__isnull=False).order_by("-pk")
    if run_id:
        runs = runs.filter(pk=run_id)
    elif before:
        runs = runs.filter(pk__lt=before)
    found = list(runs.defer("policy", "result")[: RUNS + 1])
    shown = found[:RUNS][::-1]
    now = timezone.now()
    inner = inside(session, shown, now)
    places = {run.pk: number for number, run in enumerate(shown)}
    spans = sorted(
        [*(span_of_run(run, now) for run in shown), *inner[:MOST_SPANS]],
        # Each run before what it did.
        key=lambda span: (places.get(span.run_id, 0), span.kind != "run", span.start),
    )
    axis = draw_axis(_busy(spans))
    return Timeline(
        axis=axis,
        bars=[_bar(axis, span) for span in spans] if axis else [],
        run=shown[0] if run_id and shown else None,
        older=shown[0].pk if len(found) > RUNS else None,
        is_clipped=len(inner) > MOST_SPANS,
    )


def inside(session: Session, runs: list[Run], now: datetime) -> list[Span]:
    """What happened in these runs, and the waits that they ended with."""
    ids = [run.pk for run in runs]
    calls = ModelCall.objects.filter(session_id=session.pk, run_id__in=ids).order_by("-created_at")
    executions = ToolExecution.objects.filter(session=session, run_id__in=ids).defer("output")
    spans = [span_of_call(call, now) for call in calls[:MOST_SPANS]]
    for execution in executions.order_by("-created_at")[:MOST_SPANS]:
        spans += spans_of_execution(execution, now)
    return sorted(spans, key=lambda span: span.start, reverse=True)


def ending(run: Run) -> str:
    return ENDINGS.get(run.stop_reason, run.stop_reason.replace("_", " "))


def span_of_run(run: Run, now: datetime) -> Span:
    start = run.started_at or run.created_at
    lamp, word = RUN_STATES[Run.Status(run.status)]
    facts = [
        ("Waited before it began", lasting(max(timedelta(), start - run.created_at))),
        ("Ended by", run.stop_reason.replace("_", " ")),
        ("Attempts", str(run.attempts)),
        ("Error", str((run.error or {}).get("message", ""))),
    ]
    return Span(
        kind="run",
        name="Run",
        note=" · ".join(filter(None, [f"{start:%H:%M:%S}", ending(run)])),
        start=start,
        end=run.finished_at or now,
        lamp=lamp,
        state=word,
        facts=_told(facts),
        run_id=run.pk,
    )


def span_of_call(call: ModelCall, now: datetime) -> Span:
    lamp, word = CALL_STATES.get(call.state, ("is-done", "Done"))
    facts = [
        ("Provider", call.provider),
        ("Purpose", call.purpose),
        ("Tokens in", f"{call.input_tokens:,}"),
        ("From the cache", f"{call.cached_tokens:,}" if call.cached_tokens else ""),
        ("Tokens out", f"{call.output_tokens:,}"),
        ("Cost", dollars(call.cost)),
    ]
    return Span(
        kind="model",
        name=call.model,
        note=f"{thousands(call.input_tokens)} → {thousands(call.output_tokens)} tokens",
        start=call.created_at,
        end=call.finished_at or now,
        lamp=lamp,
        state=word,
        facts=_told(facts),
        run_id=call.run_id,  # type: ignore[arg-type]
    )


def spans_of_execution(execution: ToolExecution, now: datetime) -> list[Span]:
    """The call itself, and before it the wait for a person when one was asked."""
    state = "pending" if execution.state == S.REQUESTED else execution.state
    lamp, word = LAMPS[state]
    started, ended = execution.started_at, execution.finished_at
    title, subject = words_of(execution.name).title, subject_of(execution.name, execution.input)
    common = {"run_id": execution.run_id, "tool_use_id": execution.tool_use_id}
    spans = []
    if execution.decision == "ask":
        waits = execution.state == S.AWAITING_APPROVAL
        spans.append(
            Span(
                kind="wait",
                name=f"Approval: {title}",
                note=subject,
                start=execution.created_at,
                end=started or ended or now,
                lamp="is-waiting" if waits else "",
                state="Needs you" if waits else "Answered",
                facts=_told([("Asked by", execution.decided_by)]),
                **common,  # type: ignore[arg-type]
            )
        )
    if started or execution.decision != "ask":
        facts = [
            ("Tool", execution.name),
            ("Decided by", execution.decided_by),
            ("Attempts", str(execution.attempts)),
            ("Error", execution.error[:500]),
        ]
        spans.append(
            Span(
                kind="tool",
                name=title,
                note=subject,
                start=started or execution.created_at,
                end=ended or now,
                lamp=lamp,
                state=word,
                facts=_told(facts),
                **common,  # type: ignore[arg-type]
            )
        )
    return spans


def _busy(spans: list[Span]) -> list[Stretch]:
    """A wait for a person may take days: it does not stretch the line."""
    runs = [(span.start, span.end) for span in spans if span.kind == "run"]
    return runs or [(span.start, span.end) for span in spans]


def _bar(axis: Axis, span: Span) -> Bar:
    x, width = axis.bar(span.start, span.end)
    return Bar(span=span, x=x, width=width)


def _told(facts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, text) for name, text in facts if text]
