"""The inbox: what agents told people, a list and a reading pane."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from tenants import markup
from tenants.access import authorise
from tenants.authentication import principal_of
from tenants.inbox import find_item, inside, items_of, mark, mark_all
from tenants.models import InboxItem
from tenants.pages.rail import url_of

SHOWN = 100
SYMBOLS = {
    "message": "bot",
    "notice": "info",
    "approval": "square-check",
    "warning": "triangle-alert",
}


@never_cache
@require_safe
def inbox(request: HttpRequest) -> HttpResponse:
    authorise(principal_of(request), "read")
    return _page(request, None)


@never_cache
@require_safe
def inbox_item(request: HttpRequest, item_id: UUID) -> HttpResponse:
    """Opening an item is reading it."""
    principal = principal_of(request)
    authorise(principal, "read")
    item = find_item(principal, item_id)
    if principal.user and request.method == "GET":
        mark(principal, item, read=True)
    return _page(request, item)


def _page(request: HttpRequest, opened: InboxItem | None) -> HttpResponse:
    principal = principal_of(request)
    unread_only = "unread" in request.GET
    items = items_of(principal).order_by("-created_at", "-pk")
    if unread_only:
        items = items.filter(is_read=False)
    rows = list(items[: SHOWN + 1])
    context = {
        "rows": [
            (item, SYMBOLS.get(item.kind, "info"), markup.excerpt(item.body))
            for item in rows[:SHOWN]
        ],
        "more": len(rows) > SHOWN,
        "shown": SHOWN,
        "unread_only": unread_only,
        "has_unread": any(not item.is_read for item in rows),
        "opened": opened,
        "symbol": SYMBOLS.get(opened.kind, "info") if opened else "",
        "text": markup.render(opened.body) if opened else "",
        "link": inside(opened.link) if opened else "",
        "session_url": _session_url(opened),
    }
    return render(request, "pages/inbox/inbox.html", context)


def _session_url(item: InboxItem | None) -> str:
    """Where the conversation is that it came from, when that page exists."""
    chat = url_of("chat")
    return f"{chat}{item.session_id}/" if item and item.session_id and chat else ""


@require_POST
def inbox_unread(request: HttpRequest, item_id: UUID) -> HttpResponse:
    principal = principal_of(request)
    authorise(principal, "read")
    mark(principal, find_item(principal, item_id), read=False)
    return redirect("inbox")


@require_POST
def inbox_read_all(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    authorise(principal, "read")
    mark_all(principal)
    return redirect("inbox")
