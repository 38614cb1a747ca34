"""The page of one session, with a tab for each view of it."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import quote
from uuid import UUID

import orjson
from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from agents.pages.agents import card_of
from core.exceptions import Conflict, Invalid, NotFound
from core.throttling import accepts_body
from sessions_app.api.files import FORM_BYTES
from sessions_app.exceptions import SessionEnded
from sessions_app.live.frames import event_body
from sessions_app.models import Session, SessionEvent
from sessions_app.pages.context import build_context
from sessions_app.pages.filters import STATUSES
from sessions_app.pages.labels import dollars, long_duration, thousands
from sessions_app.pages.sessions import session_facts, status_label
from sessions_app.pages.timeline import build_timeline
from sessions_app.pages.transcript import (
    Window,
    build_transcript,
    newest_window,
    waiting_runs,
)
from sessions_app.pages.transcript_lines import TranscriptLine
from sessions_app.resources.files import MAX_FILE_BYTES, MAX_LISTED, list_files, store_file
from sessions_app.sessions import find_session, fork
from sessions_app.subagents.spawns import TreeNode, session_tree
from sessions_app.tool_labels import main_argument
from tenants.access import Principal
from tenants.authentication import principal_of
from tools_app.exceptions import FileTooLarge

E = SessionEvent.Type
TABS = [
    ("session_page", "Transcript"),
    ("session_timeline", "Timeline"),
    ("session_window", "Context"),
    ("session_branches", "Tree"),
    ("session_folder", "Files"),
    ("session_outcome", "Outcome"),
    ("session_log", "Events"),
    ("session_replay", "Replay"),
]


def render_tab(
    request: HttpRequest, principal: Principal, session: Session, tab: str, **extra: object
) -> HttpResponse:
    """Render one tab within the frame that all tabs share."""
    lamp, label = status_label(session)
    facts = session_facts(session)
    context = {
        "session": session,
        "lamp": lamp,
        "status": label,
        "facts": facts,
        "agent": card_of(facts.version),
        "tabs": [
            {"name": title, "url": reverse(name, args=[session.pk]), "is_on": name == tab}
            for name, title in TABS
        ],
        "may_fork": principal.may("run"),
        **extra,
    }
    return render(request, f"pages/session/{tab}.html", context)


@never_cache
@require_safe
def session_page(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Show the transcript, read-only."""
    principal = principal_of(request)
    session = find_session(principal, session_id)
    window = newest_window(session, before=_number(request, "before"))
    return render_tab(
        request,
        principal,
        session,
        "session_page",
        window=window,
        lines=build_transcript(window, queue=waiting_runs(session)),
        may_run=False,
    )


@never_cache
@require_safe
def session_timeline(request: HttpRequest, session_id: UUID) -> HttpResponse:
    principal = principal_of(request)
    session = find_session(principal, session_id)
    run_id, before = _uuid(request, "run"), _uuid(request, "before")
    timeline = build_timeline(session, run_id=run_id, before=before)
    return render_tab(request, principal, session, "session_timeline", timeline=timeline)


