"""Stores policies: reads them, changes them with a revision for every change, and reverts them.

A policy is one row with its current rules, and one immutable revision per change.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, cast
from uuid import UUID

from django.apps import apps
from django.db import transaction
from pydantic import AfterValidator, Field, StringConstraints, field_validator

from agents.models import Agent
from core.exceptions import Conflict, Forbidden, InvalidFields, NotFound
from core.validation import STORABLE, FieldError, Input, describe_errors, field_error, read_input
from tenants.access import Principal, Verb, authorise
from tenants.models import User
from tools_app.models import RULE_LENGTH, PolicyFields, PolicyRevision, ToolPolicy
from tools_app.policy import rules
from tools_app.policy.evaluation import decide, judge
from tools_app.policy.rules import (
    PEER_RIGHTS,
    STRICTNESS,
    Layer,
    LayerName,
    Peer,
    PeerRight,
    Verdict,
    parse_rule,
)
from tools_app.registry import Arguments, Category, Tool, categories
from tools_app.workspace_tools import tools_of_workspace

#: The model whose id a layer's policy belongs to. A subagent is a session that another one started.
SUBJECTS = {
    "agent": "agents.Agent",
    "environment": "agents.Environment",
    "session": "sessions_app.Session",
    "subagent": "sessions_app.Session",
}
#: The right that changing a layer takes, and the one that loosening it for guarded tools takes.
CHANGE_VERBS: dict[str, Verb] = {"workspace": "admin", "session": "run", "subagent": "build"}
LOOSEN_VERBS: dict[str, Verb] = {"session": "build"}


@dataclass(frozen=True, kw_only=True)
class PolicyTarget:
    """The layer, and the object in it, that a policy binds."""

    workspace_id: UUID
    layer: LayerName
    subject_id: UUID

    @property
    def changing(self) -> Verb:
        return CHANGE_VERBS.get(self.layer, "build")

    @property
    def loosening(self) -> Verb:
        return LOOSEN_VERBS.get(self.layer, "admin")


def find_target(
    workspace_id: UUID, layer: LayerName, subject_id: UUID | None = None
) -> PolicyTarget:
    """Return the target of a policy. Raise NotFound if the workspace has no such object."""
    if layer == "workspace":
        return PolicyTarget(workspace_id=workspace_id, layer=layer, subject_id=workspace_id)
    rows: Any = apps.get_model(SUBJECTS[layer])._default_manager
    if subject_id is None or not rows.for_workspace(workspace_id).filter(pk=subject_id).exists():
        raise NotFound
    return PolicyTarget(workspace_id=workspace_id, layer=layer, subject_id=subject_id)


def agent_target(agent: Agent | UUID | str) -> PolicyTarget:
    """Return the target of an agent's policy."""
    found = agent if isinstance(agent, Agent) else Agent.objects.filter(pk=agent).first()
    if found is None:
        raise NotFound
    return PolicyTarget(workspace_id=found.workspace_id, layer="agent", subject_id=found.pk)


MOST_RULES = 200
MOST_CALLS = 10_000
MOST_PEERS = 50
#: The prefix of MCP tools. They come and go with their servers, so a rule may match none today.
MCP_PREFIX = f"{Category.MCP}:"
#: Names of tools in other runtimes. People deny them by habit, so that is not reported as an error.
FOREIGN_NAMES = frozenset({"bash", "shell"})
FIELDS = (
    *("profile", "allowed_tools", "denied_tools", "ask_tools", "approved_tools"),
    *("max_tool_calls_per_turn", "peers"),
)
#: The list of a policy that holds the rules of each verdict.
LISTS = {"allow": "approved_tools", "ask": "ask_tools", "deny": "denied_tools"}
#: All lists of rules, with the one that says which tools there are at all.
RULE_LISTS = {**LISTS, "only": "allowed_tools"}

RuleText = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=RULE_LENGTH),
    STORABLE,
]


#: Each rule once, in the order given.
Rules = Annotated[
    tuple[RuleText, ...],
    Field(max_length=MOST_RULES),
    AfterValidator(lambda texts: tuple(dict.fromkeys(texts))),
]


class PeerInput(Input):
    agent: UUID
    may: Annotated[
        tuple[PeerRight, ...],
        Field(min_length=1),
        AfterValidator(lambda rights: tuple(one for one in PEER_RIGHTS if one in rights)),
    ]


