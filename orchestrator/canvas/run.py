"""Runs the canvas of an agent: a workflow that walks the published graph, node by node.

A run keeps the revision that was published when it started. Every node is a step with the node's id
as its name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

from pydantic import Field

from agents.canvas.expressions import Facts, as_text, fill, parse
from agents.canvas.graph import NODE_TYPES, Graph, Node
from agents.canvas.revisions import published_revision
from agents.models import Agent
from core.db import release_connection
from core.exceptions import Conflict, Invalid, NotFound
from core.validation import Input, read_input
from orchestrator.canvas.plan import (
    Plan,
    check_input,
    check_runnable,
    find_canvas_agent,
    graph_of,
    plan_of,
)
from orchestrator.canvas.tool_node import DELAY, GRACE_SECONDS, RETRIES, Call
from orchestrator.engine.definition import Event, workflow
from orchestrator.engine.definition import Workflow as WorkflowClass
from orchestrator.engine.steps import WAIT_SECONDS, Steps
from orchestrator.exceptions import NonRetryableError, WorkflowRejected

CANVAS = "canvas"
#: Separates a node's id from the name of a step within the node; no id contains it.
PART = "/"
SKIPPED = f"{PART}skipped"


class CanvasParams(Input):
    agent: UUID = Field(title="Agent", description="The agent's id, as in the URL of its pages.")
    input: Any = Field(default=None, title="Input")
    #: Set when the run starts: the revision published then.
    revision: int | None = Field(default=None, title="Revision")


class RunParams(CanvasParams):
    """The params of a run as they are stored; a door can only give those of `CanvasParams`."""

    #: Whether a person who builds the agent tests its draft. `orchestrator/canvas/draft_runs.py`
    #: alone starts such runs.
    test: bool = False
    #: The nodes that do not run, with the output to use in their place.
    given: dict[str, Any] = {}
    #: The only nodes that may run, and the one among them that begins.
    only: list[str] | None = None
    begin: str = ""
    #: The sessions that the given outputs may come from; their taint passes to who reads them.
    source_sessions: list[str] = []


class Walk:
    """One walk through the nodes. A branch that a condition did not choose is skipped."""

    def __init__(
        self, flow: CanvasRun, step: Steps, agent: Agent, plan: Plan, params: RunParams
    ) -> None:
        self._flow, self._step, self._agent, self._plan = flow, step, agent, plan
        self._params = params
        self._only = None if params.only is None else frozenset(params.only)
        self._outputs: dict[str, Any] = {}
        self._facts = Facts(input=params.input, outputs=self._outputs)
        self._choices: dict[str, str] = {}
        self._results: dict[str, Any] = {}
        self._handlers: dict[str, Callable[[Node], Any]] = {
            "trigger": self._trigger,
            "agent": self._ask_agent,
            "tool": self._call_tool,
            "condition": self._choose,
            "approval": self._ask_person,
            "sub_agent": self._ask_agent,
            "wait": self._wait,
            "output": self._answer,
        }

    @property
    def workspace_id(self) -> UUID:
        return self._agent.workspace_id

    def run(self) -> dict[str, Any]:
        """Continue every node whose predecessors are over, each as a branch, until all are over."""
        over: set[str] = set()
        branches = self._step.branches()
        for node in self._plan.order:
            is_due = all(edge.source in over for edge in self._plan.into.get(node.id, ()))
            if is_due and branches.run(node.id, partial(self._visit, node, len(over))):
                over.add(node.id)
        branches.wait()
        return self._answers()

    def _visit(self, node: Node, before: int) -> None:
        if not self._is_reached(node):
            self._step.do(f"{node.id}{SKIPPED}", lambda: None)
            return
        share = round(100 * before / len(self._plan.order), 1)
        self._flow.report_progress(node.name or node.id, percent=share, step=node.id)
        if node.id in self._params.given:
            self._outputs[node.id] = self._take_given(node)
        else:
            self._outputs[node.id] = self._act(node)

    def _take_given(self, node: Node) -> Any:
        """Use the given output in place of running the node, and take the branch it stands for."""
        output = self._step.do(node.id, lambda: self._params.given[node.id])
        if node.type == "condition":
            self._choices[node.id] = "true" if output else "false"
        elif node.type == "approval":
            is_rejected = isinstance(output, dict) and output.get("approved") is False
            self._choices[node.id] = "rejected" if is_rejected else "approved"
        elif node.type == "output":
            self._results[node.id] = output
        return output

    def _answers(self) -> dict[str, Any]:
        """Return the values of the output nodes; without one, the output of the last node."""
        self._flow.report_progress("Done", percent=100, status="complete")
        ids = [node.id for node in self._plan.order]
        results = {one: self._results[one] for one in ids if one in self._results}
        last = next((self._outputs[one] for one in reversed(ids) if one in self._outputs), None)
        answer = next(iter(results.values())) if len(results) == 1 else last
        return {"output": answer, "outputs": results}

    def _act(self, node: Node) -> Any:
        try:
            return self._handlers.get(node.type, self._run_plugin_node)(node)
        except (NonRetryableError, Invalid) as fault:
            raise NonRetryableError(f"{node.name or node.id}: {fault.detail}") from fault

    def _is_reached(self, node: Node) -> bool:
        """Return whether at least one edge leads here; all predecessors are over by now."""
        if node.type == "trigger" or node.id in self._params.given:
            return True
        if self._only is not None and node.id not in self._only:
            return False
        if node.id == self._params.begin:
            return True
        return bool(self._taken_sources(node))

    def _taken_sources(self, node: Node) -> list[str]:
        return [
            edge.source
            for edge in self._plan.into.get(node.id, ())
            if edge.source in self._outputs and self._is_taken(edge.source, edge.handle)
        ]

    def _is_taken(self, source: str, handle: str) -> bool:
        choice = self._choices.get(source)
        if choice in ("approved", "rejected"):
            return (handle == "rejected") is (choice == "rejected")
        return choice is None or handle == choice

    # ── Nodes ────────────────────────────────────────────────────────────────────────────────

    def _text(self, value: object) -> str:
        return as_text(fill(value, self._facts))

    def _trigger(self, node: Node) -> Any:
        return self._step.do(node.id, lambda: self._facts.input)

    def _ask_agent(self, node: Node) -> Any:
        """Ask an agent; the text of its answer is the output."""
        message = self._text(node.config.get("prompt"))
        if not message.strip():
            raise NonRetryableError("The prompt is empty, so there is nothing to ask.")
        agent = node.config.get("agent") if node.type == "sub_agent" else None
        answer = self._step.run_session(
            node.id,
            agent=agent or str(self._agent.pk),
            message=message,
            session_key=self._conversation(node),
        )
        return answer["text"]

    def _conversation(self, node: Node) -> str:
        """Return the key of the node's own conversation, or of the one shared within the run."""
        return f"{node.id}@{self._flow.generation}" if node.id in self._plan.apart else ""

    def _call_tool(self, node: Node) -> Any:
        given = fill(node.config.get("input"), self._facts)
        return self.use_tool(node.id, str(node.config.get("tool")), given or {})

    def use_tool(self, key: str, name: str, given: Mapping[str, Any]) -> Any:
        """Call a tool under the agent's policy, in a step of this name."""
        call = Call(runner=self._flow.runner, agent=self._agent, tool=name, input=given)
        judged = self._step.do(
            f"{key}{PART}policy",
            lambda: call.judge(self._step.key),
            retries=RETRIES,
            delay=DELAY,
        )
        if judged["decision"] == "ask":
            self._step.wait_for_approval(
                f"{key}{PART}approval",
                title=judged["title"],
                message=f"The canvas of {self._agent} wants to use {name}: {judged['decided_by']}",
                details={"tool": name, "input": call.input},
            )
        # A call with an effect is never repeated blindly: the ledger knows what was begun before.
        return self._step.do(
            key,
            lambda: call.make(self._step.key, self._step.attempt),
            retries=RETRIES,
            delay=DELAY,
            timeout=judged["seconds"] + GRACE_SECONDS,
        )

    def _run_plugin_node(self, node: Node) -> Any:
        kind = NODE_TYPES.get(node.type)
        if kind is None:
            raise NonRetryableError(f"No installed plugin brings nodes of the type {node.type!r}.")
        config = read_input(kind.config, fill(node.config, self._facts))
        output = kind.run(config, NodeRun(node=node, walk=self, step=self._step))
        return self._step.do(node.id, lambda: output)

    def _choose(self, node: Node) -> bool:
        chosen = self._step.do(
            node.id, lambda: parse(str(node.config.get("expression"))).holds(self._facts)
        )
        self._choices[node.id] = "true" if chosen else "false"
        return chosen

    def _ask_person(self, node: Node) -> Any:
        """Wait for approval. A rejection ends the run unless an edge leaves by `rejected`."""
        message = self._text(node.config.get("message"))
        try:
            answer = self._step.wait_for_approval(
                node.id, title=node.name or message[:200], message=message
            )
        except WorkflowRejected as fault:
            if "rejected" not in self._plan.handles.get(node.id, ()):
                raise
            self._choices[node.id] = "rejected"
            return {"approved": False, "note": fault.detail}
        self._choices[node.id] = "approved"
        return answer

    def _wait(self, node: Node) -> Any:
        """Wait for an event, with a timeout, or for a time."""
        event, seconds = node.config.get("event"), node.config.get("seconds")
        if event:
            longest = WAIT_SECONDS if seconds is None else seconds
            return self._step.wait_for_event(node.id, type=str(event)[:100], timeout=longest)
        self._step.sleep(node.id, seconds or 0)
        return None

    def _answer(self, node: Node) -> Any:
        """Return the configured value, else what came in: one value, or one per source node."""

        def value() -> Any:
            if node.config.get("value") is not None:
                return fill(node.config["value"], self._facts)
            inputs = {source: self._outputs[source] for source in self._taken_sources(node)}
            return next(iter(inputs.values())) if len(inputs) == 1 else inputs

        self._results[node.id] = self._step.do(node.id, value)
        return self._results[node.id]


