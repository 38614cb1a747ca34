"""The policy editor: shows a policy and its effect, and reviews a change before it is saved."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
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
from tenants.access import authorise
from tenants.authentication import principal_of
from tools_app.models import PolicyRevision, ToolPolicy
from tools_app.pages import policy_matrix as matrix
from tools_app.policy import storage
from tools_app.policy.evaluation import EffectivePolicy
from tools_app.policy.rules import PEER_RIGHTS, PROFILES, LayerName
from tools_app.policy.storage import PolicyTarget, policy_fields
from tools_app.registry import Category, Tool
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


def options(agents: Sequence[tuple[UUID, str]], current: PolicyTarget) -> dict[str, list[Option]]:
    """Return everything that has a policy, by layer; of the sessions only the newest and `current`."""
    workspace_id = current.workspace_id
    with_rules = set(
        ToolPolicy.objects.for_workspace(workspace_id)
        .filter(revision__gt=0)
        .values_list("subject_id", flat=True)
    )
    named: list[tuple[LayerName, UUID, str]] = [("workspace", workspace_id, "Workspace ceiling")]
    named += [("agent", pk, name) for pk, name in agents]
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
    found = list(owned.latest_first().values_list("pk", "title")[:MOST_SESSIONS])
    if current.layer == "session" and current.subject_id not in dict(found):
        found += owned.filter(pk=current.subject_id).values_list("pk", "title")
    return [("session", pk, title or "Untitled session") for pk, title in found]


MOST_REVISIONS = 20
#: Empty rows at the end of the list of rules, for browsers without JavaScript.
SPARE_RULES = 2
CHOICES = (("default", "Default"), ("allow", "Allow"), ("ask", "Ask"), ("deny", "Deny"))
RULE_CHOICES = (*CHOICES[1:], (matrix.ONLY, "Only"))
PROFILE_DESCRIPTIONS = {
    "minimal": "read and search only",
    "coding": "files, web, memory, commands",
    "messaging": "messages, web, memory",
    "full": "everything",
}
#: The layers that have a page of their own; the page without a layer is the workspace's.
LAYERS: tuple[LayerName, ...] = ("agent", "environment", "session")
LONGEST_INPUT = 20_000


@dataclass(frozen=True, kw_only=True)
class Review:
    """A change before it is saved."""

    lines: list[str]
    effects: list[matrix.Change]
    #: Guarded tools that could act without asking after the change, but not before it.
    risky: list[str]
    #: Whether the person may make such a change.
    may_loosen: bool
    #: Whether the agent could do more with the sessions of other agents.
    adds_peers: bool
    reverts_to: int | None = None

    @property
    def loosens(self) -> bool:
        return bool(self.risky) or self.adds_peers


def matrix_row(tool: Tool, policy: EffectivePolicy, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return one tool of the matrix, with the choice for it and the decision on it."""
    explanation = policy.explain(tool.name)
    guarded = tool.category in storage.GUARDED and tool.category != Category.MCP
    return {
        "name": tool.name,
        "summary": tool.description.strip().partition("\n")[0],
        "choice": matrix.current_choice(tool.name, fields),
        "decision": explanation.decision,
        "why": matrix.sentence(explanation),
        "is_sensitive": guarded or tool.permission == "always_ask",
    }


def history(target: PolicyTarget) -> list[tuple[PolicyRevision, list[str]]]:
    """Return the newest revisions with what each changed, down to the first if it is among them."""
    rows = list(storage.policy_history(target)[: MOST_REVISIONS + 1])
    texts = [policy_fields(row) for row in rows]
    if len(rows) <= MOST_REVISIONS:
        texts.append(storage.fields_at_revision(target, 0))
    return [
        (row, matrix.changes(before, after, target.workspace_id))
        for row, (after, before) in zip(rows, pairwise(texts), strict=False)
    ]


