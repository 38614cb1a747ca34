"""What the policy page shows: the matrix with its reasons, the rules, the past."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from tenants.access import Principal
from tools_app.loosening import GUARDED
from tools_app.pages.choices import by_category, changes, choice_of, narrows, rules_of
from tools_app.pages.effect import effective, sentence, told
from tools_app.pages.places import TITLES, WORDS, options, url_of
from tools_app.places import Place
from tools_app.policies import history_of, said_at, stored_policy
from tools_app.policy_input import words_of
from tools_app.profiles import PROFILES
from tools_app.registry import Category

MOST_REVISIONS = 20
#: Empty rows at the end of the list of rules, for pages without a script.
SPARE_RULES = 2
CHOICES = (("default", "Default"), ("allow", "Allow"), ("ask", "Ask"), ("deny", "Deny"))
PROFILE_WORDS = {
    "minimal": "read and search only",
    "coding": "files, web, memory, commands",
    "messaging": "messages, web, memory",
    "full": "everything",
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One tool of the matrix."""

    name: str
    title: str
    words: str
    choice: str
    decision: str
    why: str
    asks: bool
    guarded: bool


@dataclass(frozen=True, kw_only=True)
class Revision:
    number: int
    author: str
    created_at: datetime | None
    lines: list[str]
    reverts_to: int | None
    is_newest: bool


def context_of(principal: Principal, place: Place, words: Mapping[str, Any]) -> dict[str, Any]:
    stored = stored_policy(place)
    policy = effective(place, words)
    groups = {
        name: [_row(tool, policy, words) for tool in tools]
        for name, tools in by_category(policy.tools).items()
    }
    chosen = options(place.workspace_id, place)
    current = next((one for group in chosen.values() for one in group if one.is_current), None)
    return {
        "place": place,
        "place_url": url_of(place),
        "place_name": current.name if current else "",
        "place_kind": TITLES[place.layer],
        "place_words": WORDS[place.layer],
        "places": chosen,
        "words": words,
        "groups": groups,
        "tool_names": sorted(policy.tools),
        "rules": rules_of(words, policy.tools),
        "spare": range(SPARE_RULES),
        "narrows": narrows(words),
        "profiles": [(name, PROFILE_WORDS.get(name, "")) for name in PROFILES],
        "choices": CHOICES,
        "revision": stored.revision,
        "history": past_of(place),
        "may_change": principal.may(place.changing),
        "only_agent_lifts": place.layer != "agent",
    }


def _row(tool: Any, policy: Any, words: Mapping[str, Any]) -> Row:
    said = policy.explain(tool.name)
    return Row(
        name=tool.name,
        title=tool.title,
        words=told(tool),
        choice=choice_of(tool.name, words),
        decision=said.decision,
        why=sentence(said),
        asks=tool.permission == "always_ask",
        guarded=tool.category in GUARDED and tool.category != Category.MCP,
    )


def past_of(place: Place) -> list[Revision]:
    """The newest revisions with what each changed, and the beginning if it is among them."""
    rows = list(history_of(place)[: MOST_REVISIONS + 1])
    texts = [words_of(row) for row in rows]
    if len(rows) <= MOST_REVISIONS:
        texts.append(said_at(place, 0))
    return [
        Revision(
            number=row.revision,
            author=row.author or "Switchyard",
            created_at=row.created_at,
            lines=changes(before, after),
            reverts_to=row.reverts_to,
            is_newest=number == 0,
        )
        for number, (row, (after, before)) in enumerate(zip(rows, pairwise(texts), strict=False))
    ]
