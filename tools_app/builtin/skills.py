"""The tool that loads a skill."""

from __future__ import annotations

from pydantic import Field

from tools_app.exceptions import ToolFailed
from tools_app.registry import Arguments, Category, ToolContext, tool
from tools_app.skills import MOST_LISTED, skills_of


class LoadSkill(Arguments):
    name: str = Field(min_length=1, max_length=60, description="The skill's name, as listed.")


@tool(category=Category.SKILLS, read_only=True, seconds=10, title="Load a skill")
def skill_load(arguments: LoadSkill, context: ToolContext) -> str:
    """Load the text of a skill: a document that tells how something is done in this workspace."""
    skills = skills_of(context.workspace_id, context.agent_id)
    skill = skills.filter(name=arguments.name).first()
    if skill is None:
        known = ", ".join(skills.values_list("name", flat=True)[:MOST_LISTED]) or "none"
        raise ToolFailed(f"There is no skill named {arguments.name!r}. Available skills: {known}.")
    return skill.body
