"""Skills: Markdown documents that agents know by one line each, and read when they need them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet
from pydantic import Field, StringConstraints, field_validator

from agents.inputs import STORABLE, Input, read_input, wrong_field
from agents.models import Agent
from agents.named_rows import hold, read_change, write
from config.faults import NotFound
from tenants.models import User
from tools_app.models import Skill

NAME_PATTERN = r"^[a-z][a-z0-9-]{1,59}$"
LONGEST_BODY = 100_000
#: How many skills a prompt lists.
MOST_LISTED = 50
MOST_AGENTS = 200
HEADING = (
    "Skills\nDocuments that tell how something is done here. Before you do what one of them is "
    "about, load it with skill_load and follow it."
)


class SkillInput(Input):
    name: Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
    description: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300), STORABLE
    ]
    body: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_BODY), STORABLE]
    agents: list[UUID] = Field(default_factory=list, max_length=MOST_AGENTS)
    enabled: bool = True

    @field_validator("description")
    @classmethod
    def one_line(cls, description: str) -> str:
        if not description.isprintable():
            raise ValueError("The description is one line of plain text.")
        return description


def create_skill(
    *, workspace_id: UUID, fields: Mapping[str, Any], created_by: User | None = None
) -> Skill:
    made = Skill(workspace_id=workspace_id, created_by=created_by)
    return _write(made, read_input(SkillInput, fields))


@transaction.atomic
def change_skill(skill: Skill, changes: Mapping[str, Any], *, replace: bool = False) -> Skill:
    """Change what is named, or everything. It counts from the next answer of each agent on."""
    held = hold(skill)
    return _write(held, read_change(SkillInput, held, changes, replace=replace))


def _write(skill: Skill, given: SkillInput) -> Skill:
    known = Agent.objects.for_workspace(skill.workspace_id).filter(pk__in=given.agents)
    if missing := set(given.agents) - set(known.values_list("pk", flat=True)):
        raise wrong_field("agents", f"There is no agent {min(missing)} here.")
    return write(skill, given, what="A skill")


def skills_of(workspace_id: UUID, agent_id: UUID) -> QuerySet[Skill]:
    """The skills that an agent has."""
    bound = Q(agents=[]) | Q(agents__contains=[agent_id])
    return Skill.objects.for_workspace(workspace_id).filter(bound, enabled=True)


def prompt_lines(workspace_id: UUID, agent_id: UUID) -> str:
    """What to add to an agent's instructions: its skills by name, or nothing. One query."""
    rows = skills_of(workspace_id, agent_id).values_list("name", "description")[:MOST_LISTED]
    lines = [f"- {name}: {description}" for name, description in rows]
    return "\n".join(["", "", HEADING, *lines]) if lines else ""


def load_skill(workspace_id: UUID, agent_id: UUID, name: str) -> Skill:
    """A skill that the agent has, by its name."""
    found = skills_of(workspace_id, agent_id).filter(name=name).first()
    if found is None:
        raise NotFound(f"There is no skill named {name!r}.")
    return found
