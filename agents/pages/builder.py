"""Pages of the builder: the chat with it on one side, the agent's draft on the other."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django import forms
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
from agents.canvas.revisions import Author
from agents.drafts import DraftState, discard, open_changes, undo
from agents.limits import Limits
from agents.model_catalog import known_models, listed_models
from agents.models import Agent, AgentVersion, DraftChange, Environment
from agents.pages.canvas import context_of as canvas_context
from agents.providers.registry import PROVIDERS
from core.exceptions import Conflict, Fault, Forbidden, Invalid, InvalidFields
from sessions_app.builder import ask_builder, builder_session, find_editable_agent, preview_session
from sessions_app.models import Session
from sessions_app.pages.chat import chat_session_context
from tenants.access import Principal
from tenants.authentication import principal_of
from tools_app.pages.policies import url_of
from tools_app.pages.policy_matrix import by_category, changes, effective, sentence
from tools_app.policy.storage import (
    PolicyInput,
    agent_target,
    policy_columns,
    policy_fields,
    stored_policy,
)
from tools_app.publishing import draft_policy, publish
from tools_app.registry import Category

LIMITS = ("max_model_calls", "max_tool_calls", "max_seconds", "max_tokens_total")
PLAIN = (
    "name", "description", "system_prompt", "provider", "model", "temperature", "max_tokens",
    "effort",
)  # fmt: skip


class BuildForm(forms.Form):
    """The fields of a definition. The draft validates them."""

    revision = forms.IntegerField(widget=forms.HiddenInput)
    name = forms.CharField(max_length=80)
    description = forms.CharField(
        required=False,
        max_length=10_000,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="What the agent is for. Lines that begin with Try: are offered as first messages.",
    )
    system_prompt = forms.CharField(
        required=False,
        label="Instructions",
        widget=forms.Textarea(attrs={"rows": 10}),
        help_text="Who the agent is, how it works and how it answers.",
    )
    provider = forms.ChoiceField(
        choices=[(name, factory.label) for name, factory in PROVIDERS.items()]
    )
    model = forms.CharField(
        required=False,
        max_length=120,
        widget=forms.TextInput(attrs={"list": "models", "autocomplete": "off"}),
    )
    temperature = forms.FloatField(required=False, min_value=0, max_value=2)
    max_tokens = forms.IntegerField(
        required=False, min_value=1, max_value=10_000_000, label="Longest answer (tokens)"
    )
    effort = forms.ChoiceField(
        required=False,
        label="Thinking",
        choices=[("", "As the model does"), *AgentVersion.Effort.choices],
    )
    environment = forms.ChoiceField(required=False)

    def __init__(self, workspace_id: UUID, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        rows = Environment.objects.for_workspace(workspace_id).order_by("name")
        self.fields["environment"].choices = [  # type: ignore[attr-defined]
            ("", "The workspace's default"),
            *((str(pk), name) for pk, name in rows.values_list("pk", "name")),
        ]
        for name in LIMITS:
            bound = Limits.model_fields[name]
            label = name.removeprefix("max_").replace("_", " ").replace("tokens total", "tokens")
            self.fields[name] = forms.IntegerField(
                min_value=0,
                max_value=1_000_000_000,
                label=f"Maximum {label}",
                help_text=bound.description or "",
            )
        for name, field in self.fields.items():
            field.widget.attrs["data-part"] = "limits" if name in LIMITS else name

    def changes(self, drafted: DraftState) -> dict[str, Any]:
        """Return the fields that differ from the draft."""
        given, now = self.cleaned_data, drafted.fields
        values: dict[str, Any] = {name: given[name] for name in PLAIN}
        for name in ("description", "system_prompt"):
            # Browsers send line ends as two characters.
            values[name] = values[name].replace("\r\n", "\n")
        values["environment"] = given["environment"] or None
        values["limits"] = {**now["limits"], **{name: given[name] for name in LIMITS}}
        return {name: value for name, value in values.items() if value != now[name]}


def form_of(drafted: DraftState) -> BuildForm:
    fields = drafted.fields
    initial = {**fields, **fields["limits"], "revision": drafted.row.revision}
    return BuildForm(drafted.agent.workspace_id, initial=initial)


def model_names(workspace_id: UUID) -> list[str]:
    """Return the models to suggest: those that are known, and those of the workspace's servers."""
    return sorted({model.name for model in known_models()} | listed_models(workspace_id).keys())


MOST_CHANGES = 50
LONGEST_VALUE = 80
PARTS = {"system_prompt": "Instructions", "max_tokens": "Longest answer", "effort": "Thinking"}


@dataclass(frozen=True, kw_only=True)
class Change:
    """One row of the list of changes."""

    id: UUID
    part: str
    title: str
    before: str
    after: str
    author: str
    at: datetime


def changes_of(drafted: DraftState) -> list[Change]:
    return [
        Change(
            id=row.pk,
            part=row.part,
            title=PARTS.get(row.part, row.part.replace("_", " ").capitalize()),
            before=_describe(row.part, row.before),
            after=_after(row),
            author=_author_name(row),
            at=row.created_at,
        )
        for row in open_changes(drafted.agent)[:MOST_CHANGES]
    ]


def _author_name(row: DraftChange) -> str:
    if row.session_id:
        return "Builder"
    return row.created_by.display_name if row.created_by else "Unknown"


