"""A policy as a form: one choice per tool, and the rules that cover more than one tool.

A choice is a rule that names exactly one tool. A rule under `only` narrows the policy to its tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias
from uuid import UUID

from django.http import QueryDict

from agents.models import Agent
from core.exceptions import Invalid
from core.validation import read_input
from tools_app.policy import storage
from tools_app.policy.effective import load_agent_layers, load_session_binding
from tools_app.policy.evaluation import EffectivePolicy, Explanation
from tools_app.policy.rules import ORDER, PEER_RIGHTS, Layer
from tools_app.policy.storage import LISTS, RULE_LISTS, PolicyTarget
from tools_app.registry import Category, Tool
from tools_app.workspace_tools import tools_of_workspace

Choice: TypeAlias = Literal["default", "allow", "ask", "deny"]
#: Strictest first: the choice that is shown when two lists name the same tool.
STRICT_FIRST = ("deny", "ask", "allow")
#: Names the list that narrows a policy to some tools.
ONLY = "only"


@dataclass(frozen=True, kw_only=True)
class ExtraRule:
    """A rule that no tool's own choice can show."""

    verdict: str
    text: str


def current_choice(tool: str, fields: Mapping[str, Any]) -> Choice:
    """Return what this policy says about exactly this tool."""
    for verdict in STRICT_FIRST:
        if {tool, f"{tool}(*)"} & set(fields[LISTS[verdict]]):
            return verdict  # type: ignore[return-value]
    return "default"


def extra_rules(fields: Mapping[str, Any], tools: Iterable[str]) -> list[ExtraRule]:
    """Return every rule beside the choices: groups, globs, patterns and tools that do not exist now."""
    own = {rule for name in tools for rule in (name, f"{name}(*)")}
    return [
        ExtraRule(verdict=verdict, text=rule)
        for verdict in (*STRICT_FIRST, ONLY)
        for rule in fields[RULE_LISTS[verdict]]
        if rule not in own or verdict == ONLY
    ]


def narrows(fields: Mapping[str, Any]) -> list[str]:
    """Return the rules that leave only the tools that they name."""
    return list(fields["allowed_tools"])