@dataclass(frozen=True, kw_only=True)
class NodeRun:
    """What the code of a plugin's node may do. It is replayed, so effects belong in steps."""

    node: Node
    walk: Walk
    #: For waits and approvals; the names of its steps begin with the node's id and a slash.
    step: Steps

    @property
    def workspace_id(self) -> UUID:
        return self.walk.workspace_id

    def do(self, name: str, body: Callable[[], Any], **options: Any) -> Any:
        """Run a function in a step of its own: it is not repeated once it has succeeded."""
        return self.step.do(f"{self.node.id}{PART}{name}", body, **options)

    def use_tool(self, tool: str, input: Mapping[str, Any], *, name: str = "") -> Any:
        """Call a tool under the agent's policy and return its result."""
        return self.walk.use_tool(f"{self.node.id}{PART}{name or tool}", tool, input)


class WalkInTurn(Walk):
    """Walks as version 1 does: one node after the other."""

    def run(self) -> dict[str, Any]:
        for nth, node in enumerate(self._plan.order):
            self._visit(node, nth)
        return self._answers()


@workflow(name=CANVAS, version=2)
class CanvasRun(WorkflowClass):
    """Run the published canvas of an agent, node by node; branches wait at the same time."""

    params = CanvasParams
    pinned = frozenset({"revision"})
    walk: ClassVar[type[Walk]] = Walk

    @classmethod
    def admit(
        cls, workspace_id: UUID, params: dict[str, Any], given: Collection[str] = ()
    ) -> dict[str, Any]:
        """Pin the revision that is published now. A draft cannot run."""
        agent = find_canvas_agent(workspace_id, params["agent"])
        if agent.archived_at:
            raise Invalid("This agent is archived.")
        try:
            revision = published_revision(agent)
        except NotFound as fault:
            raise Conflict(fault.detail) from None
        if params.get("revision") not in (None, revision.number):
            raise Invalid(f"Only the published revision ({revision.number}) can be started.")
        graph = Graph.model_validate({"nodes": revision.nodes, "edges": revision.edges})
        check_runnable(agent, graph)
        check_input(graph, params.get("input"))
        return {**params, "revision": revision.number}

    def run(self, event: Event, step: Steps) -> Any:
        params = RunParams.model_validate(event.payload)
        agent = find_canvas_agent(event.workspace_id, params.agent)
        plan = plan_of(graph_of(agent, params.revision or 0))
        release_connection()
        return self.walk(self, step, agent, plan, params).run()


@workflow(name=CANVAS, version=1)
class CanvasRunInTurn(CanvasRun):
    """Version 1, for runs that began before branches waited at the same time."""

    walk = WalkInTurn
