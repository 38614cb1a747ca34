"""The skills that an agent can load when it needs them, as lines of its instructions."""

from __future__ import annotations

from sessions_app.context.subject import Subject
from tools_app.skills import prompt_lines


def skills_text(subject: Subject) -> str:
    """Nothing for an agent that may not load any."""
    if "skill_load" not in subject.tools:
        return ""
    return prompt_lines(subject.workspace_id, subject.agent_id).strip()
