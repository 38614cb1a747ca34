"""The builder: the talk with it on one side, what it builds on the other."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from agents import drafts
from agents.canvas import Author
from agents.models import Agent
from agents.undoing import discard, undo
from config.faults import Conflict, Fault, Forbidden, Invalid, InvalidFields
from sessions_app.building.sessions import (
    ask_builder,
    builder_session,
    find_built,
    preview_session,
)
from sessions_app.models import Session
from sessions_app.pages.build_form import BuildForm, form_of, model_names
from sessions_app.pages.build_parts import canvas_of, changes_of, policy_of
from sessions_app.pages.chat import conversation
from tenants.access import Principal
from tenants.authentication import principal_of
from tools_app.publishing import publish

TABS = {"configure": "Configure", "canvas": "Canvas", "policy": "Policy", "preview": "Preview"}
#: What a person can do something about on this page.
TOLD = (Conflict, Invalid, Forbidden)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def agent_build(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    """The whole page; a form without a script sends the builder a message here."""
    principal = principal_of(request)
    agent = find_built(principal, agent_id, "build")
    if request.method == "POST":
        text = request.POST.get("text", "").replace("\r\n", "\n")
        if text.strip():
            _attempt(request, lambda: ask_builder(principal, text, agent))
        return redirect("agent_build", agent.pk)
    return _page(request, principal, agent)


@never_cache
@require_safe
def agent_build_side(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    """The part beside the chat alone, for the page that has heard of a change."""
    principal = principal_of(request)
    agent = find_built(principal, agent_id, "build")
    return render(request, "pages/builder/side.html", _side(request, agent))


@require_POST
def agent_build_save(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    """Change the draft as the form says. Of two who save one wins, and the other keeps the text."""
    principal = principal_of(request)
    agent = find_built(principal, agent_id, "build")
    form = BuildForm(agent.workspace_id, request.POST)
    if form.is_valid():
        try:
            seen = form.cleaned_data["revision"]
            given = form.changes(drafts.read(agent))
            drafts.change(agent, given, author=_author(principal), revision=seen)
            return redirect("agent_build", agent.pk)
        except InvalidFields as fault:
            for error in fault.errors:
                name = str(error["field"]).split(".")[-1]
                form.add_error(name if name in form.fields else None, str(error["message"]))
        except Conflict as fault:
            form.add_error(None, fault.detail)
    return _page(request, principal, agent, form=form, status=400)


@require_POST
def agent_build_undo(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    principal = principal_of(request)
    agent = find_built(principal, agent_id, "build")
    try:
        change_id = UUID(request.POST.get("change", ""))
    except ValueError:
        raise Invalid("The form names no change.") from None
    _attempt(request, lambda: undo(agent, change_id, author=_author(principal)))
    return _back(request, agent)


@require_POST
def agent_build_publish(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    principal = principal_of(request)
    agent = find_built(principal, agent_id, "build")
    seen = request.POST.get("revision", "")
    revision = int(seen) if seen.isascii() and seen.isdigit() and len(seen) < 10 else None
    version = _attempt(request, lambda: publish(principal, agent, revision=revision))
    if version:
        messages.success(request, f"Published {version.name} v{version.number}.")
    return _back(request, agent)


@require_POST
def agent_build_discard(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    principal = principal_of(request)
    agent = find_built(principal, agent_id, "build")
    _attempt(request, lambda: discard(agent, author=_author(principal)))
    if agent.is_draft:
        return redirect("agents")
    return _back(request, agent)


@require_POST
def agent_build_preview(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    """Begin a new conversation with the draft."""
    principal = principal_of(request)
    agent = find_built(principal, agent_id, "build")
    preview_session(principal, agent, fresh=True)
    return redirect(f"{reverse('agent_build', args=[agent.pk])}?tab=preview")


def _page(
    request: HttpRequest,
    principal: Principal,
    agent: Agent,
    *,
    form: BuildForm | None = None,
    status: int = 200,
) -> HttpResponse:
    session = builder_session(principal, agent)
    page = reverse("agent_build", args=[agent.pk])
    context = _side(request, agent, form=form)
    context |= {"talk": _talk(request, principal, session, "builder-", page)}
    if context["tab"] == "preview":
        preview = preview_session(principal, agent)
        answered = reverse("chat_session", args=[preview.pk])
        context |= {"preview": _talk(request, principal, preview, "preview-", answered)}
    return render(request, "pages/builder/build.html", context, status=status)


def _side(request: HttpRequest, agent: Agent, *, form: BuildForm | None = None) -> dict[str, Any]:
    """Everything but the talks. Each tab reads only what it shows."""
    chosen = request.GET.get("tab", "")
    tab = chosen if chosen in TABS else "configure"
    drafted = drafts.read(agent)
    context: dict[str, Any] = {
        "agent": agent,
        "drafted": drafted,
        "fields": drafted.fields,
        "tab": tab,
        "on_phone": chosen or ("configure" if form else "chat"),
        "tabs": TABS,
        "changes": changes_of(drafted),
        "can_publish": agent.is_draft or not drafted.row.is_empty,
    }
    if tab == "configure":
        context |= {"form": form or form_of(drafted), "models": model_names()}
    elif tab == "canvas":
        context |= canvas_of(drafted)
    elif tab == "policy":
        context |= {"policy": policy_of(drafted)}
    return context


def _talk(
    request: HttpRequest, principal: Principal, session: Session, name: str, action: str
) -> SafeString:
    """A conversation as the chat page writes it, with names of its own."""
    words = "Builder" if name == "builder-" else "Preview of the draft"
    head = format_html(
        '<p class="talk-head"><strong>{}</strong><span class="state" data-chat-status></span></p>',
        words,
    )
    context = conversation(request, principal, session) | {
        "talk_name": name,
        "talk_opening": f"{name}chat-opening",
        "talk_action": action,
        "talk_head": head,
        "talk_label": words,
    }
    html = render_to_string("pages/chat/talk.html", context, request)
    return mark_safe(html)  # noqa: S308 - written by our own template, which escapes


def _author(principal: Principal) -> Author:
    return Author(user_id=principal.user_id)


def _attempt(request: HttpRequest, act: Any) -> Any:
    """Do it, or say on the page why it was not done."""
    try:
        return act()
    except TOLD as fault:
        messages.error(request, fault.detail)
    except Fault as fault:
        if fault.status >= 500:
            raise
        messages.error(request, fault.detail)
    return None


def _back(request: HttpRequest, agent: Agent) -> HttpResponse:
    tab = request.POST.get("tab", "")
    page = reverse("agent_build", args=[agent.pk])
    return redirect(f"{page}?tab={tab}" if tab in TABS else page)
