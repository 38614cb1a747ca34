"""The page of one session: what was said, when, with what, and how it came to be."""

from __future__ import annotations

from pathlib import PurePosixPath
from uuid import UUID

from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from config.faults import Conflict, FileTooLarge, Invalid, SessionEnded
from sessions_app.doors import find_session
from sessions_app.models import Session
from sessions_app.pages.branches import show_tree
from sessions_app.pages.cards import card_of
from sessions_app.pages.facts import facts_of
from sessions_app.pages.files import show_files
from sessions_app.pages.found import status_of
from sessions_app.pages.parts import context_of
from sessions_app.pages.raw import TYPES, read_raw
from sessions_app.pages.replaying import moment_at
from sessions_app.pages.spans import draw_timeline
from sessions_app.pages.telling import tell
from sessions_app.pages.window import newest
from sessions_app.sessions import fork
from sessions_app.uploads import store_file
from tenants.access import Principal
from tenants.authentication import principal_of

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


def show(
    request: HttpRequest, principal: Principal, session: Session, tab: str, **extra: object
) -> HttpResponse:
    """One tab in the frame that all of them share."""
    lamp, word = status_of(session)
    facts = facts_of(session)
    context = {
        "session": session,
        "lamp": lamp,
        "status": word,
        "facts": facts,
        "card": card_of(facts.version),
        "tabs": [
            {"name": words, "url": reverse(name, args=[session.pk]), "is_on": name == tab}
            for name, words in TABS
        ],
        "may_fork": principal.may("run"),
        **extra,
    }
    return render(request, f"pages/session/{tab}.html", context)


@never_cache
@require_safe
def session_page(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """The conversation, to be read."""
    principal = principal_of(request)
    session = find_session(principal, session_id)
    window = newest(session, before=number_in(request, "before"))
    return show(
        request,
        principal,
        session,
        "session_page",
        window=window,
        lines=tell(window),
        may_run=False,
    )


@never_cache
@require_safe
def session_timeline(request: HttpRequest, session_id: UUID) -> HttpResponse:
    principal = principal_of(request)
    session = find_session(principal, session_id)
    timeline = draw_timeline(session, run_id=id_in(request, "run"), before=id_in(request, "before"))
    return show(request, principal, session, "session_timeline", timeline=timeline)


@never_cache
@require_safe
def session_window(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """What the model would see now."""
    principal = principal_of(request)
    session = find_session(principal, session_id)
    return show(request, principal, session, "session_window", window=context_of(session))


@never_cache
@require_safe
def session_branches(request: HttpRequest, session_id: UUID) -> HttpResponse:
    principal = principal_of(request)
    session = find_session(principal, session_id)
    return show(request, principal, session, "session_branches", tree=show_tree(session))


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def session_folder(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """The files of the session's workspace, and what was attached to it."""
    principal = principal_of(request)
    session = find_session(principal, session_id, "run" if request.method == "POST" else "read")
    path = request.GET.get("path", "").replace("\0", "")
    if request.method == "POST":
        take_file(request, session, path)
        return redirect(request.get_full_path())
    return show(
        request,
        principal,
        session,
        "session_folder",
        files=show_files(session, path),
        resources=session.resources.all(),
        may_run=principal.may("run") and session.archived_at is None,
    )


def take_file(request: HttpRequest, session: Session, folder: str) -> None:
    """Put an uploaded file into the folder that is shown, and say what became of it."""
    file = request.FILES.get("file")
    if not isinstance(file, UploadedFile):
        messages.error(request, "Choose a file first.")
        return
    name = PurePosixPath(file.name or "").name
    try:
        store_file(session, str(PurePosixPath(folder) / name), file.chunks())
        messages.success(request, f"{name} is in the session's files.")
    except (Conflict, FileTooLarge, Invalid, SessionEnded) as fault:
        messages.error(request, fault.detail)


@never_cache
@require_safe
def session_log(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """The events as they are stored, the newest first."""
    principal = principal_of(request)
    session = find_session(principal, session_id)
    asked = request.GET.get("type", "")
    type = asked if asked in TYPES else ""
    page = read_raw(session, before=number_in(request, "before"), type=type)
    return show(request, principal, session, "session_log", page=page, type=type, types=TYPES)


@never_cache
@require_safe
def session_replay(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """One event after the other. The island asks only for the part that changes."""
    principal = principal_of(request)
    session = find_session(principal, session_id)
    moment = moment_at(session, number_in(request, "at"))
    if request.headers.get("X-Part") == "moment":
        part = {"session": session, "card": card_of(session.agent_version), "moment": moment}
        return render(request, "pages/session/moment.html", part)
    return show(request, principal, session, "session_replay", moment=moment)


@require_POST
def session_fork(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """A new session with the past up to an event, opened in the chat."""
    principal = principal_of(request)
    session = find_session(principal, session_id, "run")
    try:
        at_seq = int(request.POST.get("at_seq", ""))
        forked = fork(session, at_seq, principal.user_id)
    except ValueError:
        raise Invalid("The form names no event.") from None
    return redirect("chat_session", forked.pk)


def number_in(request: HttpRequest, name: str) -> int | None:
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def id_in(request: HttpRequest, name: str) -> UUID | None:
    try:
        return UUID(request.GET.get(name, ""))
    except ValueError:
        return None