class PolicyEditor:
    """One request to the page of one policy. Anyone who may read the workspace sees it."""

    def __init__(self, request: HttpRequest, layer: LayerName, subject_id: UUID | None) -> None:
        self.request, self.principal = request, principal_of(request)
        workspace_id = authorise(self.principal, "read")
        self.target = storage.find_target(workspace_id, layer, subject_id)
        self.stored = policy_fields(storage.stored_policy(self.target))

    @cached_property
    def tools(self) -> dict[str, Tool]:
        return tools_of_workspace(self.target.workspace_id)

    def show(
        self,
        fields: Mapping[str, Any],
        *,
        review: Review | None = None,
        problem: str = "",
        status: int = 200,
        typed: Mapping[str, Any] | None = None,
    ) -> HttpResponse:
        """Render the page. `typed` is what a refused form showed, in place of what is stored."""
        policy = matrix.effective(self.target, fields)
        chosen: Mapping[str, str] = typed["chosen"] if typed else {}
        groups = {
            name: [
                matrix_row(tool, policy, fields)
                | ({"choice": chosen[tool.name]} if tool.name in chosen else {})
                for tool in tools
            ]
            for name, tools in matrix.by_category(policy.tools).items()
        }
        agents = _agents(self.target.workspace_id)
        targets = options(agents, self.target)
        current = next((one for group in targets.values() for one in group if one.is_current), None)
        context: dict[str, Any] = {
            "target": self.target,
            "target_url": url_of(self.target),
            "target_name": current.name if current else "",
            "target_title": TITLES[self.target.layer],
            "target_description": DESCRIPTIONS[self.target.layer],
            "targets": targets,
            "fields": fields,
            "groups": groups,
            "tool_names": sorted(policy.tools),
            "rules": matrix.extra_rules(fields, policy.tools),
            "spare": range(SPARE_RULES),
            "peers": matrix.peer_rows(self.target, fields, agents),
            "peer_rights": PEER_RIGHTS,
            "narrows": matrix.narrows(fields),
            "profiles": [(name, PROFILE_DESCRIPTIONS.get(name, "")) for name in PROFILES],
            "choices": CHOICES,
            "rule_choices": RULE_CHOICES,
            "revision": storage.stored_policy(self.target).revision,
            "history": history(self.target),
            "may_change": self.principal.may(self.target.changing),
            "review": review,
            "problem": problem,
            "simulated": self.simulated(fields),
            "is_changed": bool(review or typed),
        }
        context |= typed or {}
        return render(self.request, "pages/policies/policies.html", context, status=status)

    def change(self, *, save: bool) -> HttpResponse:
        """Review the change that the form describes, or save it."""
        fields: Mapping[str, Any] = self.stored
        reverts_to = matrix.number_from_form(self.request.POST, "reverts_to") if save else None
        try:
            # A revert restores exactly what was stored, not what a form can show of it.
            fields = (
                self.fields_from_form()
                if reverts_to is None
                else storage.fields_at_revision(self.target, reverts_to)
            )
            layer = storage.to_layer(self.target.layer, fields)
            storage.check_rules(layer, self.tools, self.target.workspace_id)
        except Invalid as fault:
            return self.refuse(fault.detail)
        review = self.review(fields, reverts_to)
        confirmed = bool(self.request.POST.get("confirmed")) or not review.loosens
        return (
            self._save(fields, review) if save and confirmed else self.show(fields, review=review)
        )

    def refuse(self, problem: str) -> HttpResponse:
        """Show the form as it was sent, so that the person corrects it instead of starting again."""
        post = self.request.POST
        typed = {
            "fields": {
                "profile": post.get("profile"),
                "max_tool_calls_per_turn": post.get("max_tool_calls_per_turn", ""),
            },
            "rules": [rule for rule in matrix.rules_from_form(post) if rule.text],
            "chosen": matrix.choices_from_form(post, self.tools),
        }
        return self.show(self.stored, problem=problem, status=400, typed=typed)

    def _save(self, fields: Mapping[str, Any], review: Review) -> HttpResponse:
        seen = matrix.number_from_form(self.request.POST, "revision")
        try:
            if review.reverts_to is not None:
                saved = storage.revert_policy(self.principal, self.target, review.reverts_to)
            else:
                saved = storage.change_policy(
                    self.principal, self.target, fields, expected_revision=seen
                )
        except Conflict as fault:
            problem = f"{fault.detail} The policy was changed meanwhile. Review what is new."
            return self.show(fields, review=review, problem=problem, status=fault.status)
        except Forbidden as fault:
            return self.show(fields, review=review, problem=fault.detail, status=fault.status)
        messages.success(
            self.request, f"Saved as revision {saved.revision}. It applies from the next run."
        )
        return redirect(url_of(self.target))

    def review_revert(self) -> HttpResponse:
        number = matrix.number_from_form(self.request.POST, "revision")
        if number is None:
            raise NotFound
        fields = storage.fields_at_revision(self.target, number)
        return self.show(fields, review=self.review(fields, number))

    def review(self, fields: Mapping[str, Any], reverts_to: int | None = None) -> Review:
        """Return what the change says, what it does, and which guarded tools it loosens."""
        before, after = (
            storage.to_layer(self.target.layer, each) for each in (self.stored, fields)
        )
        return Review(
            lines=matrix.changes(self.stored, fields, self.target.workspace_id),
            effects=matrix.differences(
                matrix.effective(self.target, self.stored), matrix.effective(self.target, fields)
            ),
            risky=storage.loosened_tools(before, after, self.tools.values()),
            may_loosen=self.principal.may(self.target.loosening),
            adds_peers=storage.adds_peers(before, after),
            reverts_to=reverts_to,
        )

    def fields_from_form(self) -> dict[str, Any]:
        return matrix.fields_from_form(self.request.POST, self.target, self.tools, self.stored)

    def simulated(self, fields: Mapping[str, Any]) -> dict[str, Any] | None:
        """Explain the hypothetical call that the query string or the form describes."""
        given = self.request.GET if "tool" in self.request.GET else self.request.POST
        tool, raw = given.get("tool", "").strip()[:160], given.get("input", "").strip()
        if not tool:
            return None
        try:
            input = read_arguments(raw)
        except Invalid as fault:
            return {"tool": tool, "input": raw, "problem": fault.detail}
        explanation = matrix.effective(self.target, fields).simulate(tool, input)
        return {
            "tool": tool,
            "input": raw,
            "explanation": asdict(explanation),
            "sentence": matrix.sentence(explanation),
        }


