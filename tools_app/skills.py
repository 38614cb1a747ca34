"""Skills: Markdown documents that agents know by one line each, and read when they need them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet
from pydantic import Field, StringConstraints, field_validator

from agents.models import Agent
from core.db import lock_row, save_row
from core.validation import STORABLE, Input, read_change, read_input, wrong_field
from tenants.models import User, Workspace
from tools_app.models import Skill

SKILL_NAME_PATTERN = r"^[a-z][a-z0-9-]{1,59}$"
LONGEST_BODY = 100_000
#: How many skills a prompt lists. `sql/binding.sql` has the same number.
MOST_LISTED = 50
MOST_AGENTS = 200
HEADING = (
    "Skills\nDocuments that describe how something is done here. Before you do what one of them is "
    "about, load it with skill_load and follow it."
)


class SkillInput(Input):
    name: Annotated[str, StringConstraints(pattern=SKILL_NAME_PATTERN)]
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
            raise ValueError("The description must be one line of plain text.")
        return description


def create_skill(
    *, workspace_id: UUID, fields: Mapping[str, Any], created_by: User | None = None
) -> Skill:
    made = Skill(workspace_id=workspace_id, created_by=created_by)
    return _write(made, read_input(SkillInput, fields))


@transaction.atomic
def change_skill(row: Skill, fields: Mapping[str, Any], *, replace: bool = False) -> Skill:
    """Change the named fields, or with `replace` all of them, from each agent's next answer on."""
    held = lock_row(row)
    return _write(held, read_change(SkillInput, held, fields, replace=replace))


def _write(skill: Skill, given: SkillInput) -> Skill:
    known = Agent.objects.for_workspace(skill.workspace_id).filter(pk__in=given.agents)
    if missing := set(given.agents) - set(known.values_list("pk", flat=True)):
        raise wrong_field("agents", f"There is no agent {min(missing)} in this workspace.")
    return save_row(skill, given, what="A skill")


def skills_of(workspace_id: UUID, agent_id: UUID) -> QuerySet[Skill]:
    """Return the skills of an agent."""
    bound = Q(agents=[]) | Q(agents__contains=[agent_id])
    return Skill.objects.for_workspace(workspace_id).filter(bound, enabled=True)


def prompt_lines(skills: Iterable[tuple[str, str]]) -> str:
    """Return the list to add to an agent's instructions, or nothing, from names and descriptions."""
    lines = [f"- {name}: {description}" for name, description in skills]
    return "\n".join([HEADING, *lines]) if lines else ""


MEETING_NOTES = {
    "name": "meeting-notes",
    "description": "How to turn a meeting into notes that people act on.",
    "body": """\
# Meeting notes

1. Begin with the decision, or state that none was made.
2. List the actions, one line each: **who** does **what** by **when**. Ask for what is missing; do \
not guess a name or a date.
3. List open questions, each with the person who can answer it.
4. Leave out who said what, unless it matters for a decision.
5. Write at most one page. If the notes go to a file, name it `notes/YYYY-MM-DD-subject.md`.

## Shape

    # Subject, date
    Decided: …
    ## Actions
    - Name: what, by when
    ## Open
    - Question (who knows)
""",
}


def add_example_skill(workspace: Workspace, owner: User | None) -> None:
    """Add the example skill to a new workspace."""
    Skill.objects.create(workspace=workspace, created_by=owner, **MEETING_NOTES)
