"""Pages of the chat: choose an agent, write to it and follow its work.

Every button also works as a plain form, for browsers without scripts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from agents.models import AgentVersion
from agents.pages.agents import card_of, cards, recent_sessions
from core.exceptions import Conflict, Fault, Invalid, NotFound
from core.ids import uuid7
from core.single_flight import SingleFlight
from sessions_app import runtime
from sessions_app.accept import accept_event
from sessions_app.branches import may_branch, show_branch, variants_of
from sessions_app.exceptions import NothingToAnswer, SessionEnded
from sessions_app.feedback import own_ratings
from sessions_app.lanes.queued_messages import QueuedRun, remove_run
from sessions_app.live.reader import SessionLog, parse_cursor
from sessions_app.log.payloads import MAX_TEXT_LENGTH
from sessions_app.models import Approval, Run, Session, SessionEvent
from sessions_app.pages.chats import list_context
from sessions_app.pages.labels import dollars, thousands
from sessions_app.pages.models import parse_choice
from sessions_app.pages.sessions import status_label
from sessions_app.pages.transcript import (
    Window,
    build_transcript,
    fold,
    live_window,
    mark_variants,
    newest_window,
    waiting_runs,
    waits_for_children,
)
from sessions_app.pages.transcript_lines import (
    BUSY,
    AgentLine,
    File,
    PersonLine,
    ThinkingLine,
    TranscriptLine,
    question_of,
)
from sessions_app.resources.files import MAX_FILE_BYTES, store_file
from sessions_app.sessions import find_session, retry_run, use_newest_version
from tenants.access import Principal, authorise
from tenants.authentication import principal_of

E = SessionEvent.Type
#: The lamp and the label of each status in a chat.
STATUS_LABELS = {
    "idle": ("", "Idle"),
    "running": ("is-running", "Working"),
    "rescheduling": ("is-waiting", "Retrying"),
    "requires_action": ("is-waiting", "Needs you"),
}
#: Fields of a session that a conversation shows and that can change.
REFRESHED = ["status", "title", "input_tokens", "output_tokens", "cost", "archived_at"]
#: What to do with a message that is sent while the agent works, and its label.
BUSY_CHOICES = [
    (Run.OnBusy.FOLLOWUP, "After this answer"),
    (Run.OnBusy.STEER, "Into this answer"),
    (Run.OnBusy.INTERRUPT, "Stop and send"),
]


class MessageForm(forms.Form):
    text = forms.CharField(
        label="Message",
        max_length=MAX_TEXT_LENGTH,
        strip=False,
        error_messages={"required": "Write a message first."},
    )
    on_busy = forms.ChoiceField(choices=BUSY_CHOICES, required=False)
    #: Distinguishes one form that is sent twice from two forms.
    once = forms.UUIDField()

    def clean_text(self) -> str:
        text: str = self.cleaned_data["text"]
        if not text.strip():
            raise ValidationError("Write a message first.")
        # Browsers send a line break as two characters.
        return text.replace("\r\n", "\n")

    def clean_on_busy(self) -> str:
        return self.cleaned_data["on_busy"] or Run.OnBusy.FOLLOWUP


class FirstMessageForm(MessageForm):
    """The first message of a session, which also names the agent."""

    agent = forms.UUIDField()
    #: As in `openai/gpt-4o`. Empty: the agent's own.
    model = forms.CharField(max_length=141, required=False)


#: The decision and the scope of each button of an approval.
ANSWERS = {
    "once": ("allow", "once"),
    "session": ("allow", "session"),
    "always": ("allow", "always"),
    "deny": ("deny", "once"),
    "answer": ("answer", "once"),
}


class DecisionForm(forms.Form):
    """The answer to an approval: the pressed button, a note and perhaps changed arguments."""

    answer = forms.ChoiceField(choices=[(name, name) for name in ANSWERS], required=False)
    decision = forms.ChoiceField(choices=[("allow", "Allow"), ("deny", "Deny")], required=False)
    note = forms.CharField(max_length=2000, required=False)
    input = forms.CharField(required=False, max_length=1_000_000)

    def clean(self) -> dict[str, Any]:
        fields = super().clean() or {}
        pressed, decision = fields.pop("answer", ""), fields.get("decision", "")
        if not pressed and not decision and not self.errors:
            raise ValidationError("Choose whether to allow this call.")
        fields["decision"], fields["scope"] = ANSWERS.get(pressed, (decision, "once"))
        return fields

    def clean_input(self) -> dict[str, Any] | None:
        text: str = self.cleaned_data["input"]
        if not text.strip():
            return None
        try:
            arguments = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValidationError(f"The arguments are not valid JSON: {error}.") from None
        if not isinstance(arguments, dict):
            raise ValidationError("The arguments must be a JSON object.")
        return arguments


def with_values(request: HttpRequest, answer: dict[str, Any], approval: Approval) -> dict[str, Any]:
    """Add the values of the form's fields to the answer to a question; store files that came with it."""
    if answer["decision"] != "answer" or approval.execution is None or approval.session is None:
        return answer
    form = question_of(approval.execution.name, approval.input)
    values: dict[str, Any] = {}
    for field in form.fields if form else ():
        key = f"value-{field.name}"
        if field.kind == "several":
            values[field.name] = request.POST.getlist(key)
        elif isinstance(file := request.FILES.get(key), UploadedFile):
            path = f"uploads/{PurePosixPath(file.name or 'file').name}"
            store_file(approval.session, path, file.chunks())
            values[field.name] = path
        else:
            values[field.name] = request.POST.get(key)
    return {**answer, "values": values}