class PolicyInput(Input):
    profile: str | None = None
    allowed_tools: Rules = ()
    denied_tools: Rules = ()
    ask_tools: Rules = ()
    approved_tools: Rules = ()
    max_tool_calls_per_turn: int | None = Field(default=None, ge=0, le=MOST_CALLS, strict=True)
    peers: tuple[PeerInput, ...] = Field(default=(), max_length=MOST_PEERS)

    @field_validator("profile")
    @classmethod
    def known_profile(cls, profile: str | None) -> str | None:
        if profile is not None and profile not in rules.PROFILES:
            raise ValueError(f"The profile is one of {', '.join(rules.PROFILES)}.")
        return profile

    @field_validator("peers")
    @classmethod
    def each_agent_once(cls, peers: tuple[PeerInput, ...]) -> tuple[PeerInput, ...]:
        if len({peer.agent for peer in peers}) < len(peers):
            raise ValueError("Name each agent once.")
        return tuple(sorted(peers, key=lambda peer: peer.agent))


def policy_fields(stored: PolicyFields) -> dict[str, Any]:
    """Return the fields of a stored policy, or of one of its revisions."""
    return {name: getattr(stored, name) for name in FIELDS}


def policy_columns(given: PolicyInput, layer: str) -> dict[str, Any]:
    """Return the fields as a row holds them. An agent always has a profile; other layers need none."""
    columns = given.model_dump(mode="json")
    if layer == "agent" and not columns["profile"]:
        columns["profile"] = rules.DEFAULT_PROFILE
    return columns


def to_layer(name: LayerName, stored: PolicyFields | Mapping[str, Any]) -> Layer:
    """Build a layer from a row or its fields."""
    fields = stored if isinstance(stored, Mapping) else policy_fields(stored)
    return Layer(
        name=name,
        profile=fields["profile"],
        allowed=tuple(fields["allowed_tools"]),
        denied=tuple(fields["denied_tools"]),
        asked=tuple(fields["ask_tools"]),
        approved=tuple(fields.get("approved_tools", ())),
        max_tool_calls_per_turn=fields["max_tool_calls_per_turn"],
        peers=tuple(
            Peer(agent_id=UUID(str(peer["agent"])), may=tuple(peer["may"]))
            for peer in fields.get("peers", ())
        ),
    )


def layer_fields(layer: Layer) -> dict[str, Any]:
    """Return the fields that a layer is saved with."""
    return {
        "profile": layer.profile,
        "allowed_tools": layer.allowed,
        "denied_tools": layer.denied,
        "ask_tools": layer.asked,
        "approved_tools": layer.approved,
        "max_tool_calls_per_turn": layer.max_tool_calls_per_turn,
        "peers": [{"agent": str(peer.agent_id), "may": peer.may} for peer in layer.peers],
    }


def check_rules(layer: Layer, tools: Mapping[str, Tool], workspace_id: UUID) -> None:
    """Raise InvalidFields for rules that match no tool: in an allow list, one would deny silently.

    Peers must be agents of the workspace.
    """
    fields = layer_fields(layer)
    errors = _peer_errors(layer, workspace_id)
    for field in RULE_LISTS.values():
        unmatched = rules.unknown_rules(fields[field], tools)
        if unknown := [rule for rule in unmatched if not _may_match_later(rule, field)]:
            message = f"No tool is named {', '.join(unknown)}."
            errors.append(field_error((field,), message, "invalid"))
    if errors:
        raise InvalidFields(describe_errors(errors), errors=errors)


def _peer_errors(layer: Layer, workspace_id: UUID) -> list[FieldError]:
    if not layer.peers:
        return []
    if layer.name != "agent":
        return [field_error(("peers",), "Only the policy of an agent can have peers.", "invalid")]
    named = [peer.agent_id for peer in layer.peers]
    agents = Agent.objects.for_workspace(workspace_id).known().filter(pk__in=named)
    unknown = set(named) - set(agents.values_list("pk", flat=True))
    message = f"This workspace has no agent {', '.join(sorted(map(str, unknown)))}."
    return [field_error(("peers",), message, "invalid")] if unknown else []


def _may_match_later(rule: str, field: str) -> bool:
    """Return whether a rule may be right although no tool matches it now."""
    name = parse_rule(rule).name
    if name.startswith(rules.GROUP):
        return name.removeprefix(rules.GROUP) in categories()
    if name in FOREIGN_NAMES and field == "denied_tools":
        return True
    # Denying a tool that does not exist yet is prudent; allowing one by name is most likely a slip.
    return name.startswith(MCP_PREFIX) and ("*" in name or field in ("denied_tools", "ask_tools"))


#: Calls of these reach beyond the session, so letting them act without asking takes a higher right.
GUARDED = frozenset({Category.EXEC, Category.MESSAGING, Category.MCP})


def loosened_tools(before: Layer, after: Layer, tools: Iterable[Tool]) -> list[str]:
    """Return the guarded tools that could act without asking after the change, but not before it.

    Rules are compared by the tools that they name and not by every call they may match, so a
    reworded rule counts as a change. Rules about tools of servers yet to come count as well.
    """
    known = list(tools)
    future = _future_tools(before, after, {tool.name for tool in known})
    guarded = (tool for tool in (*known, *future) if _is_guarded(tool))
    return [tool.name for tool in guarded if _loosens(before, after, tool)]


