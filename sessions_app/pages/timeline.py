"""The timeline of a session: runs, model calls, tool calls and waits for approval, as bars on an axis."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone

from sessions_app.models import Run, Session, ToolExecution
from sessions_app.pages.labels import dollars, long_duration, thousands
from sessions_app.pages.transcript_lines import LAMPS
from sessions_app.tool_labels import main_argument, tool_label
from tenants.billing.usage import cached_percent
from tenants.models import ModelCall

WIDTH = 1000
#: A thinner bar would be invisible.
MIN_BAR_WIDTH = 3
TICKS = 5
#: A pause longer than the first share of the busy time is shortened to the second.
CUT_SHARE, CUT_WIDTH = 0.15, 0.04
MIN_CUT = timedelta(seconds=2)
#: Runs of one page, and spans within them.
RUNS_PER_PAGE, MAX_SPANS = 20, 400
S = ToolExecution.State
RUN_STATES = {
    Run.Status.QUEUED: ("", "Waiting"),
    Run.Status.RUNNING: ("is-running", "Running"),
    Run.Status.COMPLETED: ("is-done", "Done"),
    Run.Status.FAILED: ("is-failed", "Failed"),
    Run.Status.CANCELLED: ("", "Stopped"),
    Run.Status.DEAD: ("is-failed", "Given up"),
}
#: Short texts for stop reasons. A normal end needs none.
STOP_REASONS = {
    "end_turn": "",
    "requires_action": "waits for an answer",
    "interrupted": "stopped",
    "max_tokens": "cut off at the token limit",
}
CALL_STATES = {"failed": ("is-failed", "Failed"), "reserved": ("is-running", "Running")}

Interval = tuple[datetime, datetime]


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A part of the axis with an even scale."""

    start: datetime
    end: datetime
    x: float
    width: float
    is_cut: bool


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A pause that the axis shortens."""

    x: int
    words: str


@dataclass(frozen=True, kw_only=True)
class Axis:
    segments: list[Segment]

    def x(self, moment: datetime) -> int:
        """Return the position of a moment. One outside of the axis lies at its end."""
        for segment in self.segments:
            if moment <= segment.end:
                span = (segment.end - segment.start) or timedelta(microseconds=1)
                share = max(0.0, (moment - segment.start) / span)
                return round(segment.x + share * segment.width)
        return WIDTH

    def bar(self, start: datetime, end: datetime) -> tuple[int, int]:
        """Return the left end and the width of a bar, which is always visible on the axis."""
        left = min(self.x(start), WIDTH - MIN_BAR_WIDTH)
        return left, max(MIN_BAR_WIDTH, self.x(end) - left)

    @property
    def ticks(self) -> list[str]:
        """Return the time since the beginning at the left end of each fifth of the axis."""
        first = self.segments[0].start
        return [long_duration(self._time_at(WIDTH * nth / TICKS) - first) for nth in range(TICKS)]

    @property
    def cuts(self) -> list[Cut]:
        return [
            Cut(
                x=round(segment.x + segment.width / 2),
                words=long_duration(segment.end - segment.start),
            )
            for segment in self.segments
            if segment.is_cut
        ]

    def _time_at(self, x: float) -> datetime:
        for segment in self.segments:
            if x <= segment.x + segment.width:
                share = (x - segment.x) / segment.width if segment.width else 0
                return segment.start + (segment.end - segment.start) * share
        return self.segments[-1].end


def build_axis(intervals: Iterable[Interval]) -> Axis | None:
    """Return an axis over these intervals, or None if there are none."""
    busy = _merged(intervals)
    if not busy:
        return None
    total = sum((end - start for start, end in busy), timedelta()) or timedelta(milliseconds=1)
    parts: list[tuple[Interval, timedelta, bool]] = []
    for start, end in busy:
        if parts and (pause := start - parts[-1][0][1]) > timedelta():
            is_cut = pause > max(MIN_CUT, total * CUT_SHARE)
            length = total * CUT_WIDTH if is_cut else pause
            parts.append(((parts[-1][0][1], start), length, is_cut))
        parts.append(((start, end), max(end - start, timedelta(microseconds=1)), False))
    whole = sum((length for _, length, _ in parts), timedelta())
    segments, x = [], 0.0
    for (start, end), length, is_cut in parts:
        width = WIDTH * (length / whole)
        segments.append(Segment(start=start, end=end, x=x, width=width, is_cut=is_cut))
        x += width
    return Axis(segments=segments)


def _merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Sort the intervals and merge those that touch."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


@dataclass(frozen=True, kw_only=True)
class Span:
    """What one bar shows. `kind` is `run`, `model`, `tool` or `wait`."""

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
        return long_duration(self.end - self.start)


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A span at its position on the axis."""

    span: Span
    x: int
    width: int


@dataclass(frozen=True, kw_only=True)
class Timeline:
    axis: Axis | None
    bars: list[Bar]
    #: The run that the page is restricted to, if any.
    run: Run | None
    #: The run before which the next page begins, if there is one.
    older: UUID | None
    is_clipped: bool


