"""Property tests of policies: no layer widens, deny wins, no child outdoes its parent."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.tools_app.test_policy import AGENT, INPUTS, RULES, TOOLS
from tools_app.policy.evaluation import decide, explain, judge
from tools_app.policy.rules import ORDER, PROFILES, STRICTNESS, Layer
from tools_app.policy.storage import GUARDED, loosened_tools

NAMES = st.sampled_from(sorted(TOOLS))


def layer(name: str) -> st.SearchStrategy[Layer]:
    if name == "agent":
        return AGENT
    return st.builds(
        Layer,
        name=st.just(name),
        profile=st.sampled_from([None, *PROFILES]),
        allowed=RULES,
        denied=RULES,
        asked=RULES,
    )


@st.composite
def chains(draw: st.DrawFn, *, parent: tuple[Layer, ...] = ()) -> tuple[Layer, ...]:
    """Draw the layers of a run: in order, some missing, the agent's always present."""
    names = [n for n in ORDER if n == "agent" or draw(st.booleans())]
    layers = [draw(layer(name)) for name in names]
    if parent:
        layers = [one for one in layers if one.name != "subagent"]
        layers.append(Layer(name="subagent", parent=parent))
    return tuple(layers)


def strictness(name: str, layers: tuple[Layer, ...], input: dict[str, str] | None) -> int:
    return STRICTNESS[decide(name, layers, input, tools=TOOLS).decision]


@given(chains(), NAMES, INPUTS)
def test_no_layer_below_the_agent_widens(chain, name, input):
    at = [one.name for one in chain].index("agent")
    grown = [strictness(name, chain[: count + 1], input) for count in range(at, len(chain))]

    assert all(before <= after for before, after in pairwise(grown))


@given(chains(), NAMES, INPUTS)
def test_a_chain_is_at_least_as_strict_as_each_of_its_layers(chain, name, input):
    strictest = max(STRICTNESS[judge(TOOLS[name], one, input).verdict] for one in chain)

    assert strictness(name, chain, input) >= strictest


@given(chains(), NAMES, INPUTS)
def test_no_layer_overrides_a_denial_by_the_workspace(chain, name, input):
    for ceiling in (Layer(name="workspace", denied=(name,)), Layer(name="workspace", profile="")):
        assert decide(name, (ceiling, *chain), input, tools=TOOLS).decision == "deny"


@given(chains(), NAMES, INPUTS)
def test_the_explanation_names_an_existing_rule_that_decides(chain, name, input):
    explanation = explain(name, chain, input, tools=TOOLS)
    decision = decide(name, chain, input, tools=TOOLS)

    assert (explanation.decision, explanation.decided_by) == (
        decision.decision,
        decision.decided_by,
    )
    assert f"{explanation.layer}: {explanation.rule}" == explanation.decided_by
    assert [link.layer for link in explanation.chain if link.layer != "default"] == [
        o.name for o in chain
    ]
    if explanation.layer == "default":
        assert explanation.decision in {"allow", "ask"}
        return
    links = [link for link in explanation.chain if link.layer == explanation.layer]
    assert any(
        link.rule == explanation.rule and link.decision == explanation.decision for link in links
    )
    kind, _, rule = explanation.rule.partition(" ")
    lists = {"denied": "denied", "asked": "asked", "allowed": "allowed"}
    if kind in lists:
        deciding = next(one for one in chain if one.name == explanation.layer)
        assert rule in getattr(deciding, lists[kind])


@given(st.data(), NAMES, INPUTS)
def test_a_child_never_has_a_tool_that_its_parent_lacks(data, name, input):
    parent = data.draw(chains())
    child = data.draw(chains(parent=parent))

    assert strictness(name, child, input) >= strictness(name, parent, input)


@given(AGENT, AGENT, NAMES, INPUTS)
def test_a_change_that_allows_a_guarded_call_is_always_detected(before, after, name, input):
    tool = TOOLS[name]
    was = decide(name, [before], input, tools=TOOLS).decision
    becomes = decide(name, [after], input, tools=TOOLS).decision
    if tool.category in GUARDED and becomes == "allow" and was != "allow":
        assert name in loosened_tools(before, after, TOOLS.values())


@given(layer("environment"), layer("environment"), NAMES, INPUTS)
def test_an_environment_that_stops_asking_is_always_detected(before, after, name, input):
    tool = TOOLS[name]
    was, becomes = (judge(tool, one, input).verdict for one in (before, after))
    if tool.category in GUARDED and becomes == "allow" and was != "allow":
        assert name in loosened_tools(before, after, TOOLS.values())