class AnswerForm(DecisionForm):
    """The answer to the approval of a tool call in a session."""

    tool_use_id = forms.CharField(max_length=64)


#: Icons that the chat's script uses for the queue and for attached files.
ICONS = [
    "corner-down-left",
    "file-text",
    "folder",
    "grip-vertical",
    "paperclip",
    "pencil",
    "square",
    "x",
]
TRAY_ICONS = ["paperclip", "x"]
#: Faults of the message itself. The page shows them beside the typed text.
MESSAGE_FAULTS = (Invalid, Conflict, SessionEnded)
#: Faults of a button. The conversation shows them as a message.
ACTION_FAULTS = (Conflict, Invalid, NotFound, NothingToAnswer, SessionEnded)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def chat(request: HttpRequest) -> HttpResponse:
    """Show the start page, where a person chooses an agent and writes the first message."""
    principal = principal_of(request)
    workspace_id = authorise(principal, "run" if request.method == "POST" else "read")
    error = ""
    if request.method == "POST":
        form = FirstMessageForm(request.POST)
        if form.is_valid():
            try:
                return start_session(principal, form)
            except MESSAGE_FAULTS as fault:
                error = fault.detail
        error = error or first_error(form)
    recent = recent_sessions(workspace_id)
    chosen = _chosen_agent(request) or (recent[0].agent_id if recent else None)
    context = {
        "cards": cards(workspace_id, chosen),
        "icons": TRAY_ICONS,
        "largest_file": MAX_FILE_BYTES,
        "recent": [(session, *status_label(session)) for session in recent],
        **list_context(principal, workspace_id, None),
        "may_run": principal.may("run"),
        "once": uuid7(),
        "typed": request.POST.get("text", ""),
        "model": request.POST.get("model", ""),
        "error": error,
    }
    return render(request, "pages/chat/start.html", context)


def _chosen_agent(request: HttpRequest) -> UUID | None:
    try:
        return UUID(request.POST.get("agent") or request.GET.get("agent") or "")
    except ValueError:
        return None


def start_session(principal: Principal, form: FirstMessageForm) -> HttpResponse:
    """Create the session and send the message. Sending the form twice finds the same session."""
    session, _ = runtime.get_or_create_session(
        form.cleaned_data["agent"],
        f"chat:{form_digest(principal, form)}",
        principal=principal,
        model=parse_choice(form.cleaned_data["model"]),
    )
    send_message(principal, session.pk, form)
    return redirect("chat_session", session.pk)


