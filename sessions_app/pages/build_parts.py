"""What the builder page shows beside the chat: changes, canvas, policy, in words for people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from agents import canvas
from agents.canvas_layout import HEIGHT, WIDTH, lay_out
from agents.drafts import Drafted
from agents.models import DraftChange
from agents.undoing import open_changes
from tools_app.pages.choices import by_category, changes
from tools_app.pages.effect import effective, sentence
from tools_app.pages.places import url_of
from tools_app.policies import stored_policy
from tools_app.policy_input import FIELDS, PolicyInput, columns_of
from tools_app.proposals import place_of, words_now
from tools_app.registry import Category

MOST_CHANGES = 50
SHOWN = 80
PARTS = {"system_prompt": "Instructions", "max_tokens": "Longest answer"}


@dataclass(frozen=True, kw_only=True)
class Change:
    """One line of the list of changes."""

    id: UUID
    part: str
    title: str
    before: str
    after: str
    author: str
    at: datetime


def changes_of(drafted: Drafted) -> list[Change]:
    return [
        Change(
            id=row.pk,
            part=row.part,
            title=PARTS.get(row.part, row.part.replace("_", " ").capitalize()),
            before=_said(row.part, row.before),
            after=_after(row),
            author=_author(row),
            at=row.created_at,
        )
        for row in open_changes(drafted.agent)[:MOST_CHANGES]
    ]


def _author(row: DraftChange) -> str:
    if row.session_id:
        return "Builder"
    return row.created_by.display_name if row.created_by else "Somebody"


def _after(row: DraftChange) -> str:
    if row.part != DraftChange.POLICY:
        return _said(row.part, row.after)
    nothing = columns_of(PolicyInput(), "agent")
    return "; ".join(changes(row.before or nothing, row.after or nothing)) or "Taken back"


def _said(part: str, value: Any) -> str:
    if part == DraftChange.POLICY:
        return ""
    if part == DraftChange.CANVAS:
        return f"revision {value}" if value else "empty"
    if isinstance(value, dict):
        return ", ".join(f"{name.removeprefix('max_')} {one}" for name, one in value.items())[
            :SHOWN
        ]
    text = " ".join(str("" if value is None else value).split())
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def canvas_of(drafted: Drafted) -> dict[str, Any]:
    drawn = canvas.read(drafted.agent)
    names = {node.id: node.name or node.id for node in drawn.graph.nodes}
    return {
        "drawn": drawn,
        "paper": lay_out(drawn.graph),
        "box_width": WIDTH,
        "box_height": HEIGHT,
        "problems": [
            (names.get(one.node or "", ""), one)
            for one in (canvas.validate(drafted.agent, drawn.graph) if drawn.graph.nodes else [])
        ],
    }


def policy_of(drafted: Drafted) -> dict[str, Any]:
    """What the draft would say about tools, and what would follow."""
    place = place_of(drafted.agent)
    words = words_now(drafted)
    policy = effective(place, words)
    stored = stored_policy(place)
    groups = {
        name: [
            (tool, policy[tool.name].decision, sentence(policy.explain(tool.name)))
            for tool in tools
        ]
        for name, tools in by_category(policy.tools).items()
        if name != Category.BUILDER
    }
    return {
        "profile": words["profile"],
        "lines": changes({name: getattr(stored, name) for name in FIELDS}, words),
        "groups": groups,
        "url": url_of(place),
    }
