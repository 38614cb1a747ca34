"""The chat: pick an agent, talk to it, see what it does."""

from __future__ import annotations

from hashlib import sha256
from uuid import UUID

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from config.faults import Conflict, Fault, Invalid, SessionEnded
from sessions_app import runtime
from sessions_app.doors import accept_event, find_session
from sessions_app.models import Session, SessionEvent
from sessions_app.pages.cards import card_of, cards, recent_sessions
from sessions_app.pages.folding import fold
from sessions_app.pages.forms import MANNERS, FirstMessageForm, MessageForm
from sessions_app.pages.found import status_of
from sessions_app.pages.opening import opening
from sessions_app.pages.telling import BUSY, tell
from sessions_app.pages.window import newest
from sessions_app.pages.words import thousands
from sessions_app.queue import list_queue
from sessions_app.reader import SessionLog, cursor_in
from sessions_app.uploads import LARGEST_FILE
from tenants.access import Principal, authorise
from tenants.authentication import principal_of
from tenants.ids import uuid7

#: What the island draws with.
ICONS = [
    "arrow-down",
    "bot",
    "chevron-right",
    "copy",
    "corner-down-left",
    "git-branch",
    "grip-vertical",
    "paperclip",
    "pencil",
    "rotate-ccw",
    "shield-check",
    "square",
    "x",
]
TRAY_ICONS = ["paperclip", "x"]
#: Faults that say what is wrong with what was typed, so the page comes back with it.
TYPED_WRONG = (Invalid, Conflict, SessionEnded)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def chat(request: HttpRequest) -> HttpResponse:
    """Choose an agent and say the first thing."""
    principal = principal_of(request)
    workspace_id = authorise(principal, "run" if request.method == "POST" else "read")
    error = ""
    if request.method == "POST":
        form = FirstMessageForm(request.POST)
        if form.is_valid():
            try:
                return begin(principal, form)
            except TYPED_WRONG as fault:
                error = fault.detail
        error = error or first_error(form)
    recent = recent_sessions(workspace_id)
    chosen = chosen_agent(request) or (recent[0].agent_id if recent else None)
    context = {
        "cards": cards(workspace_id, chosen),
        "icons": TRAY_ICONS,
        "largest_file": LARGEST_FILE,
        "recent": [(session, *status_of(session)) for session in recent],
        "may_run": principal.may("run"),
        "once": uuid7(),
        "typed": request.POST.get("text", ""),
        "error": error,
    }
    return render(request, "pages/chat/start.html", context)


def chosen_agent(request: HttpRequest) -> UUID | None:
    try:
        return UUID(request.POST.get("agent") or request.GET.get("agent") or "")
    except ValueError:
        return None


def begin(principal: Principal, form: FirstMessageForm) -> HttpResponse:
    """Make the session and send the message. The same form again finds the same session."""
    session, _ = runtime.get_or_create_session(
        form.cleaned_data["agent"], f"chat:{mark_of(principal, form)}", principal=principal
    )
    send(principal, session.pk, form)
    return redirect("chat_session", session.pk)


def send(principal: Principal, session_id: UUID, form: MessageForm) -> None:
    accept_event(
        principal,
        session_id,
        type=SessionEvent.Type.USER_MESSAGE,
        payload={"text": form.cleaned_data["text"]},
        on_busy=form.cleaned_data["on_busy"],
        dedupe_key=f"page:{mark_of(principal, form)}",
    )


def mark_of(principal: Principal, form: MessageForm) -> str:
    """The same for a form that is sent twice, and for nothing else."""
    sender, typed = principal.user and principal.user.pk, form.cleaned_data
    return sha256(f"{sender}:{typed['once']}:{typed['text']}".encode()).hexdigest()[:48]


def first_error(form: MessageForm) -> str:
    return str(next(iter(form.errors.values()))[0]) if form.errors else ""


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def chat_session(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """One conversation: its newest part as HTML, which the island then keeps live."""
    principal = principal_of(request)
    session = find_session(principal, session_id, "run" if request.method == "POST" else "read")
    error, status = "", 200
    if request.method == "POST":
        form = MessageForm(request.POST)
        try:
            if form.is_valid():
                with transaction.atomic():  # The page is written after a refusal, too.
                    send(principal, session.pk, form)
                return redirect("chat_session", session.pk)
            error, status = first_error(form), 400
        except TYPED_WRONG as fault:
            error, status = fault.detail, fault.status
    context = conversation(request, principal, session) | {"error": error}
    return render(request, "pages/chat/session.html", context, status=status)


def conversation(request: HttpRequest, principal: Principal, session: Session) -> dict[str, object]:
    """What the page of one session shows. The number of queries does not grow with the session."""
    before = place_in(request)
    window = newest(session, before=before)
    # Read after the events, so that it is never older than they are.
    session.refresh_from_db(fields=["status"])
    draft = None if before else SessionLog(session_id=session.pk).answer()
    queue = [] if before else list_queue(session)
    return {
        "session": session,
        "card": card_of(session.agent_version),
        "version": session.agent_version,
        "lines": fold(tell(window, draft), is_idle=session.status == Session.Status.IDLE),
        "window": window,
        "queue": queue if session.status in BUSY else [],
        "opening": opening(window, draft, queue, principal),
        "is_live": before is None,
        "may_run": principal.may("run") and session.archived_at is None,
        "may_talk": principal.may("run"),
        "may_admin": principal.may("admin"),
        "is_busy": session.status in BUSY,
        "manners": MANNERS,
        "icons": ICONS,
        "tokens": thousands(session.input_tokens + session.output_tokens),
        "once": uuid7(),
        "typed": request.POST.get("text", ""),
    }


def place_in(request: HttpRequest) -> int | None:
    """The seq before which an earlier part of the conversation was asked for."""
    if "before" not in request.GET:
        return None
    try:
        return cursor_in(request.GET["before"])
    except Fault:
        return None