def send_message(principal: Principal, session_id: UUID, form: MessageForm) -> None:
    accept_event(
        principal,
        session_id,
        type=E.USER_MESSAGE,
        payload={"text": form.cleaned_data["text"]},
        on_busy=form.cleaned_data["on_busy"],
        dedupe_key=f"page:{form_digest(principal, form)}",
    )


def form_digest(principal: Principal, form: MessageForm) -> str:
    """Return a key that is equal only for the same form, sent twice by the same person."""
    sender, typed = principal.user and principal.user.pk, form.cleaned_data
    return sha256(f"{sender}:{typed['once']}:{typed['text']}".encode()).hexdigest()[:48]


def first_error(form: forms.Form) -> str:
    return str(next(iter(form.errors.values()))[0]) if form.errors else ""


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def chat_session(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Show the newest part of a conversation, which the chat's script then keeps live."""
    principal = principal_of(request)
    session = find_session(principal, session_id, "run" if request.method == "POST" else "read")
    error, status = "", 200
    if request.method == "POST":
        form = MessageForm(request.POST)
        try:
            if form.is_valid():
                with transaction.atomic():  # The page is also rendered after a refusal.
                    send_message(principal, session.pk, form)
                return redirect("chat_session", session.pk)
            error, status = first_error(form), 400
        except MESSAGE_FAULTS as fault:
            error, status = fault.detail, fault.status
    context = chat_session_context(request, principal, session) | {"error": error}
    context |= list_context(principal, session.workspace_id, session.pk)
    return render(request, "pages/chat/session.html", context, status=status)


@never_cache
@require_safe
def chat_lines(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Return what a chat shows now, with the HTML of the lines that the page does not have yet.

    `from` is the seq of the first event that the page shows, and `have` lists the versions of its
    lines. `before` asks for an earlier part of the conversation instead. With `read_only`, no line
    has buttons.
    """
    principal = principal_of(request)
    session = find_session(principal, session_id)
    may_run = _may_run(principal, session) and "read_only" not in request.GET
    before = _seq(request, "before")
    if before is not None:
        earlier = read_earlier(session, before)
        html = _render_lines(request, principal, session, earlier.lines, may_run)
        return JsonResponse({"first_seq": earlier.window.first_seq, "html": html})
    conversation = read_conversation(session, first_seq=_seq(request, "from"))
    known = set(request.GET.get("have", "").split("."))
    shown = zip(conversation.lines, conversation.versions, strict=True)
    fresh = [line for line, version in shown if version not in known]
    html = _render_lines(request, principal, session, fresh, may_run)
    keys = [line.key for line in conversation.lines]
    return JsonResponse({**conversation_state(conversation), "keys": keys, "html": html})


def _render_lines(
    request: HttpRequest,
    principal: Principal,
    session: Session,
    lines: list[TranscriptLine],
    may_run: bool,
) -> str:
    context = {
        "session": session,
        "agent": card_of(session.agent_version),
        "lines": lines,
        "is_live": True,
        "may_run": may_run,
        "may_admin": principal.may("admin"),
    }
    return render_to_string("pages/chat/lines.html", context, request)


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """What a chat shows of a session."""

    window: Window
    lines: list[TranscriptLine]
    #: The queue above the composer.
    queue: list[QueuedRun]

    @cached_property
    def versions(self) -> list[str]:
        """The version of each line, computed once for all viewers that share the conversation."""
        return [line.version for line in self.lines]

    @property
    def session(self) -> Session:
        return self.window.session


#: Every stored frame makes all viewers of a session read it at the same time.
_conversations: SingleFlight[tuple[UUID, int | None, bool], Conversation] = SingleFlight()


def read_conversation(
    session: Session, *, first_seq: int | None = None, with_draft: bool = False
) -> Conversation:
    """Read the newest part of a session, or what came since `first_seq`.

    Viewers that ask at the same time share the result, so nothing in it depends on the viewer.
    """
    return _conversations.read(
        (session.pk, first_seq, with_draft),
        lambda: _read_conversation(session, first_seq, with_draft),
    )


def _read_conversation(session: Session, first_seq: int | None, with_draft: bool) -> Conversation:
    """Read a conversation in a number of queries that does not depend on its length."""
    window = live_window(session, first_seq) if first_seq else newest_window(session)
    # Read after the events, so the status is never older than they are.
    session.refresh_from_db(fields=REFRESHED)
    queue = waiting_runs(session)
    draft = SessionLog(session_id=session.pk).answer() if with_draft else None
    lines = fold_calls(session, build_transcript(window, queue=queue, draft=draft))
    mark_variants(window, lines, variants_of(session))
    return Conversation(window=window, lines=lines, queue=queue)


def read_earlier(session: Session, before: int) -> Conversation:
    """Read the part of a session before an event. None of its messages waits in the queue."""
    window = newest_window(session, before=before)
    lines = fold_calls(session, build_transcript(window))
    mark_variants(window, lines, variants_of(session))
    return Conversation(window=window, lines=lines, queue=[])


def fold_calls(session: Session, lines: list[TranscriptLine]) -> list[TranscriptLine]:
    return fold(lines, is_idle=session.status == Session.Status.IDLE)


def conversation_state(conversation: Conversation) -> dict[str, Any]:
    """Return what the chat's script shows besides the lines."""
    session, window = conversation.session, conversation.window
    lamp, label = chat_status(conversation)
    return {
        "first_seq": window.first_seq,
        "last_seq": window.last_seq,
        "status": session.status,
        "status_lamp": lamp,
        "status_label": label,
        "run_id": window.run_id,
        "title": session.title,
        "tokens": thousands(session.input_tokens + session.output_tokens),
        "usage": _usage(session),
        "queue": [{"run_id": run.run_id, "text": run.text} for run in conversation.queue],
    }


def chat_status(conversation: Conversation) -> tuple[str, str]:
    """Return the lamp and the label of the session's status."""
    session = conversation.session
    if session.archived_at:
        return "", "Archived"
    if waits_for_children(session.status, conversation.lines):
        return "is-running", "Sub-agent working"
    return STATUS_LABELS.get(session.status, ("", "Archived"))


def _usage(session: Session) -> str:
    tokens = session.input_tokens + session.output_tokens
    parts = [f"{thousands(tokens)} tokens used"] if tokens else []
    return " · ".join([*parts, dollars(session.cost)] if session.cost else parts)


def chat_session_context(
    request: HttpRequest, principal: Principal, session: Session
) -> dict[str, object]:
    """Return the template context of a conversation, in a constant number of queries."""
    # One query for the version of this chat and for the newest one.
    versions = AgentVersion.objects.select_related("agent__current")
    session.agent_version = versions.get(pk=session.agent_version_id)
    before = _seq(request, "before")
    if before is None:
        conversation = read_conversation(session, with_draft=True)
    else:
        conversation = read_earlier(session, before)
    now = timezone.now()
    return {
        "session": session,
        "agent": card_of(session.agent_version),
        "version": session.agent_version,
        "model": session.model or session.agent_version.model,
        "newest": _newer_version(session),
        "lines": conversation.lines,
        "window": conversation.window,
        "queue": conversation.queue,
        "status_label": chat_status(conversation),
        "bootstrap": bootstrap(conversation, principal),
        "bootstrap_id": "chat-bootstrap",
        "blank_draft": AgentLine(key="", seq=None, at=now, text="", is_draft=True),
        "blank_thinking": ThinkingLine(key="", seq=None, at=now, text="", is_draft=True),
        "blank_outgoing": PersonLine(key="", seq=None, at=now, text="", receipt="sending"),
        "blank_file": File(name="", path="", url=""),
        "is_live": before is None,
        "may_run": _may_run(principal, session),
        "may_start_chats": principal.may("run"),
        "may_admin": principal.may("admin"),
        "is_busy": session.status in BUSY,
        "busy_choices": BUSY_CHOICES,
        "icons": ICONS,
        "tokens": thousands(session.input_tokens + session.output_tokens),
        "once": uuid7(),
        "typed": request.POST.get("text", ""),
    }


def _newer_version(session: Session) -> AgentVersion | None:
    """Return the agent's newest version if this chat runs an older published one."""
    newest = session.agent_version.agent.current
    is_older = newest and session.agent_version.number and newest.pk != session.agent_version_id
    return newest if is_older and not session.about_id else None


def bootstrap(conversation: Conversation, principal: Principal) -> dict[str, Any]:
    """Return everything that the chat's script needs to continue from the rendered page."""
    session = conversation.session
    return {
        **conversation_state(conversation),
        "session_id": str(session.pk),
        "may_run": _may_run(principal, session),
        "may_branch": may_branch(session),
        "ratings": own_ratings(session.pk, principal.user_id),
        "lines": reverse("chat_lines", args=[session.pk]),
        "api": reverse("session-detail", args=[session.pk]),
        "runs": reverse("run-list"),
        "approvals": reverse("approval-list"),
        "executions": reverse("execution-list"),
        "files": reverse("chat_file", args=[session.pk, "x"]).removesuffix("x"),
        "largest_file": MAX_FILE_BYTES,
    }


def _may_run(principal: Principal, session: Session) -> bool:
    return principal.may("run") and session.archived_at is None


def _seq(request: HttpRequest, name: str) -> int | None:
    """Return the seq that a parameter names, or None if it names none."""
    try:
        return parse_cursor(request.GET[name]) if name in request.GET else None
    except Fault:
        return None


def redirect_after(
    request: HttpRequest, session_id: UUID, action: Callable[[], object]
) -> HttpResponse:
    """Run the action of a button and show the conversation again, with the fault if it failed."""
    try:
        action()
    except ACTION_FAULTS as fault:
        messages.error(request, fault.detail)
    return redirect("chat_session", session_id)


@require_POST
def chat_stop(request: HttpRequest, session_id: UUID) -> HttpResponse:
    principal = principal_of(request)
    find_session(principal, session_id, "run")
    accept_event(principal, session_id, type=E.USER_INTERRUPT, payload={})
    return redirect("chat_session", session_id)


@require_POST
def chat_answer(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Allow or deny a tool call that waits for approval."""
    principal = principal_of(request)
    find_session(principal, session_id, "run")
    form = AnswerForm(request.POST)

    def answer() -> None:
        if not form.is_valid():
            raise Invalid(first_error(form))
        payload = form.cleaned_data
        asked = Approval.objects.select_related("execution", "session").filter(
            session_id=session_id, execution__tool_use_id=payload["tool_use_id"]
        )
        if approval := asked.first():
            payload = with_values(request, payload, approval)
        accept_event(principal, session_id, type=E.USER_TOOL_CONFIRMATION, payload=payload)

    return redirect_after(request, session_id, answer)


@require_POST
def chat_newest(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Go on with the newest version of the agent, from the next message on."""
    session = find_session(principal_of(request), session_id, "run")
    return redirect_after(request, session_id, lambda: use_newest_version(session))


@require_POST
def chat_show(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Show this branch of a chat from now on, at the message where it begins."""
    session = find_session(principal_of(request), session_id, "run")
    show_branch(session)
    at = request.POST.get("at", "")
    address = reverse("chat_session", args=[session.pk])
    return redirect(f"{address}#message-{at}" if at.isdecimal() else address)


@require_POST
def chat_retry(request: HttpRequest, session_id: UUID) -> HttpResponse:
    session = find_session(principal_of(request), session_id, "run")
    return redirect_after(request, session_id, lambda: retry_run(_posted_run(request, session)))


@require_POST
def chat_withdraw(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Withdraw a queued message."""
    principal = principal_of(request)
    session = find_session(principal, session_id, "run")

    def withdraw() -> None:
        remove_run(session, _posted_run(request, session).pk, principal.user_id)

    return redirect_after(request, session_id, withdraw)


def _posted_run(request: HttpRequest, session: Session) -> Run:
    try:
        run_id = UUID(request.POST.get("run", ""))
    except ValueError:
        raise Invalid("The form names no run.") from None
    run = Run.objects.filter(session=session, pk=run_id).first()
    if run is None:
        raise NotFound
    return run
