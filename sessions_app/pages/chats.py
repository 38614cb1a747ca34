"""Pages that keep chats in order: the list beside a chat, its options, export and shared links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.template.defaultfilters import pluralize
from django.urls import reverse
from django.utils import timezone
from django.utils.text import slugify
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from core.exceptions import Invalid, NotFound
from orchestrator.transfers import start_session_export
from sessions_app.log.transcript import TranscriptMessage
from sessions_app.log.transfer import SMALL_EVENTS, export_markdown, messages_until
from sessions_app.models import Session
from sessions_app.pages.filters import MAX_SEARCH_LENGTH
from sessions_app.pages.sessions import status_label
from sessions_app.search import find_matches
from sessions_app.sessions import (
    MAX_TITLE_LENGTH,
    archive_chat,
    delete_chat,
    find_session,
    find_shared,
    share_session,
    unshare_session,
)
from tenants.access import Principal, authorise
from tenants.authentication import principal_of
from tools_app.parts import SNIFFED, kind_of, load_content

#: Chats in the list, and how many of the workspace's newest sessions are looked through for them.
MOST_CHATS, NEWEST = 60, 500
MOST_PINNED = 30
MOST_FILED, MOST_FOLDERS, MOST_CHOSEN = 200, 100, 200
#: Messages on the page of a shared chat.
MOST_SHARED = 500


@dataclass(frozen=True, kw_only=True)
class ChatGroup:
    """The chats below one heading of the list."""

    label: str
    #: Each chat with the lamp and the label of its status.
    rows: list[tuple[Session, str, str]]
    is_folder: bool = False


def chat_groups(workspace_id: UUID, person_id: UUID | None) -> list[ChatGroup]:
    """Return the person's newest chats, and those that are pinned or in folders, in one query that
    reads a bounded number of rows.
    """
    known = Session.objects.for_workspace(workspace_id)
    newest = known.active().latest_first().values("pk")[:NEWEST]
    own = Session.objects.chats().filter(created_by_id=person_id)
    recent = own.filter(pk__in=newest).latest_first()[:MOST_CHATS]
    pinned = known.chats().filter(created_by_id=person_id, pinned_at__isnull=False)
    filed = known.chats().filter(created_by_id=person_id).exclude(folder="")
    shown = [
        rows.values("pk")
        for rows in (
            recent,
            pinned.latest_first()[:MOST_PINNED],
            filed.latest_first()[:MOST_FILED],
        )
    ]
    rows = Session.objects.filter(pk__in=shown[0].union(*shown[1:], all=True))
    return grouped(rows.latest_first())


def found_chats(workspace_id: UUID, person_id: UUID | None, text: str) -> list[ChatGroup]:
    """Return the person's chats whose title or messages contain the text, in any of their branches."""
    known = Session.objects.for_workspace(workspace_id)
    own = known.conversations().filter(created_by_id=person_id)
    found = Session.objects.filter(
        pk__in=list(find_matches(own.latest_first(), text, limit=MOST_CHATS))
    )
    same_chat = Q(pk__in=found.values("pk")) | Q(branch_root__in=found.values("branch_root"))
    return grouped(Session.objects.chats().filter(same_chat).latest_first())


def grouped(chats: Iterable[Session]) -> list[ChatGroup]:
    """Group chats as Pinned, by folder, and as Today, Yesterday and Older.

    The page's script uses the viewer's days.
    """
    today = timezone.now().astimezone(UTC).date()
    days: dict[str, list[Session]] = {"Today": [], "Yesterday": [], "Older": []}
    pinned: list[Session] = []
    folders: defaultdict[str, list[Session]] = defaultdict(list)
    for chat in chats:
        if chat.pinned_at:
            pinned.append(chat)
        elif chat.folder:
            folders[chat.folder].append(chat)
        else:
            days[_day(chat, today)].append(chat)
    by_name = sorted(folders.items(), key=lambda item: item[0].lower())
    return [
        *_group("Pinned", pinned),
        *(group for name, rows in by_name for group in _group(name, rows, is_folder=True)),
        *(group for label, rows in days.items() for group in _group(label, rows)),
    ]


