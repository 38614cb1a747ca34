"""Publishes a draft: a new version, the policy and the canvas, all of it or nothing."""

from __future__ import annotations

from django.db import transaction

from agents import canvas, drafts
from agents.definitions import change_agent, columns_for, write_version
from agents.drafts import Drafted
from agents.models import Agent, AgentVersion
from agents.undoing import settle
from config.faults import Conflict
from tenants.access import Principal, authorise
from tools_app.policies import change_policy
from tools_app.proposals import place_of


@transaction.atomic
def publish(principal: Principal, agent: Agent, *, revision: int | None = None) -> AgentVersion:
    """Let the draft be the agent, in the name of somebody who has the right to all of it.

    To let a risky tool act without asking takes the right that the policy page asks for.
    """
    authorise(principal, "build", agent)
    drafted = drafts.hold(agent, revision)
    if drafted.row.is_empty and not agent.is_draft:
        raise Conflict("Nothing differs from the published version.")
    version = _write(drafted, principal)
    row = drafted.row
    if row.policy is not None:
        change_policy(principal, place_of(agent), row.policy, expected_revision=row.policy_base)
    drawn = canvas.read(agent)
    if row.canvas_base is not None and not drawn.graph.is_empty:
        canvas.publish(agent)
    settle(drafted, version.number)
    return version


def _write(drafted: Drafted, principal: Principal) -> AgentVersion:
    agent = drafted.agent
    if not agent.is_draft:
        return change_agent(agent, drafted.row.fields, by=principal.user)
    columns = columns_for(agent.workspace_id, drafted.fields)
    version = write_version(agent, number=1, columns=columns, by=principal.user)
    agent.is_draft = False
    agent.save(update_fields=["is_draft"])
    return version