def build_timeline(
    session: Session, *, run_id: UUID | None = None, before: UUID | None = None
) -> Timeline:
    """Return the timeline of the newest runs, or of one run, with three queries."""
    runs = Run.objects.filter(session=session, started_at__isnull=False).order_by("-pk")
    if run_id:
        runs = runs.filter(pk=run_id)
    elif before:
        runs = runs.filter(pk__lt=before)
    newest = list(runs.defer("policy", "result")[: RUNS_PER_PAGE + 1])
    page = newest[:RUNS_PER_PAGE][::-1]
    now = timezone.now()
    inner = _inner_spans(session, page, now)
    order = {run.pk: number for number, run in enumerate(page)}
    spans = sorted(
        [*(_run_span(run, now) for run in page), *inner[:MAX_SPANS]],
        # A run comes before its own calls.
        key=lambda span: (order.get(span.run_id, 0), span.kind != "run", span.start),
    )
    axis = build_axis(_busy_intervals(spans))
    return Timeline(
        axis=axis,
        bars=[_bar(axis, span) for span in spans] if axis else [],
        run=page[0] if run_id and page else None,
        older=page[0].pk if len(newest) > RUNS_PER_PAGE else None,
        is_clipped=len(inner) > MAX_SPANS,
    )


def _inner_spans(session: Session, runs: list[Run], now: datetime) -> list[Span]:
    """Return the model calls, tool calls and waits of these runs, newest first."""
    ids = [run.pk for run in runs]
    calls = ModelCall.objects.filter(session_id=session.pk, run_id__in=ids).order_by("-created_at")
    executions = ToolExecution.objects.filter(session=session, run_id__in=ids).defer("output")
    spans = [_model_call_span(call, now) for call in calls[:MAX_SPANS]]
    for execution in executions.order_by("-created_at")[:MAX_SPANS]:
        spans += _execution_spans(execution, now)
    return sorted(spans, key=lambda span: span.start, reverse=True)


def _run_span(run: Run, now: datetime) -> Span:
    start = run.started_at or run.created_at
    lamp, label = RUN_STATES[Run.Status(run.status)]
    reason = run.stop_reason.replace("_", " ")
    facts = [
        ("Time in queue", long_duration(max(timedelta(), start - run.created_at))),
        ("Stop reason", reason),
        ("Attempts", str(run.attempts)),
        ("Input read from the cache", _cached(run.usage)),
        ("Error", str((run.error or {}).get("message", ""))),
    ]
    return Span(
        kind="run",
        name="Run",
        note=STOP_REASONS.get(run.stop_reason, reason),
        start=start,
        end=run.finished_at or now,
        lamp=lamp,
        state=label,
        facts=_without_empty(facts),
        run_id=run.pk,
    )


def _cached(usage: dict[str, Any]) -> str:
    """Return how much of a run's input the provider read from its cache, in words."""
    cached, tokens = usage.get("cached_tokens", 0), usage.get("input_tokens", 0)
    if not cached:
        return ""
    return f"{cached:,} of {tokens:,} tokens, {cached_percent(cached, tokens)} %"


def _model_call_span(call: ModelCall, now: datetime) -> Span:
    lamp, label = CALL_STATES.get(call.state, ("is-done", "Done"))
    facts = [
        ("Provider", call.provider),
        ("Purpose", call.purpose),
        ("Input tokens", f"{call.input_tokens:,}"),
        ("Cached tokens", f"{call.cached_tokens:,}" if call.cached_tokens else ""),
        ("Output tokens", f"{call.output_tokens:,}"),
        ("Cost", dollars(call.cost)),
    ]
    return Span(
        kind="model",
        name=call.model,
        note=f"{thousands(call.input_tokens)} → {thousands(call.output_tokens)} tokens",
        start=call.created_at,
        end=call.finished_at or now,
        lamp=lamp,
        state=label,
        facts=_without_empty(facts),
        run_id=call.run_id,  # type: ignore[arg-type]
    )


def _execution_spans(execution: ToolExecution, now: datetime) -> list[Span]:
    """Return the span of a tool call, after the wait for its approval if there was one."""
    state = "pending" if execution.state == S.REQUESTED else execution.state
    lamp, label = LAMPS[state]
    started, ended = execution.started_at, execution.finished_at
    title, subject = (
        tool_label(execution.name).title,
        main_argument(execution.name, execution.input),
    )
    common = {"run_id": execution.run_id, "tool_use_id": execution.tool_use_id}
    spans = []
    if execution.decision == "ask":
        is_pending = execution.state == S.AWAITING_APPROVAL
        spans.append(
            Span(
                kind="wait",
                name=f"Approval: {title}",
                note=subject,
                start=execution.created_at,
                end=started or ended or now,
                lamp="is-waiting" if is_pending else "",
                state="Needs you" if is_pending else "Answered",
                facts=_without_empty([("Asked by", execution.decided_by)]),
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
                state=label,
                facts=_without_empty(facts),
                **common,  # type: ignore[arg-type]
            )
        )
    return spans


def _busy_intervals(spans: list[Span]) -> list[Interval]:
    # A wait for approval may take days and must not stretch the axis.
    runs = [(span.start, span.end) for span in spans if span.kind == "run"]
    return runs or [(span.start, span.end) for span in spans]


def _bar(axis: Axis, span: Span) -> Bar:
    x, width = axis.bar(span.start, span.end)
    return Bar(span=span, x=x, width=width)


def _without_empty(facts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, text) for name, text in facts if text]
