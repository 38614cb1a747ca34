"""Runs the canvas of an agent: a workflow that walks the published graph, node by node.

A run keeps the revision that was published when it started. Every node is a step with the node's id
as its name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

from pydantic import Field

from agents.canvas.expressions import Facts, as_text, fill, parse
from agents.canvas.graph import NODE_TYPES, SECRET, Graph, Node, body_of
from agents.canvas.revisions import published_revision
from agents.definitions import find_agent
from agents.models import Agent
from core.db import release_connection
from core.exceptions import Conflict, Invalid, NotFound
from core.validation import Input, read_input
from orchestrator.canvas.plan import (
    CANVAS,
    Plan,
    check_input,
    check_runnable,
    find_canvas_agent,
    graph_of,
    plan_of,
    why_unfit_workflow,
)
from orchestrator.canvas.python_code import CODE_SECONDS, command_of, result_of
from orchestrator.canvas.tool_node import DELAY, GRACE_SECONDS, RETRIES, Call
from orchestrator.engine.definition import Event, workflow
from orchestrator.engine.definition import Workflow as WorkflowClass
from orchestrator.engine.steps import WAIT_SECONDS, Steps
from orchestrator.exceptions import NonRetryableError, StepFailed, WorkflowRejected
from orchestrator.models import Workflow

#: Separates a node's id from the name of a step within the node; no id contains it.
PART = "/"
SKIPPED = f"{PART}skipped"
#: How many items a loop goes through, and how deep canvases can run each other.
MOST_ITEMS, DEEPEST = 500, 5


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


def depth_of(workflow_id: UUID) -> int:
    """Return how many workflows are above this one, counted up to the limit."""
    depth, at = 0, Workflow.objects.filter(pk=workflow_id).values_list("parent_id", flat=True)
    while depth < DEEPEST and (parent := at.first()):
        depth += 1
        at = Workflow.objects.filter(pk=parent).values_list("parent_id", flat=True)
    release_connection()
    return depth


def list_in(text: str) -> Any:
    """Return the list that a text holds as JSON, or else its lines."""
    try:
        return json.loads(text)
    except ValueError:
        return [line.strip() for line in text.splitlines() if line.strip()]


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
            "condition": self._choose,
            "approval": self._ask_person,
            "wait": self._wait,
            "loop": self._repeat,
            "output": self._answer,
        }
        #: What a loop can do for each item too: with the step's name, and the facts to fill in.
        self._actions: dict[str, Callable[[Node, str, Facts], Any]] = {
            "agent": self._ask_agent,
            "sub_agent": self._ask_agent,
            "tool": self._call_tool,
            "code": self._run_code,
            "http": self._send_request,
            "workflow": self._run_workflow,
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
            if action := self._actions.get(node.type):
                return action(node, node.id, self._facts)
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

    def _trigger(self, node: Node) -> Any:
        return self._step.do(node.id, lambda: self._facts.input)

    def _ask_agent(self, node: Node, key: str, facts: Facts) -> Any:
        """Ask an agent; the text of its answer is the output."""
        message = as_text(fill(node.config.get("prompt"), facts))
        if not message.strip():
            raise NonRetryableError("The prompt is empty, so there is nothing to ask.")
        agent = node.config.get("agent") if node.type == "sub_agent" else None
        answer = self._step.run_session(
            key,
            agent=agent or str(self._agent.pk),
            message=message,
            session_key=self._conversation(node, key),
        )
        return answer["text"]

    def _conversation(self, node: Node, key: str) -> str:
        """Return the key of the node's own conversation, or of the one shared within the run.

        Each item of a loop has a conversation of its own.
        """
        is_apart = node.id in self._plan.apart or key != node.id
        return f"{key}@{self._flow.generation}" if is_apart else ""

    def _call_tool(self, node: Node, key: str, facts: Facts) -> Any:
        given = fill(node.config.get("input"), facts)
        return self.use_tool(key, str(node.config.get("tool")), given or {})

    def _run_code(self, node: Node, key: str, facts: Facts) -> Any:
        """Run Python in the sandbox; what its `main` returns is the output."""
        code = str(node.config.get("code"))
        seconds = int(node.config.get("seconds") or CODE_SECONDS)
        command = command_of(code, fill(node.config.get("data"), facts))
        said = self.use_tool(f"{key}{PART}run", "exec", {"command": command, "seconds": seconds})
        return self._step.do(key, lambda: result_of(str(said)), retries=0)

    def _send_request(self, node: Node, key: str, facts: Facts) -> Any:
        """Send a request; the output has its status, headers and body."""
        names = ("url", "method", "headers", "body")
        given = {name: node.config[name] for name in names if node.config.get(name) is not None}
        # Secrets are filled in where the request leaves; nothing from outside can name one.
        return self.use_tool(key, "http_request", fill(given, facts, keep=SECRET))

    def _run_workflow(self, node: Node, key: str, facts: Facts) -> Any:
        """Run another workflow and wait for its result."""
        name = str(node.config.get("workflow"))
        if why := why_unfit_workflow(name):
            raise NonRetryableError(why)
        params = fill(node.config.get("params"), facts)
        if name == CANVAS:
            agent = self._canvas_agent(str(node.config.get("agent") or ""))
            found = self._step.spawn(key, name, {"agent": agent, "input": params})
            return found["output"] if isinstance(found, dict) else found
        return self._step.spawn(key, name, params or {})

    def _canvas_agent(self, ref: str) -> str:
        """Return the id of the agent whose canvas is run. Raise if canvases are nested too deeply."""
        # What is above a workflow never changes, so a replay finds the same.
        if depth_of(self._flow.id) >= DEEPEST:
            raise NonRetryableError(f"Canvases can run each other {DEEPEST} levels deep at most.")
        return str(find_agent(self.workspace_id, ref).pk)

    def _repeat(self, node: Node) -> list[Any]:
        """Do the same for each item of a list, one after the other. The output lists the results."""
        items = fill(node.config.get("items"), self._facts)
        if isinstance(items, str):
            items = list_in(items)
        if not isinstance(items, list):
            raise NonRetryableError("What the loop goes through is not a list.")
        if len(items) > MOST_ITEMS:
            raise NonRetryableError(f"A loop can go through at most {MOST_ITEMS} items.")
        body = body_of(node)
        if body is None:
            raise NonRetryableError("The loop does not say what to do for each item.")
        action = self._actions[body.type]
        goes_on = node.config.get("on_error") == "continue"
        results: list[Any] = []
        for index, item in enumerate(items):
            facts = replace(self._facts, locals={"item": item, "index": index})
            try:
                results.append(action(body, f"{node.id}{PART}{index}", facts))
            except (StepFailed, NonRetryableError, Invalid) as fault:
                if not goes_on:
                    raise
                results.append({"error": fault.detail})
        return self._step.do(node.id, lambda: results)

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
        message = as_text(fill(node.config.get("message"), self._facts))
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
