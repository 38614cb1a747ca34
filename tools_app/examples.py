"""What every new workspace finds of tools: one skill that shows what a skill is."""

from __future__ import annotations

from tenants.models import User, Workspace
from tools_app.models import Skill

MEETING_NOTES = {
    "name": "meeting-notes",
    "description": "How to turn what was said in a meeting into notes that people act on.",
    "body": """\
# Meeting notes

1. Begin with the decision, or say that none was made.
2. Then the actions, one line each: **who** does **what** by **when**. Ask for what is missing; do \
not guess a name or a date.
3. Then open questions, each with the person who can answer it.
4. Leave out who said what, unless it matters for a decision.
5. At most one page. If the notes go to a file, name it `notes/YYYY-MM-DD-subject.md`.

## Shape

    # Subject, date
    Decided: …
    ## Actions
    - Name: what, by when
    ## Open
    - Question (who knows)
""",
}


def furnish(workspace: Workspace, owner: User | None) -> None:
    """Put the example into a new workspace."""
    Skill.objects.create(workspace=workspace, created_by=owner, **MEETING_NOTES)