@never_cache
@require_safe
def session_window(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Show what the model would see now."""
    principal = principal_of(request)
    session = find_session(principal, session_id)
    return render_tab(request, principal, session, "session_window", window=build_context(session))


@never_cache
@require_safe
def session_branches(request: HttpRequest, session_id: UUID) -> HttpResponse:
    principal = principal_of(request)
    session = find_session(principal, session_id)
    return render_tab(request, principal, session, "session_branches", tree=build_tree(session))


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@accepts_body(MAX_FILE_BYTES + FORM_BYTES)
def session_folder(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Show the session's files and attached resources, and take uploads."""
    principal = principal_of(request)
    session = find_session(principal, session_id, "run" if request.method == "POST" else "read")
    path = request.GET.get("path", "").replace("\0", "")
    if request.method == "POST":
        _store_upload(request, session, path)
        return redirect(request.get_full_path())
    return render_tab(
        request,
        principal,
        session,
        "session_folder",
        files=list_folder(session, path),
        resources=session.resources.all(),
        may_run=principal.may("run") and session.archived_at is None,
    )


def _store_upload(request: HttpRequest, session: Session, folder: str) -> None:
    """Store the uploaded file in the folder that is shown."""
    file = request.FILES.get("file")
    if not isinstance(file, UploadedFile):
        messages.error(request, "Choose a file first.")
        return
    name = PurePosixPath(file.name or "").name
    try:
        store_file(session, str(PurePosixPath(folder) / name), file.chunks())
        messages.success(request, f"{name} uploaded.")
    except (Conflict, FileTooLarge, Invalid, SessionEnded) as fault:
        messages.error(request, fault.detail)


@never_cache
@require_safe
def session_log(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Show the stored events, newest first."""
    principal = principal_of(request)
    session = find_session(principal, session_id)
    type = request.GET.get("type", "")
    type = type if type in EVENT_TYPES else ""
    page = list_events(session, before=_number(request, "before"), type=type)
    return render_tab(
        request, principal, session, "session_log", page=page, type=type, types=EVENT_TYPES
    )


@never_cache
@require_safe
def session_replay(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Show one event and the transcript up to it. The script fetches only the part that changes."""
    principal = principal_of(request)
    session = find_session(principal, session_id)
    moment = replay_moment(session, _number(request, "at"))
    if request.headers.get("X-Part") == "moment":
        part = {"session": session, "agent": card_of(session.agent_version), "moment": moment}
        return render(request, "pages/session/moment.html", part)
    return render_tab(request, principal, session, "session_replay", moment=moment)


@require_POST
def session_fork(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Fork the session at an event and open the new session in the chat."""
    principal = principal_of(request)
    session = find_session(principal, session_id, "run")
    try:
        at_seq = int(request.POST.get("at_seq", ""))
        forked = fork(session, at_seq, principal.user_id)
    except ValueError:
        raise Invalid("The form names no event.") from None
    return redirect("chat_session", forked.pk)


def _number(request: HttpRequest, name: str) -> int | None:
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _uuid(request: HttpRequest, name: str) -> UUID | None:
    try:
        return UUID(request.GET.get(name, ""))
    except ValueError:
        return None


# The tree of sub-agents

MAX_INDENT = 5
TASK_LAMPS = {
    "running": ("is-running", "Working"),
    "completed": ("is-done", "Done"),
    "failed": ("is-failed", "Failed"),
    "cancelled": ("", "Stopped"),
}


@dataclass(frozen=True, kw_only=True)
class BranchRow:
    branch: TreeNode
    lamp: str
    state: str
    tokens: str
    cost: str
    took: str
    indent: str


@dataclass(frozen=True, kw_only=True)
class Tree:
    branches: list[BranchRow]
    #: The totals of the session and everything below it.
    tokens: str
    cost: str
    approvals: int


def build_tree(session: Session) -> Tree:
    """Return the sessions below this one, parents before their children, in one query."""
    branches = _in_tree_order(session_tree(session.pk), session)
    tokens = sum(branch.input_tokens + branch.output_tokens for branch in branches)
    return Tree(
        branches=[_branch_row(branch) for branch in branches],
        tokens=thousands(tokens + session.input_tokens + session.output_tokens),
        cost=dollars(sum((branch.cost for branch in branches), session.cost)),
        approvals=sum(branch.pending_approvals for branch in branches),
    )


def _in_tree_order(branches: list[TreeNode], session: Session) -> list[TreeNode]:
    """Sort branches so that each follows its parent directly."""
    children: dict[object, list[TreeNode]] = {}
    for branch in branches:
        children.setdefault(branch.parent_id, []).append(branch)
    ordered: list[TreeNode] = []
    stack = children.get(session.pk, [])[::-1]
    while stack:
        branch = stack.pop()
        ordered.append(branch)
        stack += children.get(branch.id, [])[::-1]
    return ordered


def _branch_row(branch: TreeNode) -> BranchRow:
    lamp, state = TASK_LAMPS.get(branch.task_status or "") or STATUSES.get(
        branch.status, ("", branch.status)
    )
    if branch.pending_approvals or branch.status == "requires_action":
        lamp, state = "is-waiting", "Needs you"
    ended = branch.finished_at
    return BranchRow(
        branch=branch,
        lamp=lamp,
        state=state,
        tokens=thousands(branch.input_tokens + branch.output_tokens),
        cost=dollars(branch.cost),
        took=long_duration(ended - branch.created_at) if ended else "",
        indent=f"depth-{min(branch.depth, MAX_INDENT) - 1}",
    )


# Files


@dataclass(frozen=True, kw_only=True)
class FileRow:
    name: str
    kind: str
    size: str
    target: str
    #: The address that opens a folder or downloads a file. Empty for links, which are not followed.
    url: str


@dataclass(frozen=True, kw_only=True)
class Folder:
    #: The breadcrumbs: each part of the path with its address.
    way: list[tuple[str, str]]
    rows: list[FileRow]
    is_full: bool


def list_folder(session: Session, path: str) -> Folder:
    """Return the entries of a folder. A session without files has an empty top folder."""
    folder = PurePosixPath(path)
    try:
        entries = list_files(session, path)
    except NotFound:
        if folder.parts:
            raise
        entries = []
    rows = []
    for entry in entries:
        inner = str(folder / entry.name)
        url = ""
        if entry.kind == "folder":
            url = f"?path={quote(inner)}"
        elif entry.kind == "file":
            url = reverse("session-file", args=[session.pk, inner])
        size = filesizeformat(entry.size) if entry.kind == "file" else ""
        rows.append(
            FileRow(name=entry.name, kind=entry.kind, size=size, target=entry.target, url=url)
        )
    parts = [part for part in folder.parts if part != "."]
    way = [(name, f"?path={quote('/'.join(parts[: n + 1]))}") for n, name in enumerate(parts)]
    return Folder(way=way, rows=rows, is_full=len(entries) >= MAX_LISTED)


# Events

EVENT_TYPES = list(SessionEvent.Type.values)
EVENTS_PER_PAGE = 50
#: Characters of an event that a page shows. The API returns the whole event.
MAX_EVENT_LENGTH = 20_000
DIGEST_LENGTH = 160


@dataclass(frozen=True, kw_only=True)
class EventRow:
    """A stored event as the page shows it."""

    event: SessionEvent
    digest: str
    text: str
    is_clipped: bool

    @property
    def family(self) -> str:
        """Return `user`, `agent` or `session`."""
        return self.event.type.partition(".")[0]


@dataclass(frozen=True, kw_only=True)
class EventPage:
    rows: list[EventRow]
    #: The seq before which the next page begins, if there is one.
    older: int | None


def list_events(session: Session, *, before: int | None, type: str) -> EventPage:
    """Return a page of events, newest first, in one query."""
    rows = session.events.order_by("-seq")
    if before is not None:
        rows = rows.filter(seq__lt=before)
    if type:
        rows = rows.filter(type=type)
    events = list(rows[: EVENTS_PER_PAGE + 1])
    older = events[EVENTS_PER_PAGE - 1].seq if len(events) > EVENTS_PER_PAGE else None
    return EventPage(rows=[_event_row(event) for event in events[:EVENTS_PER_PAGE]], older=older)


def _event_row(event: SessionEvent) -> EventRow:
    whole = orjson.dumps(event_body(event), option=orjson.OPT_INDENT_2, default=str).decode()
    return EventRow(
        event=event,
        digest=_digest(event),
        text=whole[:MAX_EVENT_LENGTH],
        is_clipped=len(whole) > MAX_EVENT_LENGTH,
    )


def _digest(event: SessionEvent) -> str:
    """Return the most telling text of an event, in one line."""
    payload = event.payload
    text = (
        payload.get("text")
        or payload.get("message")
        or payload.get("result")
        or payload.get("error")
    )
    if not text and "name" in payload:
        name = payload["name"]
        text = f"{name} {payload.get('state') or main_argument(name, payload.get('input') or {})}"
    if not text and "to" in payload:
        text = f"{payload.get('from', '')} → {payload['to']}"
    text = text or payload.get("stop_reason") or payload.get("mount_path") or payload.get("note")
    line = " ".join(str(text or "")[: DIGEST_LENGTH * 4].split())
    return line if len(line) <= DIGEST_LENGTH else f"{line[: DIGEST_LENGTH - 1]}…"


# Replay

#: Events of the transcript that the replay shows, up to the current one.
REPLAYED_EVENTS = 40


@dataclass(frozen=True, kw_only=True)
class Moment:
    """An event of the replay, the transcript up to it, and the events around it."""

    at: int
    last: int
    current: EventRow | None
    #: The time between the event before and this one.
    since: str
    lines: list[TranscriptLine]

    @property
    def earlier(self) -> int:
        return max(1, self.at - 1)

    @property
    def later(self) -> int:
        return min(self.last, self.at + 1)


def replay_moment(session: Session, at: int | None) -> Moment:
    """Return the event at a seq, the first one by default, in a constant number of queries."""
    seq = min(max(1, at or 1), max(1, session.last_seq))
    rows = session.events.select_related("created_by").filter(
        seq__gt=seq - REPLAYED_EVENTS, seq__lte=seq
    )
    events = list(rows.order_by("seq"))
    past = copy(session)
    past.status = _status_after(events, session.status if seq >= session.last_seq else "running")
    lines = build_transcript(Window(session=past, events=events)) if events else []
    current = events[-1] if events else None
    before = events[-2] if len(events) > 1 else None
    since = long_duration(current.created_at - before.created_at) if current and before else ""
    return Moment(
        at=seq,
        last=session.last_seq,
        current=_event_row(current) if current else None,
        since=since,
        lines=lines,
    )


def _status_after(events: list[SessionEvent], default: str) -> str:
    """Return the status of the session after these events, if one of them says it."""
    for event in reversed(events):
        if event.type == E.STATUS_IDLE:
            waits = event.payload.get("stop_reason") == "requires_action"
            return "requires_action" if waits else "idle"
        if event.type == E.STATUS_CHANGED:
            return str(event.payload.get("to", "running"))
    return default
