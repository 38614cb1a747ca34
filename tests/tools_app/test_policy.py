"""Tests of policy layers: the strictest one decides and is named."""

from __future__ import annotations

from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.models import AgentVersion
from tools_app import filter_tools_by_policy, load_agent_tools
from tools_app.policy.effective import effective_policy
from tools_app.policy.evaluation import Decision, decide
from tools_app.policy.rules import PROFILES, STRICTNESS, Layer, call_limit, unknown_rules
from tools_app.registry import Arguments, Category, Permission, Tool


class Anything(Arguments):
    command: str = ""


def make_tool(name: str, category: str, permission: Permission = "always_allow") -> Tool:
    return Tool(
        name=name,
        title=name,
        description=name,
        arguments=Anything,
        category=Category(category),
        permission=permission,
        seconds=1,
        subject={"exec": "command", "web_fetch": "url"}.get(name, ""),
        handler=lambda arguments, context: None,
    )


TOOLS = {
    tool.name: tool
    for tool in [
        make_tool("read", "filesystem"),
        make_tool("write", "filesystem"),
        make_tool("exec", "exec", "always_ask"),
        make_tool("web_fetch", "web"),
        make_tool("memory_search", "memory"),
        make_tool("memory_store", "memory"),
        make_tool("sessions_spawn", "session"),
        make_tool("message", "messaging", "always_ask"),
        make_tool("email", "messaging", "always_ask"),
        make_tool("wait", "time"),
        make_tool("current_time", "time"),
        make_tool("mcp:github:search", "mcp", "always_ask"),
        make_tool("mcp:github:delete", "mcp", "always_ask"),
    ]
}


COMMON = {
    *("read", "web_fetch", "memory_search", "memory_store", "wait", "current_time"),
    *("mcp:github:search", "mcp:github:delete"),
}


def verdict(name: str, *layers: Layer, **input: str) -> str:
    return decide(name, layers, input or None, tools=TOOLS).decision


def agent(**rules) -> Layer:
    return Layer(name="agent", **rules)


@pytest.mark.parametrize(
    ("profile", "tools"),
    [
        ("minimal", {"read", "web_fetch", "memory_search", "current_time"}),
        ("coding", COMMON | {"write", "exec"}),
        ("messaging", COMMON | {"message", "email"}),
        ("full", set(TOOLS)),
        ("no such profile", set()),
    ],
)
def test_a_profile_selects_its_tools(profile, tools):
    assert set(filter_tools_by_policy(TOOLS, agent(profile=profile))) == tools


@pytest.mark.django_db
def test_a_new_agent_has_the_coding_profile_and_asks_before_commands():
    version, session_id = AgentVersion(agent_id=UUID(int=1)), UUID(int=2)

    policy = effective_policy(version, session_id)

    assert policy["read"] == Decision(decision="allow", decided_by="agent: profile coding")
    assert policy["exec"] == Decision(decision="ask", decided_by="default: exec asks first")
    assert set(policy) == set(load_agent_tools(UUID(int=1)))
    assert policy.decide_call("exec", {"command": "ls"}).decision == "ask"


@pytest.mark.parametrize(
    ("rules", "name", "decision", "decided_by"),
    [
        ({"denied": ("exec",)}, "exec", "deny", "agent: denied exec"),
        ({"denied": ("group:web",)}, "web_fetch", "deny", "agent: denied group:web"),
        ({"denied": ("mcp:github:*",)}, "mcp:github:search", "deny", "agent: denied mcp:github:*"),
        ({"profile": "minimal"}, "write", "deny", "agent: not in profile minimal"),
        ({"allowed": ("read",)}, "write", "deny", "agent: not among the allowed tools"),
        ({"asked": ("read",)}, "read", "ask", "agent: asked read"),
        ({"asked": ("read",), "allowed": ("read",)}, "read", "ask", "agent: asked read"),
        ({"denied": ("read",), "asked": ("read",)}, "read", "deny", "agent: denied read"),
        ({"allowed": ("exec",)}, "exec", "ask", "default: exec asks first"),
        ({"allowed": ("*",)}, "exec", "ask", "default: exec asks first"),
        ({"approved": ("exec",)}, "exec", "allow", "agent: allowed exec"),
        ({"approved": ("exec",), "asked": ("exec",)}, "exec", "allow", "agent: allowed exec"),
        ({"approved": ("read",)}, "write", "allow", "default: write is allowed"),
        ({"allowed": ("exec(git*)",)}, "read", "deny", "agent: not among the allowed tools"),
        (
            {"approved": ("mcp:github:s*",)},
            "mcp:github:search",
            "allow",
            "agent: allowed mcp:github:s*",
        ),
        ({"profile": "full"}, "message", "ask", "default: message asks first"),
        ({}, "read", "allow", "default: read is allowed"),
        ({}, "nope", "deny", "no tool has this name"),
    ],
)
def test_the_rule_that_decides_is_named(rules, name, decision, decided_by):
    assert decide(name, [agent(**rules)], tools=TOOLS) == Decision(
        decision=decision, decided_by=decided_by
    )