def _future_tools(before: Layer, after: Layer, known: Container[str]) -> Iterator[Tool]:
    """Yield, for each rule that covers MCP tools yet to come, one tool that it would cover."""
    lists = [
        (layer.allowed, layer.denied, layer.asked, layer.approved) for layer in (before, after)
    ]
    written = (rule for four in lists for each in four for rule in each)
    for name in dict.fromkeys(parse_rule(rule).name for rule in written):
        literal = re.split(r"[*?\[]", name, maxsplit=1)[0]
        if name == f"{rules.GROUP}{Category.MCP}":
            yield _future_tool(f"{MCP_PREFIX}*")
        elif literal.startswith(MCP_PREFIX) or (literal != name and MCP_PREFIX.startswith(literal)):
            sample = re.sub(r"\[(!?)(.[^\]]*)\]", _sample_character, name)
            if sample not in known:
                yield _future_tool(sample)


def _sample_character(choice: re.Match[str]) -> str:
    """Return a character that `[abc]` or `[!abc]` matches."""
    excluded, signs = bool(choice[1]), choice[2]
    return next((one for one in "*0ax~" if one not in signs), "") if excluded else signs[0]


def _future_tool(name: str) -> Tool:
    return Tool(
        name=name,
        title=name,
        description="",
        arguments=Arguments,
        category=Category.MCP,
        permission="always_ask",
        seconds=0,
        handler=lambda arguments, context: None,
    )


def _is_guarded(tool: Tool) -> bool:
    # A question cannot be answered without the person whom it asks.
    return not tool.asks and (tool.category in GUARDED or tool.permission == "always_ask")


def _loosens(before: Layer, after: Layer, tool: Tool) -> bool:
    was, becomes = _verdict(before, tool), _verdict(after, tool)
    lifting = _lifting(after, tool)
    free = becomes == "allow" or bool(lifting) or after.name != "agent"
    if STRICTNESS[becomes] < STRICTNESS[was] and free:
        return True
    if becomes == "deny":
        return False
    restricting = _rules_for((*before.denied, *before.asked), tool)
    dropped = restricting - _rules_for((*after.denied, *after.asked), tool)
    if after.name == "agent":
        # Only here does a rule lift the question; without one the tool still asks.
        return bool(lifting - _lifting(before, tool) or (dropped and lifting))
    outside = {rule for rule in _rules_for(before.allowed, tool) if parse_rule(rule).pattern}
    same = _rules_for(after.allowed, tool) == _rules_for(before.allowed, tool)
    return bool(dropped or (outside and not same))


def _lifting(layer: Layer, tool: Tool) -> set[str]:
    """Return the rules that let calls of this tool run without asking."""
    exact = {rule for rule in _rules_for(layer.allowed, tool) if parse_rule(rule).pattern}
    return exact | _rules_for(layer.approved, tool)


def _verdict(layer: Layer, tool: Tool) -> Verdict:
    """Return the verdict if no other layer has rules. Only the agent's layer lifts a question."""
    if layer.name == "agent":
        return decide(tool.name, [layer], tools={tool.name: tool}).decision
    return judge(tool, layer, None).verdict


def _rules_for(texts: Iterable[str], tool: Tool) -> set[str]:
    return {rule for rule in texts if rules.matches_tool(rule, tool)}


def adds_peers(before: Layer, after: Layer) -> bool:
    """Return whether the agent could do more with the sessions of other agents."""
    return any(
        rules.peer_ids([after], right) - rules.peer_ids([before], right) for right in PEER_RIGHTS
    )


def stored_policy(target: PolicyTarget) -> ToolPolicy:
    """Return the policy's row, or an unsaved one with the defaults that apply without it."""
    found = _rows(target).first()
    if found:
        return cast(ToolPolicy, found)
    policy = ToolPolicy(
        workspace_id=target.workspace_id,
        layer=target.layer,
        subject_id=target.subject_id,
        **policy_columns(PolicyInput(), target.layer),
    )
    policy.created_at = None  # type: ignore[assignment]
    return policy


def load_tool_policy(agent: Agent | UUID | str) -> Layer:
    """Return the agent's own policy, as `filter_tools_by_policy` takes it."""
    return to_layer("agent", stored_policy(agent_target(agent)))


def save_tool_policy(
    agent: Agent | UUID | str, policy: Layer | Mapping[str, Any], by: User | None = None
) -> ToolPolicy:
    """Replace the agent's own policy, without checking rights."""
    fields = layer_fields(policy) if isinstance(policy, Layer) else policy
    return save_policy(agent_target(agent), fields, by=by)


