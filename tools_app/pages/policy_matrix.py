"""A policy as a form: one choice per tool, and the rules that cover more than one tool.

A choice is a rule that names exactly one tool. Allowing a tool is written `name(*)`, which unlike
the bare name does not narrow the policy to that tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from django.http import QueryDict

from agents.models import Agent
from core.exceptions import Invalid
from core.validation import read_input
from tools_app.policy import storage
from tools_app.policy.effective import load_agent_layers, load_session_binding
from tools_app.policy.evaluation import EffectivePolicy, Explanation
from tools_app.policy.rules import ORDER, Layer
from tools_app.policy.storage import LISTS, PolicyTarget
from tools_app.registry import Category, Tool
from tools_app.workspace_tools import tools_of_workspace

Choice: TypeAlias = Literal["default", "allow", "ask", "deny"]
#: Strictest first: the choice that is shown when two lists name the same tool.
STRICT_FIRST = ("deny", "ask", "allow")


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
        for verdict in STRICT_FIRST
        for rule in fields[LISTS[verdict]]
        if rule not in own
    ]


def narrows(fields: Mapping[str, Any]) -> list[str]:
    """Return the bare names, which cause all other tools to be denied."""
    return [rule for rule in fields["allowed_tools"] if not rule.endswith(")")]


def fields_from_choices(
    given: Mapping[str, Any],
    choices: Mapping[str, str],
    rules: Iterable[ExtraRule],
    before: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the policy that these choices and rules make. An unchanged choice keeps its own rule."""
    lists: dict[str, list[str]] = {name: [] for name in LISTS.values()}
    for tool, choice in choices.items():
        if choice == current_choice(tool, before):
            for name in LISTS.values():
                lists[name] += [one for one in before[name] if one in (tool, f"{tool}(*)")]
        elif choice in LISTS:
            lists[LISTS[choice]].append(f"{tool}(*)" if choice == "allow" else tool)
    for rule in rules:
        if rule.verdict in LISTS and rule.text:
            lists[LISTS[rule.verdict]].append(rule.text)
    return {
        "profile": given.get("profile") or None,
        "max_tool_calls_per_turn": given.get("max_tool_calls_per_turn"),
        **{name: _in_old_order(rules, before[name]) for name, rules in lists.items()},
    }


def _in_old_order(rules: list[str], before: Iterable[str]) -> list[str]:
    """Keep the old order, so that an unchanged policy stays equal."""
    once = list(dict.fromkeys(rules))
    old = [rule for rule in before if rule in once]
    return [*old, *(rule for rule in once if rule not in old)]


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Describe each change of a policy in one line."""
    lines = []
    if before["profile"] != after["profile"]:
        lines.append(f"Profile: {before['profile'] or 'none'} \u2192 {after['profile'] or 'none'}")
    most = "max_tool_calls_per_turn"
    if before[most] != after[most]:
        lines.append(f"Calls per turn: {_number(before[most])} \u2192 {_number(after[most])}")
    for verdict in STRICT_FIRST:
        name = LISTS[verdict]
        lines += [f"+ {verdict} {rule}" for rule in after[name] if rule not in before[name]]
        lines += [f"\u2212 {verdict} {rule}" for rule in before[name] if rule not in after[name]]
    return lines


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
    """Group the tools by category, sorted by name."""
    groups: dict[str, list[Tool]] = {}
    for tool in sorted(
        tools.values(), key=lambda one: (CHOICE_ORDER.index(one.category), one.name)
    ):
        groups.setdefault(tool.category.value, []).append(tool)
    return groups


CHOICE = "choice:"


def fields_from_form(
    post: QueryDict, target: PolicyTarget, tools: Iterable[str], before: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the validated policy that the form describes, as it would be stored."""
    choices = {name: post.get(f"{CHOICE}{name}", "default") for name in tools}
    rules = [
        ExtraRule(verdict=verdict, text=text.strip())
        for verdict, text in zip(post.getlist("verdict"), post.getlist("rule"), strict=False)
    ]
    given = {
        "profile": post.get("profile"),
        "max_tool_calls_per_turn": _call_limit(post),
    }
    fields = fields_from_choices(given, choices, rules, before)
    return storage.policy_columns(read_input(storage.PolicyInput, fields), target.layer)


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
