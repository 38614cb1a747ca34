"""`agent list` and `agent spawn`."""

from __future__ import annotations

from typing import Any

from agents.definitions import create_agent
from agents.models import Agent
from sessions_app.cli.desk import Desk


def list_agents(desk: Desk) -> None:
    """Every active agent, the newest first, one a line."""
    agents = Agent.objects.for_workspace(desk.workspace_id).offered().select_related("current")
    for agent in agents:
        facts = _facts(agent)
        desk.say("{id}  {name}  {provider}/{model}  v{version}".format(**facts), **facts)


def spawn(desk: Desk) -> None:
    """Make an agent and say its id."""
    fields = {
        name: desk.asked[name]
        for name in ("name", "provider", "model", "system_prompt")
        if desk.asked[name] is not None
    }
    agent = create_agent(
        workspace_id=desk.workspace_id, fields=fields, created_by=desk.principal.user
    )
    desk.say(str(agent.pk), **_facts(agent))


def _facts(agent: Agent) -> dict[str, Any]:
    version = agent.current
    if version is None:
        return {"id": agent.pk, "name": "", "provider": "", "model": "", "version": 0}
    return {
        "id": agent.pk,
        "name": version.name,
        "provider": version.provider,
        "model": version.model,
        "version": version.number,
    }