def change_policy(
    principal: Principal,
    target: PolicyTarget,
    fields: Mapping[str, Any],
    *,
    expected_revision: int | None = None,
) -> ToolPolicy:
    """Replace a policy for a principal, which must have the right to this very change."""
    _authorise(principal, target)
    return save_policy(target, fields, principal=principal, expected_revision=expected_revision)


def revert_policy(principal: Principal, target: PolicyTarget, revision: int) -> ToolPolicy:
    """Restore the fields of a revision, as the newest revision."""
    _authorise(principal, target)
    fields = fields_at_revision(target, revision)
    return save_policy(target, fields, principal=principal, reverts_to=revision)


def fields_at_revision(target: PolicyTarget, revision: int) -> dict[str, Any]:
    """Return the fields of a revision; 0 stands for the defaults before the first one."""
    if not revision:
        return policy_columns(PolicyInput(), target.layer)
    old = policy_history(target).filter(revision=revision).first()
    if old is None:
        raise NotFound(f"This policy has no revision {revision}.")
    return policy_fields(old)


def policy_history(target: PolicyTarget) -> Any:
    """Return all revisions, newest first."""
    rows = PolicyRevision.objects.for_workspace(target.workspace_id).select_related("created_by")
    return rows.filter(policy__layer=target.layer, policy__subject_id=target.subject_id)


@transaction.atomic
def save_policy(
    target: PolicyTarget,
    fields: Mapping[str, Any],
    *,
    by: User | None = None,
    principal: Principal | None = None,
    expected_revision: int | None = None,
    reverts_to: int | None = None,
) -> ToolPolicy:
    """Validate and save a policy with a new revision. The same fields again make no revision.

    Writers wait for each other on the policy's row, so rights are checked against what is replaced.
    """
    columns = policy_columns(read_input(PolicyInput, fields), target.layer)
    author = principal.user if principal else by
    policy = _locked(target, author)
    if expected_revision not in (None, policy.revision):
        raise Conflict(
            f"Revision {expected_revision} is not the newest one: that is {policy.revision}."
        )
    before, after = to_layer(target.layer, policy), to_layer(target.layer, columns)
    if policy.revision and before == after:
        return policy
    tools = tools_of_workspace(target.workspace_id)
    check_rules(after, tools, target.workspace_id)
    if principal:
        _authorise_loosening(
            principal,
            target,
            tools=loosened_tools(before, after, tools.values()),
            adds_peers=adds_peers(before, after),
        )
    name = principal.name if principal else (by.email if by else "")
    return _write(policy, columns, author=name, created_by=author, reverts_to=reverts_to)


@transaction.atomic
def add_allow_rule(principal: Principal, target: PolicyTarget, tool: Tool, rule: str) -> ToolPolicy:
    """Add one rule to what a policy allows, as its next revision."""
    _authorise(principal, target)
    layer = to_layer(target.layer, _locked(target, principal.user))
    return save_policy(
        target, layer_fields(rules.with_allow_rule(layer, tool, rule)), principal=principal
    )


@transaction.atomic
def copy_policy(source: PolicyTarget, target: PolicyTarget) -> None:
    """Give another object the same policy, unchecked: the copy must not allow more."""
    found = _rows(source).filter(revision__gt=0).first()
    if found:
        author = f"copied from {source.subject_id}"
        _write(_locked(target, None), policy_fields(found), author=author)


def _write(policy: ToolPolicy, columns: Mapping[str, Any], **authorship: Any) -> ToolPolicy:
    for name, value in columns.items():
        setattr(policy, name, value)
    policy.revision += 1
    policy.save()
    PolicyRevision.objects.create(
        workspace_id=policy.workspace_id,
        policy=policy,
        revision=policy.revision,
        **authorship,
        **columns,
    )
    return policy


def _authorise(principal: Principal, target: PolicyTarget) -> None:
    if authorise(principal, target.changing) != target.workspace_id:
        raise NotFound


def _authorise_loosening(
    principal: Principal, target: PolicyTarget, *, tools: list[str], adds_peers: bool
) -> None:
    if principal.may(target.loosening):
        return
    right = f"takes the right to {target.loosening}"
    if tools:
        names = ", ".join(tools[:5])
        raise Forbidden(f"Letting these tools act without asking {right}: {names}.")
    if adds_peers:
        raise Forbidden(f"Letting an agent reach the sessions of other agents {right}.")


def _locked(target: PolicyTarget, author: User | None) -> ToolPolicy:
    _rows(target).get_or_create(
        layer=target.layer,
        subject_id=target.subject_id,
        defaults={
            "workspace_id": target.workspace_id,
            "created_by": author,
            **policy_columns(PolicyInput(), target.layer),
        },
    )
    return _rows(target).select_for_update(no_key=True).get()


def _rows(target: PolicyTarget) -> Any:
    rows = ToolPolicy.objects.for_workspace(target.workspace_id)
    return rows.filter(layer=target.layer, subject_id=target.subject_id)
