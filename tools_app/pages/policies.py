"""The policy editor: what a place says about tools, what follows from it, and a change before it counts."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from config.faults import Conflict, Forbidden, Invalid, NotFound
from tenants.access import Principal, authorise
from tenants.authentication import principal_of
from tools_app.effective import EffectivePolicy
from tools_app.explanation import Explanation
from tools_app.loosening import loosened
from tools_app.pages.choices import changes
from tools_app.pages.effect import differences, effective, sentence
from tools_app.pages.form import number_in, words_in
from tools_app.pages.places import url_of
from tools_app.pages.showing import context_of
from tools_app.places import Place, find_place
from tools_app.policies import change_policy, revert_policy, said_at, stored_policy
from tools_app.policy import LayerName
from tools_app.policy_input import check_known, layer_of, words_of
from tools_app.workspace_tools import tools_of_workspace

TEMPLATE = "pages/policies/policies.html"
PLACES: tuple[LayerName, ...] = ("agent", "environment", "session")
LONGEST_INPUT = 20_000


@dataclass(frozen=True, kw_only=True)
class Review:
    """A change before it is saved."""

    lines: list[str]
    effects: list[Any]
    #: Tools that could act without a question from then on, and could not before.
    risky: list[str]
    #: Whether the person may make such a change.
    may_loosen: bool
    reverts_to: int | None = None
    problem: str = ""


def place_in(request: HttpRequest, layer: LayerName | None, subject_id: UUID | None) -> Place:
    """The place that the address names, for whoever may read it."""
    workspace_id = authorise(principal_of(request), "read")
    if layer is None:
        return find_place(workspace_id, "workspace")
    return find_place(workspace_id, layer, subject_id)


@require_http_methods(["GET", "HEAD", "POST"])
def policies(
    request: HttpRequest, layer: LayerName | None = None, subject_id: UUID | None = None
) -> HttpResponse:
    """Show a place's policy; or review a change, or save one."""
    principal = principal_of(request)
    place = place_in(request, layer, subject_id)
    if request.method != "POST":
        return page(request, principal, place, words_of(stored_policy(place)))
    authorise(principal, place.changing)
    act = request.POST.get("act", "review")
    if act == "revert":
        return _review_revert(request, principal, place)
    return _change(request, principal, place, save=act == "save")


def page(
    request: HttpRequest,
    principal: Principal,
    place: Place,
    words: dict[str, Any],
    *,
    review: Review | None = None,
    problem: str = "",
    status: int = 200,
) -> HttpResponse:
    context = context_of(principal, place, words)
    context |= {
        "review": review,
        "problem": problem,
        "simulated": _simulated(request, place, words),
    }
    return render(request, TEMPLATE, context, status=status)


def _change(
    request: HttpRequest, principal: Principal, place: Place, *, save: bool
) -> HttpResponse:
    stored = words_of(stored_policy(place))
    tools = tools_of_workspace(place.workspace_id)
    words, reverts_to = stored, number_in(request.POST, "reverts_to") if save else None
    try:
        # A revert says again exactly what was said, not what a form can show of it.
        words = (
            words_in(request.POST, place, tools, stored)
            if reverts_to is None
            else said_at(place, reverts_to)
        )
        check_known(layer_of(place.layer, words), tools)
    except Invalid as fault:
        return page(request, principal, place, words, problem=fault.detail, status=400)
    review = review_of(principal, place, stored, words, reverts_to)
    confirmed = bool(request.POST.get("confirmed")) or not review.risky
    if not save or not confirmed:
        return page(request, principal, place, words, review=review)
    return _save(request, principal, place, words, review)


def _save(
    request: HttpRequest, principal: Principal, place: Place, words: dict[str, Any], review: Review
) -> HttpResponse:
    seen = number_in(request.POST, "revision")
    try:
        if review.reverts_to is not None:
            saved = revert_policy(principal, place, review.reverts_to)
        else:
            saved = change_policy(principal, place, words, expected_revision=seen)
    except Conflict as fault:
        words_now = f"{fault.detail} Somebody changed this policy meanwhile: look at what is new."
        return page(request, principal, place, words, review=review, problem=words_now, status=409)
    except Forbidden as fault:
        return page(
            request, principal, place, words, review=review, problem=fault.detail, status=403
        )
    messages.success(request, f"Saved as revision {saved.revision}. It binds the next run.")
    return redirect(url_of(place))


def _review_revert(request: HttpRequest, principal: Principal, place: Place) -> HttpResponse:
    number = number_in(request.POST, "revision")
    if number is None:
        raise NotFound
    stored, words = words_of(stored_policy(place)), said_at(place, number)
    review = review_of(principal, place, stored, words, number)
    return page(request, principal, place, words, review=review)


def review_of(
    principal: Principal,
    place: Place,
    before: dict[str, Any],
    after: dict[str, Any],
    reverts_to: int | None = None,
) -> Review:
    """What the change says, what follows from it, and whether it opens something dangerous."""
    tools = tools_of_workspace(place.workspace_id)
    old, new = layer_of(place.layer, before), layer_of(place.layer, after)
    return Review(
        lines=changes(before, after),
        effects=differences(effective(place, before), effective(place, after)),
        risky=loosened(old, new, tools.values()),
        may_loosen=principal.may(place.loosening),
        reverts_to=reverts_to,
    )


def _simulated(request: HttpRequest, place: Place, words: dict[str, Any]) -> Any:
    """A call that is not made, as the address or the form describes it."""
    asked = request.GET if "tool" in request.GET else request.POST
    tool, raw = asked.get("tool", "").strip()[:160], asked.get("input", "").strip()
    if not tool:
        return None
    try:
        said = simulate(effective(place, words), tool, raw)
    except Invalid as fault:
        return {"tool": tool, "input": raw, "problem": fault.detail}
    return {"tool": tool, "input": raw, "said": said, "sentence": sentence(said)}


def simulate(policy: EffectivePolicy, tool: str, raw: str) -> Explanation:
    if len(raw) > LONGEST_INPUT:
        raise Invalid("The arguments are too long.")
    try:
        input = json.loads(raw) if raw else {}
    except (ValueError, RecursionError):
        raise Invalid('The arguments are a JSON object, such as {"command": "ls"}.') from None
    if not isinstance(input, dict):
        raise Invalid('The arguments are a JSON object, such as {"command": "ls"}.')
    return policy.simulate(tool, input)


@require_POST
def policy_preview(
    request: HttpRequest, layer: LayerName | None = None, subject_id: UUID | None = None
) -> JsonResponse:
    """For the page's script: what the form as it stands would mean, with nothing saved."""
    principal = principal_of(request)
    place = place_in(request, layer, subject_id)
    stored = words_of(stored_policy(place))
    try:
        words = words_in(request.POST, place, tools_of_workspace(place.workspace_id), stored)
        simulated = _simulated(request, place, words)
    except Invalid as fault:
        return JsonResponse({"problem": fault.detail}, status=400)
    policy = effective(place, words)
    review = review_of(principal, place, stored, words)
    tools = {
        name: {"decision": said.decision, "why": sentence(policy.explain(name))}
        for name, said in policy.items()
    }
    if simulated and "said" in simulated:
        simulated = {**simulated, "said": asdict(simulated["said"])}
    answer = {"tools": tools, "lines": review.lines, "risky": review.risky, "call": simulated}
    return JsonResponse(answer)
