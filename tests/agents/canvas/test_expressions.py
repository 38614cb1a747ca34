"""Tests of a canvas's templates and conditions, which can only look up and compare values."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.canvas.expressions import MOST_FILLED, Facts, as_text, fill, look_up, parse
from agents.canvas.graph import Graph, validate
from core.exceptions import Invalid

FACTS = Facts(
    input={"x": 3, "name": "Ada", "list": ["a", 1, True], "deep": {"er": [{"t": "end"}]}},
    outputs={"a": "hello world", "a.b": {"n": 2}, "c-d:e": [1, 2]},
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("input.x > 2", True),
        ("input.x >= 3 and input.x <= 3", True),
        ("{{ input.x }} == 3.0", True),
        ("input.name == 'Ada'", True),
        ('input.name contains "d" or false', True),
        ("not input.missing", True),
        ("not not input.x", True),
        ("input.list contains 1", True),
        ("input.list contains '1'", False),
        ("true in input.list and 'x' in input", True),
        ("input.name < 4", False),
        ("true == 1", False),
        ("null == input.missing", True),
        ("nodes.a.output contains 'world'", True),
        ("nodes.a.b.output.n == 2", True),
        ("nodes.c-d:e.output.1 == 2", True),
        ("(input.x == 1 or input.x == 3) and not (1 == 2)", True),
        (r"'it\'s' == \"it's\"".replace('\\"', '"'), True),
        ("-1.50 < 007", True),
    ],
)
def test_a_condition_is_evaluated(text, expected):
    assert parse(text).holds(FACTS) is expected


@pytest.mark.parametrize(
    "text",
    ["", "  ", "input.x >", "== 3", "(input.x", "input.x) ", "a b", "input.x = 3", "1 + 1",
     "__import__('os')", "input.x > 1 > 0", "'open", "not", "and", "f()", "[1]", "(" * 60,
     "x" * 3000, "{{input.x", "{{}}"],
)  # fmt: skip
def test_an_expression_outside_the_grammar_is_refused(text):
    with pytest.raises(Invalid):
        parse(text)


def test_python_attributes_cannot_be_reached():
    assert look_up("input.__class__", FACTS) is None
    assert look_up("input.name.upper", FACTS) is None
    assert fill("{{input.__class__.__mro__}}", FACTS) is None


@settings(max_examples=300)
@given(st.text(max_size=80))
def test_any_text_is_parsed_or_refused(text):
    try:
        parsed = parse(text)
    except Invalid:
        return
    assert parsed.holds(FACTS) in (True, False)


words = st.sampled_from(
    ["input.x", "input.list", "nodes.a.output", "'t'", "2", "true", "null", "and", "or", "not",
     "==", "!=", "<", "<=", ">", ">=", "contains", "in", "(", ")"]
)  # fmt: skip


@settings(max_examples=500)
@given(st.lists(words, max_size=14), json_values)
def test_every_parsed_expression_evaluates_for_any_input(parts, value):
    try:
        parsed = parse(" ".join(parts))
    except Invalid:
        return
    facts = Facts(input=value, outputs={"a": value})
    assert parsed.holds(facts) is parsed.holds(facts)


@settings(max_examples=200)
@given(st.booleans(), st.booleans(), st.booleans())
def test_not_binds_closer_than_and_which_binds_closer_than_or(a, b, c):
    facts = Facts(input={"a": a, "b": b, "c": c})
    result = parse("input.a or not input.b and input.c").holds(facts)
    assert result is (a or (not b and c))


@settings(max_examples=300)
@given(json_values)
def test_a_single_placeholder_becomes_the_value_itself(value):
    assert fill("{{input}}", Facts(input=value)) == value
    assert fill({"k": ["{{ input }}"]}, Facts(input=value)) == {"k": [value]}


@settings(max_examples=300)
@given(st.text(max_size=30), st.text(max_size=30))
def test_a_filled_in_value_is_not_expanded_again(before, value):
    text = before.replace("{", "").replace("}", "")
    sneaky = value + "{{input.secret}}"
    result = fill(
        f"{text}:{{{{input.given}}}}", Facts(input={"given": sneaky, "secret": "S3cret!"})
    )
    assert result == f"{text}:{sneaky}"


@settings(max_examples=200)
@given(st.text(max_size=60))
def test_a_text_without_placeholders_is_unchanged(text):
    if "{{" not in text:
        assert fill(text, FACTS) == text


def test_the_size_of_a_filled_text_is_limited():
    with pytest.raises(Invalid):
        fill("x{{input}}" * 3, Facts(input="y" * (MOST_FILLED // 2)))


def test_missing_values_are_filled_in_as_empty_and_objects_as_json():
    assert fill("a{{input.gone}}b", FACTS) == "ab"
    assert fill("n={{nodes.a.b.output}}", FACTS) == 'n={"n": 2}'
    assert as_text(None) == ""


def node(id, type, **config):
    return {"id": id, "type": type, "config": config}


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (node("x", "agent", prompt="{{nodes.gone.output}}"), "unknown_reference"),
        (node("x", "agent", prompt="{{vault:KEY}}"), "unknown_reference"),
        (node("x", "agent", prompt="{{nodes.late.output}}"), "early_reference"),
        (node("x", "tool", tool="t", input={"a": ["{{nodes.x.output}}"]}), "early_reference"),
        (node("x", "agent", prompt=3), "wrong_config"),
        (node("x", "tool", tool="t", input="text"), "wrong_config"),
        (node("x", "agent", prompt="p", conversation="mine"), "wrong_config"),
        (node("x", "condition", expression="input.x ="), "wrong_expression"),
        (node("x", "condition", expression="y == 1"), "unknown_reference"),
    ],
)
def test_each_invalid_config_is_reported_for_its_node(bad, code):
    nodes = [node("start", "trigger"), bad, node("late", "wait", seconds=1)]
    edges = [{"source": "start", "target": "x"}, {"source": "x", "target": "late"}]
    found = validate(Graph.model_validate({"nodes": nodes, "edges": edges}))
    assert ("x", code) in {(one.node, one.code) for one in found}
