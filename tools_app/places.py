"""Where a policy is kept: the layer and the object that it binds, and who may change it there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.apps import apps

from agents.models import Agent
from config.faults import NotFound
from tenants.access import Verb
from tools_app.policy import LayerName

#: Whose id a layer's policy hangs on. A sub-agent is a session that another one started.
SUBJECTS = {
    "agent": "agents.Agent",
    "environment": "agents.Environment",
    "session": "sessions_app.Session",
    "subagent": "sessions_app.Session",
}
#: Who may change a layer, and who may let a risky tool act without asking there.
CHANGING: dict[str, Verb] = {"workspace": "admin", "session": "run", "subagent": "build"}
LOOSENING: dict[str, Verb] = {"session": "build"}


@dataclass(frozen=True, kw_only=True)
class Place:
    """The layer, and the object in it, that a policy binds."""

    workspace_id: UUID
    layer: LayerName
    subject_id: UUID

    @property
    def changing(self) -> Verb:
        return CHANGING.get(self.layer, "build")

    @property
    def loosening(self) -> Verb:
        return LOOSENING.get(self.layer, "admin")


def find_place(workspace_id: UUID, layer: LayerName, subject_id: UUID | None = None) -> Place:
    """Where a policy of this object is kept, if the workspace has such an object."""
    if layer == "workspace":
        return Place(workspace_id=workspace_id, layer=layer, subject_id=workspace_id)
    rows: Any = apps.get_model(SUBJECTS[layer])._default_manager
    if subject_id is None or not rows.for_workspace(workspace_id).filter(pk=subject_id).exists():
        raise NotFound
    return Place(workspace_id=workspace_id, layer=layer, subject_id=subject_id)


def place_of_agent(agent_id: UUID) -> Place:
    """Where the agent's own policy is kept."""
    workspace_id = Agent.objects.filter(pk=agent_id).values_list("workspace_id", flat=True).first()
    if workspace_id is None:
        raise NotFound
    return Place(workspace_id=workspace_id, layer="agent", subject_id=agent_id)