def read_arguments(raw: str) -> dict[str, Any]:
    if len(raw) > LONGEST_INPUT:
        raise Invalid("The arguments are too long.")
    try:
        input = json.loads(raw) if raw else {}
    except (ValueError, RecursionError):
        input = None
    if not isinstance(input, dict):
        raise Invalid('The arguments must be a JSON object, such as {"command": "ls"}.')
    return input


@require_http_methods(["GET", "HEAD", "POST"])
def policies(
    request: HttpRequest, layer: LayerName = "workspace", subject_id: UUID | None = None
) -> HttpResponse:
    """Show a policy, review a change of it, or save one."""
    editor = PolicyEditor(request, layer, subject_id)
    if request.method != "POST":
        return editor.show(editor.stored)
    authorise(editor.principal, editor.target.changing)
    act = request.POST.get("act", "review")
    return editor.review_revert() if act == "revert" else editor.change(save=act == "save")


@require_POST
def policy_preview(
    request: HttpRequest, layer: LayerName = "workspace", subject_id: UUID | None = None
) -> JsonResponse:
    """Return the effect of the form as it stands, for the page's script. Nothing is saved."""
    editor = PolicyEditor(request, layer, subject_id)
    try:
        fields = editor.fields_from_form()
    except Invalid as fault:
        return JsonResponse({"problem": fault.detail}, status=400)
    policy, review = matrix.effective(editor.target, fields), editor.review(fields)
    tools = {
        name: {"decision": decision.decision, "why": matrix.sentence(policy.explain(name))}
        for name, decision in policy.items()
    }
    call = editor.simulated(fields)
    return JsonResponse(
        {"tools": tools, "lines": review.lines, "risky": review.risky, "call": call}
    )
