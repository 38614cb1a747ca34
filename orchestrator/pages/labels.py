"""How statuses, durations and results of workflows are shown to people."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import JSONObject, Left
from django.urls import reverse
from django.utils import timezone
from django.utils.text import Truncator

from orchestrator.canvas.plan import CANVAS
from orchestrator.engine.definition import registry
from orchestrator.models import Workflow

#: The lamp's class and the label of each status.
STATUSES = {
    "running": ("is-running", "Running"),
    "waiting_approval": ("is-waiting", "Needs you"),
    "waiting": ("is-waiting", "Waiting"),
    "queued": ("", "Queued"),
    "paused": ("", "Paused"),
    "complete": ("is-done", "Complete"),
    "errored": ("is-failed", "Failed"),
    "terminated": ("", "Terminated"),
}
STEP_STATUSES = {
    "running": ("is-running", "Running"),
    "retrying": ("is-waiting", "Trying again"),
    "waiting": ("is-waiting", "Waiting"),
    "complete": ("is-done", "Done"),
    "errored": ("is-failed", "Failed"),
}
#: The label of an attempt's outcome.
ATTEMPTS = {
    **{status: label.lower() for status, (_, label) in STEP_STATUSES.items()},
    "timed_out": "took too long",
    "lost": "its worker was lost",
}
KINDS = {
    "do": "",
    "sleep": "Sleep",
    "wait_for_event": "Waits for an event",
    "wait_for_approval": "Asks a person",
    "run_session": "Agent",
    "spawn": "Workflow",
    "rollback": "Undo",
}
MAX_SHOWN = 4_000


def duration(time: timedelta) -> str:
    """Return a duration that is read at a glance."""
    seconds = max(time.total_seconds(), 0)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def as_text(value: Any) -> str:
    """Return a result as text: strings as they are, the rest as JSON, truncated for a page."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


#: A value that is nested deeper, or longer, is shown as JSON.
MAX_DEPTH, MAX_PARTS = 4, 60
#: A longer text, or one of several lines, is shown as prose.
MAX_PLAIN = 100
#: Texts under these names are shown as code.
CODE_NAMES = {"output", "stdout", "stderr", "command", "code", "diff"}
#: The keys that an object in a list is labelled by.
NAMES = ("name", "title", "agent", "path", "key")
#: Ids that link to a page.
PAGES = {"session_id": "chat_session", "workflow_id": "workflow"}


@dataclass(frozen=True, kw_only=True)
class ResultPart:
    """A value under its label: one of plain, prose, code and parts is set."""

    label: str = ""
    plain: str = ""
    prose: str = ""
    code: str = ""
    url: str = ""
    parts: tuple[ResultPart, ...] = ()

    @property
    def is_block(self) -> bool:
        """Whether it needs the whole width."""
        return bool(self.prose or self.code or self.parts)


def readable(value: Any, *, label: str = "", key: str = "", depth: int = 0) -> ResultPart:
    """Return a result as parts that a page shows: by the names of its values."""
    if isinstance(value, str):
        return _text(value, label=label, key=key)
    if not isinstance(value, dict | list) or not value:
        return ResultPart(label=label, plain=_scalar(value))
    if isinstance(value, list) and (row := ", ".join(map(str, value))) and _is_plain(value, row):
        return ResultPart(label=label, plain=row)
    if depth == MAX_DEPTH or len(value) > MAX_PARTS:
        return ResultPart(label=label, code=as_text(value))
    is_command = isinstance(value, dict) and "exit_code" in value
    parts = tuple(
        readable(one, label=_label(name), key="output" if is_command else name, depth=depth + 1)
        for name, one in (value.items() if isinstance(value, dict) else _named(value))
        if one not in (None, "", [], {})
    )
    return (
        ResultPart(label=label, parts=parts) if parts else ResultPart(label=label, plain="Nothing")
    )


def _is_plain(values: list[Any], row: str) -> bool:
    scalars = all(isinstance(one, str | int | float) for one in values)
    return scalars and len(row) <= MAX_PLAIN and "\n" not in row


def _text(value: str, *, label: str, key: str) -> ResultPart:
    if page := PAGES.get(key):
        try:
            return ResultPart(label=label, plain=value, url=reverse(page, args=[UUID(value)]))
        except ValueError:
            return ResultPart(label=label, plain=value)
    if len(value) <= MAX_PLAIN and "\n" not in value.strip():
        return ResultPart(label=label, plain=value.strip())
    if key in CODE_NAMES:
        return ResultPart(label=label, code=as_text(value))
    return ResultPart(label=label, prose=as_text(value))


def _named(values: list[Any]) -> Iterable[tuple[str, Any]]:
    """Yield the items of a list, each with its own name or its number."""
    for number, value in enumerate(values, start=1):
        fields = value if isinstance(value, dict) else {}
        key = next((key for key in NAMES if fields.get(key) and isinstance(fields[key], str)), None)
        if key is None:
            yield str(number), value
        else:
            # The name is not repeated in the value; but the value must not be empty.
            yield fields[key], {k: v for k, v in fields.items() if k != key} or fields[key]


def _label(name: str) -> str:
    label = name.replace("_", " ").strip()
    return label[:1].upper() + label[1:]


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "Yes" if value else "No"
    return "Nothing" if value in (None, [], {}) else str(value)


def summary_of(workflow: Workflow, params: dict[str, Any]) -> dict[str, Any]:
    """Return what the list and the page show of a workflow: its subject, status and duration."""
    lamp, label = STATUSES[workflow.status]
    ended = workflow.finished_at or timezone.now()
    return {
        "workflow": workflow,
        "subject": subject_of(workflow, params),
        "lamp": lamp,
        "status": "Given up" if workflow.is_dead else label,
        "duration": duration(ended - workflow.started_at) if workflow.started_at else "",
    }


#: Characters read of a param, and shown of a subject.
MAX_READ, MAX_SUBJECT = 400, 120


def subject_params() -> JSONObject:
    """Return the beginnings of the params that describe a workflow, without reading the rest."""
    names = sorted({name for made in registry.values() for name in made.about})
    return JSONObject(**{name: Left(KeyTextTransform(name, "params"), MAX_READ) for name in names})


def subject_of(workflow: Workflow, params: dict[str, Any]) -> str:
    """Return what a workflow is about, on one line; empty when its params do not say."""
    if workflow.name == CANVAS:
        return f"Canvas of {workflow.agent}" if workflow.agent else ""
    made = registry.get((workflow.name, workflow.version))
    found = next((params[name] for name in made.about if params.get(name)), "") if made else ""
    return Truncator(" ".join(str(found)[:MAX_READ].split())).chars(MAX_SUBJECT)
