"""What a draft proposes to the agent's policy: in words of rules, checked as if it were saved now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction

from agents import drafts
from agents.canvas import Author
from agents.drafts import Drafted
from agents.inputs import read_input
from agents.models import Agent
from tools_app.places import Place
from tools_app.policies import stored_policy
from tools_app.policy import Verdict
from tools_app.policy_input import (
    LISTS,
    PolicyInput,
    check_known,
    columns_of,
    layer_of,
    words_of,
)
from tools_app.rules import GROUP, parse_rule
from tools_app.workspace_tools import tools_of_workspace


def place_of(agent: Agent) -> Place:
    return Place(workspace_id=agent.workspace_id, layer="agent", subject_id=agent.pk)


def words_now(drafted: Drafted) -> dict[str, Any]:
    """The policy as the draft would have it, or as it is."""
    if drafted.row.policy is not None:
        return dict(drafted.row.policy)
    return words_of(stored_policy(place_of(drafted.agent)))


@transaction.atomic
def propose(
    agent: Agent,
    words: Mapping[str, Any] | None,
    *,
    author: Author,
    revision: int | None = None,
) -> Drafted:
    """Put a whole policy into the draft; None takes the proposal back."""
    held = drafts.hold(agent, revision)
    stored = stored_policy(place_of(agent))
    columns = None
    if words is not None:
        columns = columns_of(read_input(PolicyInput, words), "agent")
        check_known(layer_of("agent", columns), tools_of_workspace(agent.workspace_id))
        if columns == words_of(stored):
            columns = None
    return drafts.propose_policy(
        agent, columns, base=stored.revision, author=author, revision=held.row.revision
    )


@transaction.atomic
def propose_rules(
    agent: Agent,
    rules: Mapping[Verdict, Sequence[str]],
    *,
    profile: str | None = None,
    author: Author,
) -> Drafted:
    """Say anew what happens with these tools, and leave the rest of the policy as it is.

    An earlier rule of the same name gives way. To allow a tool is written `name(*)`, which unlike
    the bare name narrows no other.
    """
    words = words_now(drafts.hold(agent))
    if profile:
        words["profile"] = profile
    named = {parse_rule(rule).name for found in rules.values() for rule in found}
    for field in LISTS.values():
        words[field] = [rule for rule in words[field] if not _gives_way(rule, rules, named)]
    for verdict, found in rules.items():
        words[LISTS[verdict]] += [_written(verdict, rule) for rule in found]
    return propose(agent, words, author=author)


def _gives_way(rule: str, rules: Mapping[Verdict, Sequence[str]], named: set[str]) -> bool:
    """A rule about certain arguments stays, unless the very same is said anew."""
    parsed = parse_rule(rule)
    said = {one for found in rules.values() for one in found}
    return rule in said or (parsed.name in named and parsed.pattern in (None, "*"))


def _written(verdict: Verdict, rule: str) -> str:
    parsed = parse_rule(rule)
    plain = parsed.pattern is None and not parsed.name.startswith(GROUP)
    return f"{parsed.name}(*)" if verdict == "allow" and plain else rule
