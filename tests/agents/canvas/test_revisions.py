"""Tests of the canvas: revisions, conflicts between writers, confirmation before emptying."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import DatabaseError, connection
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.canvas import revisions
from agents.canvas.graph import TYPES, Edge, Graph, Node, validate
from agents.canvas.revisions import Author
from agents.exceptions import CanvasConflict, CanvasInvalid
from agents.models import CanvasRevision
from core.exceptions import Conflict, InvalidFields
from core.validation import read_input
from tests.factories import agent as make_agent

NODES: list[dict[str, Any]] = [
    {"id": "start", "type": "trigger"},
    {"id": "ask", "type": "agent", "config": {"prompt": "Hello"}},
    {"id": "end", "type": "output"},
]
EDGES = [{"source": "start", "target": "ask"}, {"source": "ask", "target": "end"}]


@pytest.fixture
def agent(workspace):
    return make_agent(workspace)


def save(agent, nodes=NODES, edges=EDGES, revision=0, **words):
    words.setdefault("author", Author(user_id=agent.created_by_id))
    return revisions.save(agent, nodes=nodes, edges=edges, revision=revision, **words)


def codes(nodes, edges=(), tools=None) -> set[tuple[str | None, str]]:
    graph = read_input(Graph, {"nodes": nodes, "edges": list(edges)})
    return {(one.node, one.code) for one in validate(graph, tools=tools)}


def test_a_canvas_starts_empty_and_has_numbered_revisions(agent):
    assert revisions.read(agent).as_json()["revision"] == 0
    assert save(agent).revision == 1
    assert save(agent, NODES[:2], EDGES[:1], revision=1).revision == 2
    assert [node.id for node in revisions.read(agent).graph.nodes] == ["start", "ask"]
    assert list(CanvasRevision.objects.values_list("number", flat=True)) == [2, 1]


def test_saving_the_same_graph_creates_no_revision(agent):
    save(agent)
    assert save(agent, revision=1).revision == 1


def test_a_stale_write_is_refused_with_the_newer_canvas(agent):
    save(agent)
    with pytest.raises(CanvasConflict) as caught:
        save(agent, NODES[:1], [], revision=0)
    current: Any = caught.value.extra["current"]
    assert (current["revision"], len(current["nodes"])) == (1, 3)


@pytest.mark.django_db(transaction=True)
def test_one_of_several_concurrent_writers_wins(agent):
    save(agent)

    def write(number: int) -> int | None:
        try:
            return save(agent, [{"id": f"n{number}", "type": "trigger"}], [], revision=1).revision
        except CanvasConflict:
            return None
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=8) as pool:
        found = list(pool.map(write, range(8)))

    assert sorted(found, key=str) == [2] + [None] * 7
    assert revisions.read(agent).revision == 2


def test_emptying_a_canvas_must_be_confirmed(agent):
    save(agent)
    with pytest.raises(Conflict, match="confirm_empty"):
        save(agent, [], [], revision=1)
    assert revisions.read(agent).revision == 1
    assert save(agent, [], [], revision=1, confirm_empty=True).graph.is_empty


def test_a_revision_cannot_be_changed(agent):
    save(agent)
    with pytest.raises(DatabaseError, match="immutable"):
        CanvasRevision.objects.update(nodes=[])


def test_only_a_canvas_that_can_run_is_published(agent):
    save(agent, NODES, EDGES[:1])
    with pytest.raises(CanvasInvalid) as caught:
        revisions.publish(agent, tools=())
    assert {error["field"] for error in caught.value.errors} == {"end"}
    save(agent, revision=1)
    with pytest.raises(CanvasConflict):
        revisions.publish(agent, tools=(), revision=1)
    assert revisions.publish(agent, tools=(), revision=2).published == 2
    save(agent, NODES[:2], EDGES[:1], revision=2)
    assert revisions.published_revision(agent).number == 2


@pytest.mark.parametrize(
    "graph",
    [
        {"nodes": [{"id": "a", "type": "x"}, {"id": "a", "type": "y"}]},
        {"nodes": [{"id": "../a", "type": "x"}]},
        {"nodes": [{"id": "a", "type": "x", "colour": "red"}]},
        {"nodes": [{"id": "a", "type": "x", "config": {"k": "\x00"}}]},
        {"nodes": [{"id": "a", "type": "x", "config": {"k": float("nan")}}]},
        {"nodes": [{"id": f"n{n}", "type": "x"} for n in range(1_001)]},
        {"nodes": [{"id": "a", "type": "agent", "config": {"prompt": "x" * 1_100_000}}]},
        {"nodes": "all"},
    ],
)
def test_an_invalid_graph_is_refused(graph):
    with pytest.raises(InvalidFields):
        read_input(Graph, graph)


def test_a_complete_graph_has_no_problems():
    assert codes(NODES, EDGES) == set()


@pytest.mark.parametrize(
    ("nodes", "edges", "expected"),
    [
        ([], [], (None, "no_trigger")),
        (NODES[:2], EDGES[:1], (None, "no_output")),
        ([*NODES, {"id": "x", "type": "planet"}], EDGES, ("x", "unknown_type")),
        ([*NODES, {"id": "x", "type": "trigger"}], EDGES, ("x", "second_trigger")),
        ([*NODES, {"id": "x", "type": "wait"}], EDGES, ("x", "missing_config")),
        ([*NODES, {"id": "x", "type": "output"}], EDGES, ("x", "unreachable")),
        (NODES, [*EDGES, {"source": "ask", "target": "gone"}], ("ask", "edge_to_nowhere")),
        (NODES, [*EDGES, {"source": "ask", "target": "ask"}], ("ask", "cycle")),
        (NODES, [*EDGES, {"source": "ask", "target": "start"}], ("start", "edge_into_trigger")),
        (NODES, [*EDGES, {"source": "end", "target": "ask"}], ("end", "edge_out_of_output")),
    ],
)
def test_each_problem_is_reported_for_its_node(nodes, edges, expected):
    assert expected in codes(nodes, edges)


def test_a_condition_needs_a_true_and_a_false_edge():
    choice = {"id": "if", "type": "condition", "config": {"expression": "input.x > 1"}}
    nodes = [NODES[0], choice, NODES[2]]
    into = {"source": "start", "target": "if"}
    both = [{"source": "if", "target": "end", "handle": handle} for handle in ("true", "false")]
    assert codes(nodes, [into, *both]) == set()
    assert codes(nodes, [into, both[0]]) == {("if", "open_choice")}
    assert ("if", "wrong_handle") in codes(nodes, [into, {"source": "if", "target": "end"}])


def test_a_tool_must_be_known():
    nodes = [NODES[0], {"id": "t", "type": "tool", "config": {"tool": "fly"}}, NODES[2]]
    assert ("t", "unknown_tool") in codes(nodes, tools={"read"})
    assert ("t", "unknown_tool") not in codes(nodes, tools={"fly"})


names = st.sampled_from([f"n{n}" for n in range(8)])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
keys = st.sampled_from(["prompt", "tool", "expression", "message", "agent", "seconds", "event"])
some_nodes = st.lists(
    st.builds(
        Node.model_construct,
        id=names,
        type=st.sampled_from([*TYPES, "planet"]),
        config=st.dictionaries(keys, values, max_size=3),
    ),
    max_size=10,
    unique_by=lambda node: node.id,
)
some_edges = st.lists(
    st.builds(
        Edge.model_construct, source=names, target=names, handle=st.sampled_from(["", "true"])
    ),
    max_size=15,
)


@settings(max_examples=200)
@given(some_nodes, some_edges)
def test_validation_never_crashes_and_reports_only_existing_nodes(nodes, edges):
    graph = Graph.model_construct(nodes=nodes, edges=edges)
    ids = {node.id for node in nodes}
    for one in validate(graph, tools={"read"}):
        assert one.node is None or one.node in ids
        assert one.as_json()["message"]