def fields_from_choices(
    given: Mapping[str, Any],
    choices: Mapping[str, str],
    rules: Iterable[ExtraRule],
    before: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the policy that these choices and rules make. An unchanged choice keeps its own rule."""
    lists: dict[str, list[str]] = {name: [] for name in RULE_LISTS.values()}
    for tool, choice in choices.items():
        if choice == current_choice(tool, before):
            for name in LISTS.values():
                lists[name] += [one for one in before[name] if one in (tool, f"{tool}(*)")]
        elif choice in LISTS:
            lists[LISTS[choice]].append(tool)
    for rule in rules:
        if rule.verdict in RULE_LISTS and rule.text:
            lists[RULE_LISTS[rule.verdict]].append(rule.text)
    return {
        "profile": given.get("profile") or None,
        "max_tool_calls_per_turn": given.get("max_tool_calls_per_turn"),
        "peers": given.get("peers", []),
        **{name: _in_old_order(rules, before[name]) for name, rules in lists.items()},
    }


def _in_old_order(rules: list[str], before: Iterable[str]) -> list[str]:
    """Keep the old order, so that an unchanged policy stays equal."""
    once = list(dict.fromkeys(rules))
    old = [rule for rule in before if rule in once]
    return [*old, *(rule for rule in once if rule not in old)]


def changes(before: Mapping[str, Any], after: Mapping[str, Any], workspace_id: UUID) -> list[str]:
    """Describe each change of a policy in one line."""
    lines = []
    if before["profile"] != after["profile"]:
        lines.append(f"Profile: {before['profile'] or 'none'} \u2192 {after['profile'] or 'none'}")
    most = "max_tool_calls_per_turn"
    if before[most] != after[most]:
        lines.append(f"Calls per turn: {_number(before[most])} \u2192 {_number(after[most])}")
    for verdict in (*STRICT_FIRST, ONLY):
        name = RULE_LISTS[verdict]
        lines += [f"+ {verdict} {rule}" for rule in after[name] if rule not in before[name]]
        lines += [f"\u2212 {verdict} {rule}" for rule in before[name] if rule not in after[name]]
    return lines + _peer_changes(before.get("peers", []), after.get("peers", []), workspace_id)


def _peer_changes(
    before: list[dict[str, Any]], after: list[dict[str, Any]], workspace_id: UUID
) -> list[str]:
    if before == after:
        return []
    names = _agent_names(workspace_id, [peer["agent"] for peer in (*before, *after)])
    lines = []
    for sign, ours, others in (("+", after, before), ("\u2212", before, after)):
        other = {peer["agent"]: peer["may"] for peer in others}
        for peer in ours:
            if rights := [one for one in peer["may"] if one not in other.get(peer["agent"], ())]:
                name = names.get(str(peer["agent"]), peer["agent"])
                lines.append(f"{sign} peer {name}: {', '.join(rights)}")
    return lines


def _agent_names(workspace_id: UUID, ids: Iterable[str]) -> dict[str, str]:
    agents = Agent.objects.for_workspace(workspace_id).known().filter(pk__in=list(ids))
    return {str(pk): name for pk, name in agents.values_list("pk", "current__name")}


@dataclass(frozen=True, kw_only=True)
class PeerRow:
    """An agent that the policy names as a peer, or could name."""

    agent_id: str
    name: str
    may: tuple[str, ...] = ()


def peer_rows(
    target: PolicyTarget, fields: Mapping[str, Any], agents: Iterable[tuple[UUID, str]]
) -> list[PeerRow]:
    """Return the peers of an agent, and then the other agents of the workspace."""
    if target.layer != "agent":
        return []
    may = {str(peer["agent"]): tuple(peer["may"]) for peer in fields["peers"]}
    names = {str(pk): name for pk, name in agents}
    if absent := may.keys() - names.keys():  # archived, or beyond those that are listed
        names |= _agent_names(target.workspace_id, absent)
    rows = [
        PeerRow(agent_id=pk, name=name, may=may.get(pk, ()))
        for pk, name in names.items()
        if pk != str(target.subject_id) or pk in may
    ]
    return sorted(rows, key=lambda row: not row.may)


def _number(value: Any) -> str:
    return "no limit" if value is None else str(value)


#: The tools that people mostly decide about come first, those that serve Switchyard itself last.
CHOICE_ORDER = [
    Category.EXEC,
    Category.FILESYSTEM,
    Category.WEB,
    Category.MCP,
    Category.CUSTOM,
    Category.MESSAGING,
    Category.MEMORY,
    Category.SESSION,
    Category.SKILLS,
    Category.TIME,
    Category.CANVAS,
    Category.BUILDER,
]


def by_category(tools: Mapping[str, Tool]) -> dict[str, list[Tool]]:
    """Group the tools by category, sorted by name. Categories of plugins come last."""
    order: dict[str, int] = {category: place for place, category in enumerate(CHOICE_ORDER)}
    groups: dict[str, list[Tool]] = {}
    for tool in sorted(
        tools.values(),
        key=lambda one: (order.get(one.category, len(order)), one.category, one.name),
    ):
        groups.setdefault(str(tool.category), []).append(tool)
    return groups


CHOICE, PEER = "choice:", "peer:"


def fields_from_form(
    post: QueryDict, target: PolicyTarget, tools: Iterable[str], before: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the validated policy that the form describes, as it would be stored."""
    choices, rules = choices_from_form(post, tools), rules_from_form(post)
    given = {
        "profile": post.get("profile"),
        "max_tool_calls_per_turn": _call_limit(post),
        "peers": _peers_from_form(post),
    }
    fields = fields_from_choices(given, choices, rules, before)
    return storage.policy_columns(read_input(storage.PolicyInput, fields), target.layer)


def _peers_from_form(post: QueryDict) -> list[dict[str, Any]]:
    ticked = {right: post.getlist(f"{PEER}{right}") for right in PEER_RIGHTS}
    named = dict.fromkeys(agent for agents in ticked.values() for agent in agents)
    return [
        {"agent": agent, "may": [right for right in PEER_RIGHTS if agent in ticked[right]]}
        for agent in sorted(named)
    ]


def choices_from_form(post: QueryDict, tools: Iterable[str]) -> dict[str, str]:
    return {name: post.get(f"{CHOICE}{name}", "default") for name in tools}


def rules_from_form(post: QueryDict) -> list[ExtraRule]:
    return [
        ExtraRule(verdict=verdict, text=text.strip())
        for verdict, text in zip(post.getlist("verdict"), post.getlist("rule"), strict=False)
    ]


def _call_limit(post: QueryDict) -> int | None:
    name = "max_tool_calls_per_turn"
    number = number_from_form(post, name)
    if number is None and post.get(name, "").strip():
        raise Invalid("Calls per turn must be a whole number.")
    return number


def number_from_form(post: QueryDict, name: str) -> int | None:
    """Return a number from the form, or None."""
    text = post.get(name, "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else None


NAMES = {
    "workspace": "the workspace ceiling",
    "agent": "the agent",
    "environment": "the environment",
    "session": "the session",
    "subagent": "the parent session",
    "default": "the default",
}
VERBS = {"allow": "Allowed", "ask": "Asks first", "deny": "Denied"}


@dataclass(frozen=True, kw_only=True)
class Change:
    """A tool whose decision would change."""

    tool: str
    was: str
    becomes: str


def layers_around(target: PolicyTarget) -> tuple[Layer, ...]:
    """Return all layers that apply to this target as they are stored now."""
    match target.layer:
        case "agent":
            agent = Agent.objects.select_related("current").get(pk=target.subject_id)
            return load_agent_layers(agent.current) if agent.current else ()
        case "session":
            bound = load_session_binding(target.subject_id)
            return bound.layers if bound else ()
        case "environment":
            ceiling = storage.find_target(target.workspace_id, "workspace")
            return (
                storage.to_layer("workspace", storage.stored_policy(ceiling)),
                storage.to_layer("environment", storage.stored_policy(target)),
            )
        case _:
            return (storage.to_layer("workspace", storage.stored_policy(target)),)


def effective(target: PolicyTarget, fields: Mapping[str, Any]) -> EffectivePolicy:
    """Return the effective policy if the target had this policy."""
    own = storage.to_layer(target.layer, fields)
    return EffectivePolicy.of(
        _with(layers_around(target), own), tools_of_workspace(target.workspace_id)
    )


def _with(layers: Sequence[Layer], own: Layer) -> tuple[Layer, ...]:
    """Replace one layer. A subagent stays bound by its parent."""
    by_name = {layer.name: layer for layer in layers}
    before = by_name.get(own.name)
    if before and before.parent:
        own = replace(own, parent=before.parent)
    by_name[own.name] = own
    return tuple(by_name[name] for name in ORDER if name in by_name)


def sentence(explanation: Explanation) -> str:
    """Describe a decision and its reason, as in `Denied by the workspace ceiling: group:exec.`"""
    verdict = VERBS[explanation.decision]
    if not explanation.chain:
        return f"{verdict}: {explanation.rule}."
    if explanation.layer == "default":
        return f"{verdict} by default."
    layer = NAMES.get(explanation.layer, explanation.layer)
    # The sentence begins with the verdict, so the rule does not repeat it.
    rule = re.sub(r"^(allowed|denied|asked) ", "", explanation.rule)
    rule = re.sub(r"^outside ", "not covered by ", rule)
    return f"{verdict}{',' if explanation.decision == 'ask' else ''} by {layer}: {rule}."


def differences(before: EffectivePolicy, after: EffectivePolicy) -> list[Change]:
    """Return the tools whose decision changes."""
    return [
        Change(tool=name, was=before[name].decision, becomes=after[name].decision)
        for name in sorted(after)
        if name in before and before[name].decision != after[name].decision
    ]