def _group(label: str, chats: list[Session], *, is_folder: bool = False) -> list[ChatGroup]:
    rows = [(chat, *status_label(chat)) for chat in chats]
    return [ChatGroup(label=label, rows=rows, is_folder=is_folder)] if rows else []


def _day(chat: Session, today: date) -> str:
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


class FolderForm(forms.Form):
    folder = forms.CharField(max_length=60, required=False)


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
        "may_delete": session.created_by_id == principal.user_id or principal.may("admin"),
        "folders": folders_of(session.workspace_id, principal.user_id),
    }
    part = "options_panel" if "panel" in request.GET else "options"
    return render(request, f"pages/chat/{part}.html", context)


def folders_of(workspace_id: UUID, person_id: UUID | None) -> list[str]:
    """Return the names of the person's folders."""
    own = Session.objects.for_workspace(workspace_id).chats().filter(created_by_id=person_id)
    named = own.exclude(folder="").order_by("folder").values_list("folder", flat=True).distinct()
    return list(named[:MOST_FOLDERS])


def _change(request: HttpRequest, principal: Principal, session: Session) -> HttpResponse:
    branches = Session.objects.branches(session)
    match request.POST.get("do"):
        case "rename":
            form = TitleForm(request.POST)
            if form.is_valid():
                branches.update(title=form.cleaned_data["title"])
            else:
                messages.error(request, str(form.errors["title"][0]))
        case "pin":
            branches.update(pinned_at=timezone.now())
        case "unpin":
            branches.update(pinned_at=None)
        case "move":
            move_chats([session], request.POST)
        case "archive":
            archive_chat(session, principal.user_id)
            return redirect("chat")
        case "delete":
            delete_chat(principal, session)
            messages.success(request, "The chat was deleted.")
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


def move_chats(chats: Iterable[Session], fields: QueryDict) -> None:
    """Move chats to the folder that a form names. An empty name takes them out of theirs."""
    form = FolderForm(fields)
    if not form.is_valid():
        raise Invalid(str(form.errors["folder"][0]))
    for chat in chats:
        Session.objects.branches(chat).update(folder=form.cleaned_data["folder"])


@require_POST
def chat_bulk(request: HttpRequest) -> HttpResponse:
    """Archive, delete or move the chats that a form names."""
    principal = principal_of(request)
    workspace_id = authorise(principal, "run")
    chats = _named_chats(request, principal, workspace_id)
    done = f"{len(chats)} chat{pluralize(len(chats))}"
    with transaction.atomic():
        match request.POST.get("do"):
            case "archive":
                for chat in chats:
                    archive_chat(chat, principal.user_id)
                messages.success(request, f"{done} archived.")
            case "delete":
                for chat in chats:
                    delete_chat(principal, chat)
                messages.success(request, f"{done} deleted.")
            case "move":
                move_chats(chats, request.POST)
            case _:
                raise Invalid("The form names no change.")
    return redirect("chat")


def _named_chats(request: HttpRequest, principal: Principal, workspace_id: UUID) -> list[Session]:
    """Return the person's own chats that the form names. Others are left out."""
    try:
        ids = [UUID(value) for value in request.POST.getlist("chat")[:MOST_CHOSEN]]
    except ValueError:
        raise Invalid("The form names no chats.") from None
    own = Session.objects.for_workspace(workspace_id).chats()
    return list(own.filter(pk__in=ids, created_by_id=principal.user_id))


@require_safe
def chat_part(request: HttpRequest, session_id: UUID, digest: str) -> HttpResponse:
    """Show an image of a chat, or download another file that a model was shown."""
    session = find_session(principal_of(request), session_id)
    content = load_content(session.workspace_id, digest)
    if content is None:
        raise NotFound
    media_type = kind_of(content[:SNIFFED]) or "application/octet-stream"
    response = HttpResponse(content, content_type=media_type)
    if not media_type.startswith("image/"):
        response["Content-Disposition"] = "attachment"
    # Nobody but its sender has checked what it holds.
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response["X-Content-Type-Options"] = "nosniff"
    # What is stored under a hash never changes.
    response["Cache-Control"] = "private, max-age=86400, immutable"
    return response


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