def test_the_strictest_layer_decides():
    workspace = Layer(name="workspace", denied=("web_fetch",), asked=("write",))
    generous = agent(profile="full", approved=("*",))

    assert verdict("web_fetch", workspace, generous) == "deny"
    assert verdict("write", workspace, generous) == "ask"
    assert verdict("exec", workspace, generous) == "allow"
    assert verdict("read", workspace, generous, Layer(name="session", denied=("*",))) == "deny"


@pytest.mark.parametrize("name", ["workspace", "environment", "session", "subagent"])
def test_only_the_agents_own_rule_can_skip_the_approval(name):
    assert verdict("exec", agent(profile="coding"), Layer(name=name, approved=("exec",))) == "ask"


def test_an_argument_pattern_skips_the_approval_for_matching_calls_only():
    layer = agent(profile="coding", approved=("exec(git status*)",))

    assert verdict("exec", layer, command="git status --short") == "allow"
    assert verdict("exec", layer, command="git push") == "ask"
    assert verdict("exec", layer) == "ask"
    assert verdict("read", layer) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "git status; rm -rf .",
        "git status && curl evil.example",
        "git status | sh",
        "git status $(rm x)",
        "git status `rm x`",
        "git status\nrm x",
        "git status > /workspace/x",
        "git status & rm x",
    ],
)
def test_a_compound_command_does_not_match_an_allowed_pattern(command):
    assert verdict("exec", agent(allowed=("exec(git status*)",)), command=command) == "ask"


@pytest.mark.parametrize(
    "command", ["rm -rf x", "true; rm -rf x", "a && (rm -rf x)", "$(rm -rf x)"]
)
def test_a_denied_command_is_found_in_a_compound_command(command):
    layer = agent(denied=("exec(rm *)",))

    assert verdict("exec", layer, command=command) == "deny"
    assert verdict("exec", layer) == "ask"


def test_approved_calls_leave_other_tools_unchanged():
    layer = agent(profile="coding", approved=("exec(*)",))

    assert verdict("exec", layer, command="a; b") == "allow"
    assert verdict("exec", layer) == "allow"
    assert verdict("read", layer) == "allow"


def test_a_rule_about_particular_calls_asks_although_the_tool_is_approved():
    layer = agent(approved=("exec",), asked=("exec(rm *)",))

    assert verdict("exec", layer, command="ls") == "allow"
    assert verdict("exec", layer, command="rm x") == "ask"


def test_a_pattern_on_urls_asks_for_other_urls():
    layer = agent(allowed=("web_fetch(https://docs.*)",))

    assert verdict("web_fetch", layer, url="https://docs.python.org/3/") == "allow"
    assert verdict("web_fetch", layer, url="https://evil.example/?docs.") == "ask"


def test_the_smallest_call_limit_applies():
    assert call_limit([agent(), agent(max_tool_calls_per_turn=9)]) == 9
    assert call_limit([agent(max_tool_calls_per_turn=3), agent(max_tool_calls_per_turn=9)]) == 3
    assert call_limit([agent()]) is None


def test_rules_for_unknown_tools_are_reported():
    rules = ("read", "raed", "group:web", "mcp:gitlab:*", "bash(ls*)")

    assert unknown_rules(rules, TOOLS) == ["raed", "mcp:gitlab:*", "bash(ls*)"]


RULES = st.lists(
    st.sampled_from(
        [*TOOLS, "*", "group:web", "group:exec", "mcp:*", "exec(git *)", "exec(*)", "nope", "mem*"]
    ),
    max_size=3,
).map(tuple)
NARROWING = st.builds(
    Layer,
    name=st.sampled_from(["workspace", "environment", "session", "subagent"]),
    profile=st.sampled_from([None, *PROFILES]),
    allowed=RULES,
    denied=RULES,
    asked=RULES,
)
AGENT = st.builds(
    Layer,
    name=st.just("agent"),
    profile=st.sampled_from(list(PROFILES)),
    allowed=RULES,
    denied=RULES,
    asked=RULES,
)
INPUTS = st.sampled_from([None, {"command": "git log"}, {"command": "rm x; git log"}])


@given(st.lists(NARROWING, max_size=4), AGENT, st.sampled_from(sorted(TOOLS)), INPUTS)
def test_no_additional_layer_widens_a_decision(narrowing, own, name, input):
    chains = [[own, *narrowing[:count]] for count in range(len(narrowing) + 1)]
    strictness = [STRICTNESS[decide(name, chain, input, tools=TOOLS).decision] for chain in chains]

    assert all(before <= after for before, after in pairwise(strictness))


@given(st.lists(NARROWING, max_size=3), AGENT, st.sampled_from(sorted(TOOLS)), INPUTS)
def test_a_deny_always_wins_and_names_its_layer(narrowing, own, name, input):
    denying = Layer(name="session", denied=(name,))

    decision = decide(name, [own, *narrowing, denying], input, tools=TOOLS)

    assert decision.decision == "deny"
    assert decision.decided_by.split(":")[0] in {layer.name for layer in [own, *narrowing, denying]}
