"""Tests of which agent nodes of a graph may run side by side."""

from __future__ import annotations

import pytest

from agents.canvas.graph import Graph
from orchestrator.canvas.plan import nodes_apart
from tests.orchestrator.canvas.test_runs import edges, node

A = [node(name, "agent", prompt="?") for name in "abcd"]
START, CHOICE = node("start", "trigger"), node("choice", "condition", expression="input.x == 1")
ASK, SUB = node("ask", "approval", message="?"), node("sub", "sub_agent", agent="Other", prompt="?")


@pytest.mark.parametrize(("nodes", "lines", "apart"), [
    ([START, *A], ["start>a", "a>b", "b>c", "c>d"], ""),
    ([START, *A], ["start>a", "a>b", "a>c", "b>d", "c>d"], "bc"),
    ([START, *A], ["start>a", "start>b", "a>c", "b>d"], "abcd"),
    ([START, CHOICE, *A[:2]], ["start>choice", "choice:true>a", "choice:false>b"], ""),
    # Both follow the same outcome, or one of them follows either outcome.
    ([START, CHOICE, *A[:2]], ["start>choice", "choice:true>a", "choice:true>b"], "ab"),
    ([START, CHOICE, *A[:2]],
     ["start>choice", "choice:true>a", "choice:false>b", "start>b"], "ab"),
    # A condition elsewhere, or without outgoing edges, makes no difference.
    ([START, CHOICE, *A[:2]], ["start>a", "start>b", "start>choice"], "ab"),
    ([START, ASK, *A[:2]], ["start>ask", "ask>a", "ask:rejected>b"], ""),
    ([START, ASK, *A[:2]], ["start>ask", "ask>a", "ask:approved>b"], "ab"),
    # Another agent has its own conversation anyway.
    ([START, SUB, A[0]], ["start>sub", "start>a"], ""),
])  # fmt: skip
def test_nodes_of_one_agent_are_apart_when_one_run_may_reach_both_in_any_order(nodes, lines, apart):
    graph = Graph.model_validate({"nodes": nodes, "edges": edges(*lines)})
    assert nodes_apart(graph) == set(apart)
