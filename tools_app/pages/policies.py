"""The policy editor: shows a policy and its effect, and reviews a change before it is saved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any
from uuid import UUID

from django.apps import apps
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from agents.models import Agent, Environment
from core.exceptions import Conflict, Forbidden, Invalid, NotFound
from tenants.access import Principal, authorise
from tenants.authentication import principal_of
from tools_app.models import ToolPolicy
from tools_app.pages.policy_matrix import (
    by_category,
    changes,
    current_choice,
    differences,
    effective,
    extra_rules,
    fields_from_form,
    first_line,
    narrows,
    number_from_form,
    sentence,
)
from tools_app.policy.evaluation import EffectivePolicy, Explanation
from tools_app.policy.rules import PROFILES, LayerName
from tools_app.policy.storage import (
    GUARDED,
    PolicyTarget,
    change_policy,
    check_rules,
    fields_at_revision,
    find_target,
    loosened_tools,
    policy_fields,
    policy_history,
    revert_policy,
    stored_policy,
    to_layer,
)
from tools_app.registry import Category
from tools_app.workspace_tools import tools_of_workspace

MOST_AGENTS = 200
MOST_SESSIONS = 30
TITLES = {
    "workspace": "Workspace ceiling",
    "agent": "Agent",
    "environment": "Environment",
    "session": "Session",
}
DESCRIPTIONS = {
    "workspace": "Applies to every agent of this workspace. No other policy can allow more.",
    "agent": "What this agent may use, within the workspace ceiling.",
    "environment": "Applies to every run in this environment, whatever the agent.",
    "session": "Applies to this session only, on top of all other policies.",
}


@dataclass(frozen=True, kw_only=True)
class Option:
    url: str
    name: str
    has_rules: bool
    is_current: bool


def url_of(target: PolicyTarget) -> str:
    if target.layer == "workspace":
        return reverse("policies")
    return reverse(f"policy_of_{target.layer}", args=[target.subject_id])


def options(workspace_id: UUID, current: PolicyTarget) -> dict[str, list[Option]]:
    """Return everything that has a policy, by layer; of the sessions only the newest and `current`."""
    with_rules = set(
        ToolPolicy.objects.for_workspace(workspace_id)
        .filter(revision__gt=0)
        .values_list("subject_id", flat=True)
    )
    named: list[tuple[LayerName, UUID, str]] = [("workspace", workspace_id, "Workspace ceiling")]
    named += [("agent", pk, name) for pk, name in _agents(workspace_id)]
    environments = Environment.objects.for_workspace(workspace_id).order_by("name")
    named += [("environment", pk, name) for pk, name in environments.values_list("pk", "name")]
    named += _sessions(workspace_id, current)
    groups: dict[str, list[Option]] = {}
    for layer, subject_id, name in named:
        target = PolicyTarget(workspace_id=workspace_id, layer=layer, subject_id=subject_id)
        groups.setdefault(layer, []).append(
            Option(
                url=url_of(target),
                name=name,
                has_rules=subject_id in with_rules,
                is_current=subject_id == current.subject_id,
            )
        )
    return groups


def _agents(workspace_id: UUID) -> list[tuple[UUID, str]]:
    rows = Agent.objects.for_workspace(workspace_id).active().known()
    return list(rows.order_by("current__name").values_list("pk", "current__name")[:MOST_AGENTS])


def _sessions(workspace_id: UUID, current: PolicyTarget) -> list[tuple[LayerName, UUID, str]]:
    """Look the model up by name: sessions are a later app than this one."""
    rows: Any = apps.get_model("sessions_app.Session")._default_manager
    owned = rows.for_workspace(workspace_id)
    found = list(owned.order_by("-active_at").values_list("pk", "title")[:MOST_SESSIONS])
    if current.layer == "session" and current.subject_id not in dict(found):
        found += owned.filter(pk=current.subject_id).values_list("pk", "title")
    return [("session", pk, title or "Untitled session") for pk, title in found]


MOST_REVISIONS = 20
#: Empty rows at the end of the list of rules, for browsers without JavaScript.
SPARE_RULES = 2
CHOICES = (("default", "Default"), ("allow", "Allow"), ("ask", "Ask"), ("deny", "Deny"))
PROFILE_DESCRIPTIONS = {
    "minimal": "read and search only",
    "coding": "files, web, memory, commands",
    "messaging": "messages, web, memory",
    "full": "everything",
}


@dataclass(frozen=True, kw_only=True)
class PolicyRow:
    """One tool of the matrix."""

    name: str
    title: str
    words: str
    choice: str
    decision: str
    why: str
    asks: bool
    guarded: bool


@dataclass(frozen=True, kw_only=True)
class Revision:
    number: int
    author: str
    created_at: datetime | None
    lines: list[str]
    reverts_to: int | None
    is_newest: bool


def page_context(
    principal: Principal, target: PolicyTarget, fields: Mapping[str, Any]
) -> dict[str, Any]:
    stored = stored_policy(target)
    policy = effective(target, fields)
    groups = {
        name: [_row(tool, policy, fields) for tool in tools]
        for name, tools in by_category(policy.tools).items()
    }
    chosen = options(target.workspace_id, target)
    current = next((one for group in chosen.values() for one in group if one.is_current), None)
    return {
        "place": target,
        "place_url": url_of(target),
        "place_name": current.name if current else "",
        "place_kind": TITLES[target.layer],
        "place_words": DESCRIPTIONS[target.layer],
        "places": chosen,
        "words": fields,
        "groups": groups,
        "tool_names": sorted(policy.tools),
        "rules": extra_rules(fields, policy.tools),
        "spare": range(SPARE_RULES),
        "narrows": narrows(fields),
        "profiles": [(name, PROFILE_DESCRIPTIONS.get(name, "")) for name in PROFILES],
        "choices": CHOICES,
        "revision": stored.revision,
        "history": history_entries(target),
        "may_change": principal.may(target.changing),
        "only_agent_lifts": target.layer != "agent",
    }


def _row(tool: Any, policy: Any, fields: Mapping[str, Any]) -> PolicyRow:
    explanation = policy.explain(tool.name)
    return PolicyRow(
        name=tool.name,
        title=tool.title,
        words=first_line(tool),
        choice=current_choice(tool.name, fields),
        decision=explanation.decision,
        why=sentence(explanation),
        asks=tool.permission == "always_ask",
        guarded=tool.category in GUARDED and tool.category != Category.MCP,
    )


def history_entries(target: PolicyTarget) -> list[Revision]:
    """Return the newest revisions with what each changed, down to the first if it is among them."""
    rows = list(policy_history(target)[: MOST_REVISIONS + 1])
    texts = [policy_fields(row) for row in rows]
    if len(rows) <= MOST_REVISIONS:
        texts.append(fields_at_revision(target, 0))
    return [
        Revision(
            number=row.revision,
            author=row.author or "Switchyard",
            created_at=row.created_at,
            lines=changes(before, after),
            reverts_to=row.reverts_to,
            is_newest=number == 0,
        )
        for number, (row, (after, before)) in enumerate(zip(rows, pairwise(texts), strict=False))
    ]


TEMPLATE = "pages/policies/policies.html"
PLACES: tuple[LayerName, ...] = ("agent", "environment", "session")
LONGEST_INPUT = 20_000


@dataclass(frozen=True, kw_only=True)
class Review:
    """A change before it is saved."""

    lines: list[str]
    effects: list[Any]
    #: Guarded tools that could act without asking after the change, but not before it.
    risky: list[str]
    #: Whether the person may make such a change.
    may_loosen: bool
    reverts_to: int | None = None
    problem: str = ""


def get_target(
    request: HttpRequest, layer: LayerName | None, subject_id: UUID | None
) -> PolicyTarget:
    """Return the policy target that the address names. Anyone who may read the workspace sees it."""
    workspace_id = authorise(principal_of(request), "read")
    if layer is None:
        return find_target(workspace_id, "workspace")
    return find_target(workspace_id, layer, subject_id)


@require_http_methods(["GET", "HEAD", "POST"])
def policies(
    request: HttpRequest, layer: LayerName | None = None, subject_id: UUID | None = None
) -> HttpResponse:
    """Show a policy, review a change of it, or save one."""
    principal = principal_of(request)
    target = get_target(request, layer, subject_id)
    if request.method != "POST":
        return render_page(request, principal, target, policy_fields(stored_policy(target)))
    authorise(principal, target.changing)
    act = request.POST.get("act", "review")
    if act == "revert":
        return _review_revert(request, principal, target)
    return _change(request, principal, target, save=act == "save")


def render_page(
    request: HttpRequest,
    principal: Principal,
    target: PolicyTarget,
    fields: dict[str, Any],
    *,
    review: Review | None = None,
    problem: str = "",
    status: int = 200,
) -> HttpResponse:
    context = page_context(principal, target, fields)
    context |= {
        "review": review,
        "problem": problem,
        "simulated": _simulated(request, target, fields),
    }
    return render(request, TEMPLATE, context, status=status)


def _change(
    request: HttpRequest, principal: Principal, target: PolicyTarget, *, save: bool
) -> HttpResponse:
    stored = policy_fields(stored_policy(target))
    tools = tools_of_workspace(target.workspace_id)
    fields, reverts_to = stored, number_from_form(request.POST, "reverts_to") if save else None
    try:
        # A revert restores exactly what was stored, not what a form can show of it.
        fields = (
            fields_from_form(request.POST, target, tools, stored)
            if reverts_to is None
            else fields_at_revision(target, reverts_to)
        )
        check_rules(to_layer(target.layer, fields), tools)
    except Invalid as fault:
        return render_page(request, principal, target, fields, problem=fault.detail, status=400)
    review = make_review(principal, target, stored, fields, reverts_to)
    confirmed = bool(request.POST.get("confirmed")) or not review.risky
    if not save or not confirmed:
        return render_page(request, principal, target, fields, review=review)
    return _save(request, principal, target, fields, review)


def _save(
    request: HttpRequest,
    principal: Principal,
    target: PolicyTarget,
    fields: dict[str, Any],
    review: Review,
) -> HttpResponse:
    seen = number_from_form(request.POST, "revision")
    try:
        if review.reverts_to is not None:
            saved = revert_policy(principal, target, review.reverts_to)
        else:
            saved = change_policy(principal, target, fields, expected_revision=seen)
    except Conflict as fault:
        problem = f"{fault.detail} The policy was changed meanwhile. Review what is new."
        return render_page(
            request, principal, target, fields, review=review, problem=problem, status=409
        )
    except Forbidden as fault:
        return render_page(
            request, principal, target, fields, review=review, problem=fault.detail, status=403
        )
    messages.success(request, f"Saved as revision {saved.revision}. It applies from the next run.")
    return redirect(url_of(target))


def _review_revert(
    request: HttpRequest, principal: Principal, target: PolicyTarget
) -> HttpResponse:
    number = number_from_form(request.POST, "revision")
    if number is None:
        raise NotFound
    stored, fields = policy_fields(stored_policy(target)), fields_at_revision(target, number)
    review = make_review(principal, target, stored, fields, number)
    return render_page(request, principal, target, fields, review=review)


def make_review(
    principal: Principal,
    target: PolicyTarget,
    before: dict[str, Any],
    after: dict[str, Any],
    reverts_to: int | None = None,
) -> Review:
    """Return what the change says, what it does, and which guarded tools it loosens."""
    tools = tools_of_workspace(target.workspace_id)
    old, new = to_layer(target.layer, before), to_layer(target.layer, after)
    return Review(
        lines=changes(before, after),
        effects=differences(effective(target, before), effective(target, after)),
        risky=loosened_tools(old, new, tools.values()),
        may_loosen=principal.may(target.loosening),
        reverts_to=reverts_to,
    )


def _simulated(request: HttpRequest, target: PolicyTarget, fields: dict[str, Any]) -> Any:
    """Explain the hypothetical call that the query string or the form describes."""
    asked = request.GET if "tool" in request.GET else request.POST
    tool, raw = asked.get("tool", "").strip()[:160], asked.get("input", "").strip()
    if not tool:
        return None
    try:
        explanation = simulate(effective(target, fields), tool, raw)
    except Invalid as fault:
        return {"tool": tool, "input": raw, "problem": fault.detail}
    return {"tool": tool, "input": raw, "said": explanation, "sentence": sentence(explanation)}


def simulate(policy: EffectivePolicy, tool: str, raw: str) -> Explanation:
    if len(raw) > LONGEST_INPUT:
        raise Invalid("The arguments are too long.")
    try:
        input = json.loads(raw) if raw else {}
    except (ValueError, RecursionError):
        raise Invalid('The arguments must be a JSON object, such as {"command": "ls"}.') from None
    if not isinstance(input, dict):
        raise Invalid('The arguments must be a JSON object, such as {"command": "ls"}.')
    return policy.simulate(tool, input)


@require_POST
def policy_preview(
    request: HttpRequest, layer: LayerName | None = None, subject_id: UUID | None = None
) -> JsonResponse:
    """Return the effect of the form as it stands, for the page's script. Nothing is saved."""
    principal = principal_of(request)
    target = get_target(request, layer, subject_id)
    stored = policy_fields(stored_policy(target))
    try:
        fields = fields_from_form(
            request.POST, target, tools_of_workspace(target.workspace_id), stored
        )
        simulated = _simulated(request, target, fields)
    except Invalid as fault:
        return JsonResponse({"problem": fault.detail}, status=400)
    policy = effective(target, fields)
    review = make_review(principal, target, stored, fields)
    tools = {
        name: {"decision": decision.decision, "why": sentence(policy.explain(name))}
        for name, decision in policy.items()
    }
    if simulated and "said" in simulated:
        simulated = {**simulated, "said": asdict(simulated["said"])}
    answer = {"tools": tools, "lines": review.lines, "risky": review.risky, "call": simulated}
    return JsonResponse(answer)
