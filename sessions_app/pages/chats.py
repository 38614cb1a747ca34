"""Pages that keep chats in order: the list beside a chat, its options, export and shared links."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.text import slugify
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from core.exceptions import Invalid
from orchestrator.transfers import start_session_export
from sessions_app.log.transcript import TranscriptMessage
from sessions_app.log.transfer import SMALL_EVENTS, export_markdown, messages_until
from sessions_app.models import Session
from sessions_app.pages.filters import MAX_SEARCH_LENGTH
from sessions_app.pages.sessions import status_label
from sessions_app.search import find_matches
from sessions_app.sessions import (
    MAX_TITLE_LENGTH,
    archive,
    change_session,
    find_session,
    find_shared,
    share_session,
    unshare_session,
)
from tenants.access import Principal, authorise
from tenants.authentication import principal_of

#: Chats in the list, and how many of the workspace's newest sessions are looked through for them.
MOST_CHATS, NEWEST = 60, 500
MOST_PINNED = 30
#: Messages on the page of a shared chat.
MOST_SHARED = 500


@dataclass(frozen=True, kw_only=True)
class ChatGroup:
    """The chats below one heading of the list."""

    label: str
    #: Each chat with the lamp and the label of its status.
    rows: list[tuple[Session, str, str]]


def chat_groups(workspace_id: UUID, person_id: UUID | None) -> list[ChatGroup]:
    """Return the person's pinned and newest chats, in one query that reads a bounded number of rows."""
    known = Session.objects.for_workspace(workspace_id)
    newest = known.active().latest_first().values("pk")[:NEWEST]
    own = Session.objects.chats().filter(created_by_id=person_id)
    recent = own.filter(pk__in=newest).latest_first()[:MOST_CHATS]
    pinned = known.chats().filter(created_by_id=person_id, pinned_at__isnull=False)
    shown = [rows.values("pk") for rows in (recent, pinned.latest_first()[:MOST_PINNED])]
    rows = Session.objects.filter(pk__in=shown[0].union(shown[1], all=True))
    return grouped(rows.latest_first())


def found_chats(workspace_id: UUID, person_id: UUID | None, text: str) -> list[ChatGroup]:
    """Return the person's chats whose title or messages contain the text."""
    own = Session.objects.for_workspace(workspace_id).chats().filter(created_by_id=person_id)
    ids = list(find_matches(own.latest_first(), text, limit=MOST_CHATS))
    return grouped(Session.objects.filter(pk__in=ids).latest_first())


def grouped(chats: Iterable[Session]) -> list[ChatGroup]:
    """Group chats as Pinned, Today, Yesterday and Older. The page's script uses the viewer's days."""
    today = timezone.now().astimezone(UTC).date()
    groups: dict[str, list[Session]] = {"Pinned": [], "Today": [], "Yesterday": [], "Older": []}
    for chat in chats:
        groups[_label(chat, today)].append(chat)
    return [
        ChatGroup(label=label, rows=[(chat, *status_label(chat)) for chat in chats])
        for label, chats in groups.items()
        if chats
    ]


def _label(chat: Session, today: date) -> str:
    if chat.pinned_at:
        return "Pinned"
    day = chat.active_at.astimezone(UTC).date()
    if day >= today:
        return "Today"
    return "Yesterday" if day == today - timedelta(days=1) else "Older"


def list_context(principal: Principal, workspace_id: UUID, current: UUID | None) -> dict[str, Any]:
    """Return what the list beside a chat shows."""
    groups = chat_groups(workspace_id, principal.user_id)
    return {"chat_groups": groups, "current_chat": current}


@never_cache
@require_safe
def chat_list(request: HttpRequest) -> HttpResponse:
    """Return the rows of the list that contain the searched text, or all of them."""
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
    text = request.GET.get("q", "").strip()[:MAX_SEARCH_LENGTH]
    find = partial(found_chats, text=text) if text else chat_groups
    context = {"chat_groups": find(workspace_id, principal.user_id), "searched": text}
    return render(request, "pages/chat/list_rows.html", context)


class TitleForm(forms.Form):
    title = forms.CharField(
        max_length=MAX_TITLE_LENGTH, error_messages={"required": "Enter a title."}
    )


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def chat_options(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Show what can be done with a chat, and do it. With `panel` only the part for a dialog."""
    principal = principal_of(request)
    is_change = request.method == "POST"
    session = find_session(principal, session_id, "run" if is_change else "read")
    if is_change:
        return _change(request, principal, session)
    link = reverse("chat_shared", args=[session.share_token]) if session.share_token else ""
    context = {
        "session": session,
        "link": request.build_absolute_uri(link) if link else "",
        "is_stale": bool(link) and session.shared_seq < session.last_seq,
        "may_run": principal.may("run"),
        "may_share": settings.SHARE_LINKS,
    }
    part = "options_panel" if "panel" in request.GET else "options"
    return render(request, f"pages/chat/{part}.html", context)


def _change(request: HttpRequest, principal: Principal, session: Session) -> HttpResponse:
    match request.POST.get("do"):
        case "rename":
            form = TitleForm(request.POST)
            if form.is_valid():
                change_session(session, title=form.cleaned_data["title"])
            else:
                messages.error(request, str(form.errors["title"][0]))
        case "pin":
            Session.objects.filter(pk=session.pk).update(pinned_at=timezone.now())
        case "unpin":
            Session.objects.filter(pk=session.pk).update(pinned_at=None)
        case "archive":
            archive(session, principal.user_id)
            return redirect("chat")
        case "share":
            share_session(session)
            return redirect("chat_options", session.pk)
        case "unshare":
            unshare_session(session)
            return redirect("chat_options", session.pk)
        case _:
            raise Invalid("The form names no change.")
    return redirect("chat_session", session.pk)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def chat_export(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Download a chat as Markdown, or start a workflow that prepares a long one."""
    principal = principal_of(request)
    session = find_session(principal, session_id)
    if request.method == "POST":
        return redirect("workflow", start_session_export(principal, session).pk)
    if session.last_seq > SMALL_EVENTS:
        return render(request, "pages/chat/export.html", {"session": session})
    name = slugify(session.title)[:60] or "chat"
    text = "".join(export_markdown(session))
    response = HttpResponse(text, content_type="text/markdown; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}.md"'
    return response


@never_cache
@require_safe
def chat_shared(request: HttpRequest, token: str) -> HttpResponse:
    """Show a shared chat to anyone who has its link: only what was written, and no names."""
    session = find_shared(token)
    shown: list[TranscriptMessage] = []
    for message in messages_until(session, session.shared_seq):
        shown.append(message)
        if len(shown) == MOST_SHARED:
            break
    context = {"session": session, "said": shown, "agent": session.agent_version.name}
    response = render(request, "pages/chat/shared.html", context)
    response["X-Robots-Tag"] = "noindex"
    # The address is the secret.
    response["Referrer-Policy"] = "no-referrer"
    return response
