"""Proposes policies in drafts of agents, and publishes drafts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction

from agents import drafts
from agents.canvas import revisions
from agents.canvas.revisions import Author
from agents.definitions import change_agent, columns_for, write_version
from agents.drafts import DraftState
from agents.models import Agent, AgentVersion
from core.exceptions import Conflict
from core.validation import read_input
from tenants.access import Principal, authorise
from tools_app.policy import storage
from tools_app.policy.rules import Verdict, parse_rule
from tools_app.workspace_tools import tools_of_workspace


def draft_policy(drafted: DraftState) -> dict[str, Any]:
    """Return the policy that the draft proposes, or else the stored one."""
    if drafted.row.policy is not None:
        return {"approved_tools": [], "peers": [], **drafted.row.policy}
    return storage.policy_fields(storage.stored_policy(storage.agent_target(drafted.agent)))


@transaction.atomic
def propose(
    agent: Agent,
    fields: Mapping[str, Any] | None,
    *,
    author: Author,
    revision: int | None = None,
) -> DraftState:
    """Put a whole policy into the draft; None withdraws the proposal.

    It is validated as if it were saved now.
    """
    held = drafts.lock(agent, revision)
    stored = storage.stored_policy(storage.agent_target(agent))
    columns = None
    if fields is not None:
        columns = storage.policy_columns(read_input(storage.PolicyInput, fields), "agent")
        storage.check_rules(
            storage.to_layer("agent", columns),
            tools_of_workspace(agent.workspace_id),
            agent.workspace_id,
        )
        if columns == storage.policy_fields(stored):
            columns = None
    return drafts.propose_policy(
        agent, columns, base=stored.revision, author=author, revision=held.row.revision
    )


@transaction.atomic
def propose_rules(
    agent: Agent,
    rules: Mapping[Verdict, Sequence[str]],
    *,
    profile: str | None = None,
    author: Author,
) -> DraftState:
    """Propose rules for these tools and leave the rest of the policy as it is.

    An earlier rule with the same name is replaced.
    """
    fields = draft_policy(drafts.lock(agent))
    if profile:
        fields["profile"] = profile
    given = {rule for each in rules.values() for rule in each}
    for field in storage.LISTS.values():
        fields[field] = [rule for rule in fields[field] if not _is_replaced(rule, given)]
    for verdict, each in rules.items():
        fields[storage.LISTS[verdict]] += list(each)
    return propose(agent, fields, author=author)


def _is_replaced(rule: str, given: set[str]) -> bool:
    """Return whether a rule is replaced. A rule with a pattern stays unless it is repeated."""
    parsed = parse_rule(rule)
    names = {parse_rule(each).name for each in given}
    return rule in given or (parsed.name in names and parsed.pattern in (None, "*"))


@transaction.atomic
def publish(principal: Principal, agent: Agent, *, revision: int | None = None) -> AgentVersion:
    """Publish the draft for a principal that may change all that it changes.

    Letting a guarded tool act without asking requires the same right as on the policy page.
    """
    authorise(principal, "build", agent)
    drafted = drafts.lock(agent, revision)
    if drafted.row.is_empty and not agent.is_draft:
        raise Conflict("The draft does not differ from the published version.")
    version = _write(drafted, principal)
    row = drafted.row
    if row.policy is not None:
        storage.change_policy(
            principal, storage.agent_target(agent), row.policy, expected_revision=row.policy_base
        )
    drawn = revisions.read(agent)
    if row.canvas_base is not None and not drawn.graph.is_empty:
        revisions.publish(agent, tools=tools_of_workspace(agent.workspace_id))
    drafts.close(drafted, version.number)
    return version


def _write(drafted: DraftState, principal: Principal) -> AgentVersion:
    agent = drafted.agent
    if not agent.is_draft:
        return change_agent(agent, drafted.row.fields, by=principal.user)
    columns = columns_for(agent.workspace_id, drafted.fields)
    version = write_version(agent, number=1, columns=columns, by=principal.user)
    agent.is_draft = False
    agent.save(update_fields=["is_draft"])
    return version