def _after(row: DraftChange) -> str:
    if row.part != DraftChange.POLICY:
        return _describe(row.part, row.after)
    nothing = policy_columns(PolicyInput(), "agent")
    lines = changes(row.before or nothing, row.after or nothing, row.workspace_id)
    return "; ".join(lines) or "Withdrawn"


def _describe(part: str, value: Any) -> str:
    if part == DraftChange.POLICY:
        return ""
    if part == DraftChange.CANVAS:
        return f"revision {value}" if value else "empty"
    if isinstance(value, dict):
        return ", ".join(f"{name.removeprefix('max_')} {one}" for name, one in value.items())[
            :LONGEST_VALUE
        ]
    text = " ".join(str("" if value is None else value).split())
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def policy_of(drafted: DraftState) -> dict[str, Any]:
    """Return the policy of the draft, its changes, and the decision for every tool."""
    place = agent_target(drafted.agent)
    words = draft_policy(drafted)
    policy = effective(place, words)
    stored = stored_policy(place)
    groups = {
        name: [
            (tool, policy[tool.name].decision, sentence(policy.explain(tool.name)))
            for tool in tools
        ]
        for name, tools in by_category(policy.tools).items()
        if name != Category.BUILDER
    }
    return {
        "profile": words["profile"],
        "lines": changes(policy_fields(stored), words, place.workspace_id),
        "groups": groups,
        "url": url_of(place),
    }


TABS = {"configure": "Configure", "canvas": "Canvas", "policy": "Policy", "preview": "Preview"}
#: Errors that a person can resolve on this page.
RESOLVABLE = (Conflict, Invalid, Forbidden)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def agent_build(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    """Render the builder, or send it a message from a form without a script."""
    principal, agent = _find(request, agent_id)
    if request.method == "POST":
        text = request.POST.get("text", "").replace("\r\n", "\n")
        if text.strip():
            _attempt(request, lambda: ask_builder(principal, text, agent))
        return redirect("agent_build", agent.pk)
    return _page(request, principal, agent)


@never_cache
@require_safe
def agent_build_side(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    """Render only the part beside the chat, for a page that was notified of a change."""
    _, agent = _find(request, agent_id)
    return render(request, "pages/builder/side.html", _side(request, agent))


@require_POST
def agent_build_save(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    """Change the draft by the form. A person whose save conflicts keeps their text."""
    principal, agent = _find(request, agent_id)
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
    principal, agent = _find(request, agent_id)
    try:
        change_id = UUID(request.POST.get("change", ""))
    except ValueError:
        raise Invalid("The form does not name a change.") from None
    _attempt(request, lambda: undo(agent, change_id, author=_author(principal)))
    return _back(request, agent)


@require_POST
def agent_build_publish(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    principal, agent = _find(request, agent_id)
    seen = request.POST.get("revision", "")
    revision = int(seen) if seen.isascii() and seen.isdigit() and len(seen) < 10 else None
    version = _attempt(request, lambda: publish(principal, agent, revision=revision))
    if version:
        messages.success(request, f"Published {version.name} v{version.number}.")
    return _back(request, agent)


@require_POST
def agent_build_discard(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    principal, agent = _find(request, agent_id)
    _attempt(request, lambda: discard(agent, author=_author(principal)))
    if agent.is_draft:
        return redirect("agents")
    return _back(request, agent)


@require_POST
def agent_build_preview(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    """Start a new session with the draft."""
    principal, agent = _find(request, agent_id)
    preview_session(principal, agent, fresh=True)
    return redirect(f"{reverse('agent_build', args=[agent.pk])}?tab=preview")


def _find(request: HttpRequest, agent_id: UUID) -> tuple[Principal, Agent]:
    """Return who acts and the agent, or raise if they may not build it."""
    principal = principal_of(request)
    return principal, find_editable_agent(principal, agent_id, "build")


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
    context |= {"chat": _chat(request, principal, session, "builder-", page)}
    if context["tab"] == "preview":
        preview = preview_session(principal, agent)
        answered = reverse("chat_session", args=[preview.pk])
        context |= {"preview": _chat(request, principal, preview, "preview-", answered)}
    return render(request, "pages/builder/build.html", context, status=status)


def _side(request: HttpRequest, agent: Agent, *, form: BuildForm | None = None) -> dict[str, Any]:
    """Return the context of everything but the chats. Each tab reads only what it shows."""
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
        context |= {"form": form or form_of(drafted), "models": model_names(agent.workspace_id)}
    elif tab == "canvas":
        context |= canvas_context(principal_of(request), agent)
    elif tab == "policy":
        context |= {"policy": policy_of(drafted)}
    return context


def _chat(
    request: HttpRequest, principal: Principal, session: Session, name: str, action: str
) -> SafeString:
    """Render a session as the chat page does, with separate element names."""
    title = "Builder" if name == "builder-" else "Preview of the draft"
    heading = format_html(
        '<p class="chat-head"><strong>{}</strong><span class="state" data-chat-status></span></p>',
        title,
    )
    context = chat_session_context(request, principal, session) | {
        "id_prefix": name,
        "bootstrap_id": f"{name}chat-bootstrap",
        "form_action": action,
        "chat_heading": heading,
        "chat_label": title,
    }
    html = render_to_string("pages/chat/conversation.html", context, request)
    return mark_safe(html)  # noqa: S308 - rendered by a template, which escapes


def _author(principal: Principal) -> Author:
    return Author(user_id=principal.user_id)


def _attempt(request: HttpRequest, act: Any) -> Any:
    """Run an action, and show its error on the page if it fails."""
    try:
        return act()
    except RESOLVABLE as fault:
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
