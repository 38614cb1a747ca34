"""Stored policies: read, changed with a revision for every change, brought back.

A layer's policy is one row with the newest words, and one immutable revision per change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from uuid import UUID

from django.db import transaction

from agents.inputs import read_input
from agents.models import Agent
from config.faults import Conflict, Forbidden, NotFound
from tenants.access import Principal, authorise
from tenants.models import User
from tools_app.loosening import loosened
from tools_app.models import PolicyRevision, ToolPolicy
from tools_app.places import Place, place_of_agent
from tools_app.policy import Layer, allowing
from tools_app.policy_input import (
    PolicyInput,
    check_known,
    columns_of,
    input_of,
    layer_of,
    words_of,
)
from tools_app.registry import Tool
from tools_app.workspace_tools import tools_of_workspace


def stored_policy(place: Place) -> ToolPolicy:
    """The policy's row, or one that was never saved and says what counts without it."""
    found = _rows(place).first()
    if found:
        return cast(ToolPolicy, found)
    unsaid = ToolPolicy(
        workspace_id=place.workspace_id,
        layer=place.layer,
        subject_id=place.subject_id,
        **columns_of(PolicyInput(), place.layer),
    )
    unsaid.created_at = None  # type: ignore[assignment]
    return unsaid


def load_tool_policy(agent: Agent | UUID | str) -> Layer:
    """What the agent's own policy says. `filter_tools_by_policy` takes it."""
    return layer_of("agent", stored_policy(_place(agent)))


def save_tool_policy(
    agent: Agent | UUID | str, policy: Layer | Mapping[str, Any], by: User | None = None
) -> ToolPolicy:
    """Replace the agent's own policy, for code that has settled who may do so."""
    fields = input_of(policy) if isinstance(policy, Layer) else policy
    return save_policy(_place(agent), fields, by=by)


def _place(agent: Agent | UUID | str) -> Place:
    return place_of_agent(agent.pk if isinstance(agent, Agent) else UUID(str(agent)))


def change_policy(
    principal: Principal,
    place: Place,
    fields: Mapping[str, Any],
    *,
    expected_revision: int | None = None,
) -> ToolPolicy:
    """Replace a policy in the name of somebody, who must have the right to this very change."""
    _authorise(principal, place)
    return save_policy(place, fields, principal=principal, expected_revision=expected_revision)


def revert_policy(principal: Principal, place: Place, revision: int) -> ToolPolicy:
    """Say again what a revision said, as the newest one."""
    _authorise(principal, place)
    words = said_at(place, revision)
    return save_policy(place, words, principal=principal, reverts_to=revision)


def said_at(place: Place, revision: int) -> dict[str, Any]:
    """What the policy said at a revision; 0 is before anything was said."""
    if not revision:
        return columns_of(PolicyInput(), place.layer)
    old = history_of(place).filter(revision=revision).first()
    if old is None:
        raise NotFound(f"This policy has no revision {revision}.")
    return words_of(old)


def history_of(place: Place) -> Any:
    """All revisions, the newest first."""
    rows = PolicyRevision.objects.for_workspace(place.workspace_id).select_related("created_by")
    return rows.filter(policy__layer=place.layer, policy__subject_id=place.subject_id)


@transaction.atomic
def save_policy(
    place: Place,
    fields: Mapping[str, Any],
    *,
    by: User | None = None,
    principal: Principal | None = None,
    expected_revision: int | None = None,
    reverts_to: int | None = None,
) -> ToolPolicy:
    """Check and write a policy and its revision. The same words again make no revision.

    Writers wait for each other on the policy's row, so that rights are judged on what is replaced.
    """
    columns = columns_of(read_input(PolicyInput, fields), place.layer)
    author = principal.user if principal else by
    policy = _locked(place, author)
    if expected_revision not in (None, policy.revision):
        raise Conflict(f"Revision {policy.revision} is newer than revision {expected_revision}.")
    before, after = layer_of(place.layer, policy), layer_of(place.layer, columns)
    if policy.revision and before == after:
        return policy
    tools = tools_of_workspace(place.workspace_id)
    check_known(after, tools)
    if principal and (risky := loosened(before, after, tools.values())):
        _authorise_loosening(principal, place, risky)
    name = principal.name if principal else (by.email if by else "")
    return _write(policy, columns, author=name, created_by=author, reverts_to=reverts_to)


@transaction.atomic
def allow_also(principal: Principal, place: Place, tool: Tool, rule: str) -> ToolPolicy:
    """Add one rule to what a policy allows, as the next revision of what it says by then."""
    _authorise(principal, place)
    said = layer_of(place.layer, _locked(place, principal.user))
    return save_policy(place, input_of(allowing(said, tool, rule)), principal=principal)


@transaction.atomic
def copy_policy(source: Place, target: Place) -> None:
    """Bind another object by the same words, as they are: what is copied must not be freer."""
    found = _rows(source).filter(revision__gt=0).first()
    if found:
        author = f"copied from {source.subject_id}"
        _write(_locked(target, None), words_of(found), author=author)


def _write(policy: ToolPolicy, columns: Mapping[str, Any], **authorship: Any) -> ToolPolicy:
    for name, value in columns.items():
        setattr(policy, name, value)
    policy.revision += 1
    policy.save()
    PolicyRevision.objects.create(
        workspace_id=policy.workspace_id,
        policy=policy,
        revision=policy.revision,
        **authorship,
        **columns,
    )
    return policy


def _authorise(principal: Principal, place: Place) -> None:
    if authorise(principal, place.changing) != place.workspace_id:
        raise NotFound


def _authorise_loosening(principal: Principal, place: Place, risky: list[str]) -> None:
    if principal.may(place.loosening):
        return
    names = ", ".join(risky[:5])
    raise Forbidden(
        f"To let these act without asking needs the right to {place.loosening}: {names}."
    )


def _locked(place: Place, author: User | None) -> ToolPolicy:
    _rows(place).get_or_create(
        layer=place.layer,
        subject_id=place.subject_id,
        defaults={
            "workspace_id": place.workspace_id,
            "created_by": author,
            **columns_of(PolicyInput(), place.layer),
        },
    )
    return _rows(place).select_for_update(no_key=True).get()


def _rows(place: Place) -> Any:
    rows = ToolPolicy.objects.for_workspace(place.workspace_id)
    return rows.filter(layer=place.layer, subject_id=place.subject_id)
