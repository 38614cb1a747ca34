"""The walk through a canvas: every node is a step of its own name, remembered like any."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from agents.canvas_expressions import parse
from agents.canvas_paths import Facts
from agents.canvas_templates import as_text, fill
from agents.graph import Node
from agents.models import Agent
from config.faults import Invalid, NonRetryableError, WorkflowRejected
from orchestrator.canvas.plan import Plan
from orchestrator.canvas.tool_node import DELAY, GRACE_SECONDS, RETRIES, Call
from orchestrator.engine.steps import WAIT_SECONDS, Steps

if TYPE_CHECKING:
    from orchestrator.canvas.running import CanvasRun

#: Parts a node's id from what is done for it; no id holds it.
PART = "/"
SKIPPED = f"{PART}skipped"


class Walk:
    """One walk through the nodes. A branch that a condition did not choose is skipped."""

    def __init__(self, flow: CanvasRun, step: Steps, agent: Agent, plan: Plan, given: Any) -> None:
        self._flow, self._step, self._agent, self._plan = flow, step, agent, plan
        self._outputs: dict[str, Any] = {}
        self._facts = Facts(input=given, outputs=self._outputs)
        self._choices: dict[str, str] = {}
        self._results: dict[str, Any] = {}
        self._acts: dict[str, Callable[[Node], Any]] = {
            "trigger": self._trigger,
            "agent": self._ask_agent,
            "tool": self._call_tool,
            "condition": self._choose,
            "approval": self._ask_person,
            "sub_agent": self._ask_agent,
            "wait": self._wait,
            "output": self._answer,
        }

    def run(self) -> dict[str, Any]:
        """Every node whose ways in are all over is gone on with; each is a branch of its own."""
        over: set[str] = set()
        branches = self._step.branches()
        for node in self._plan.order:
            is_due = all(edge.source in over for edge in self._plan.into.get(node.id, ()))
            if is_due and branches.run(node.id, partial(self._visit, node, len(over))):
                over.add(node.id)
        branches.rest()
        return self._answers()

    def _visit(self, node: Node, before: int) -> None:
        if not self._is_reached(node):
            self._step.do(f"{node.id}{SKIPPED}", lambda: None)
            return
        share = round(100 * before / len(self._plan.order), 1)
        self._flow.report_progress(node.name or node.id, percent=share, step=node.id)
        self._outputs[node.id] = self._act(node)

    def _answers(self) -> dict[str, Any]:
        """What the output nodes say; without one of them, what came last in the drawn order."""
        self._flow.report_progress("Done", percent=100, status="complete")
        ids = [node.id for node in self._plan.order]
        results = {one: self._results[one] for one in ids if one in self._results}
        last = next((self._outputs[one] for one in reversed(ids) if one in self._outputs), None)
        answer = next(iter(results.values())) if len(results) == 1 else last
        return {"output": answer, "outputs": results}

    def _act(self, node: Node) -> Any:
        try:
            return self._acts[node.type](node)
        except (NonRetryableError, Invalid) as fault:
            raise NonRetryableError(f"{node.name or node.id}: {fault.detail}") from fault

    def _is_reached(self, node: Node) -> bool:
        """One way that leads here is enough; all of them are over by now."""
        if node.type == "trigger":
            return True
        return bool(self._ways_into(node))

    def _ways_into(self, node: Node) -> list[str]:
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
        """The answer's text is the output."""
        message = self._text(node.config.get("prompt"))
        if not message.strip():
            raise NonRetryableError("There is nothing to ask: the prompt came out empty.")
        whom = node.config.get("agent") if node.type == "sub_agent" else None
        asked = self._step.run_session(
            node.id,
            agent=whom or str(self._agent.pk),
            message=message,
            session_key=self._conversation(node),
        )
        return asked["text"]

    def _conversation(self, node: Node) -> str:
        """Its own, in each life anew, or the one that the run has with this agent."""
        return f"{node.id}@{self._flow.generation}" if node.id in self._plan.apart else ""

    def _call_tool(self, node: Node) -> Any:
        name, given = str(node.config.get("tool")), fill(node.config.get("input"), self._facts)
        call = Call(runner=self._flow.runner, agent=self._agent, tool=name, input=given or {})
        judged = self._step.do(
            f"{node.id}{PART}policy",
            lambda: call.judge(self._step.key),
            retries=RETRIES,
            delay=DELAY,
        )
        if judged["decision"] == "ask":
            self._step.wait_for_approval(
                f"{node.id}{PART}approval",
                title=judged["title"],
                message=f"The canvas of {self._agent} wants to use {name}: {judged['decided_by']}",
                details={"tool": name, "input": call.input},
            )
        # Nothing with an effect is repeated by itself: the ledger tells what was begun before.
        return self._step.do(
            node.id,
            lambda: call.make(self._step.key, self._step.attempt),
            retries=RETRIES,
            delay=DELAY,
            timeout=judged["seconds"] + GRACE_SECONDS,
        )

    def _choose(self, node: Node) -> bool:
        chosen = self._step.do(
            node.id, lambda: parse(str(node.config.get("expression"))).holds(self._facts)
        )
        self._choices[node.id] = "true" if chosen else "false"
        return chosen

    def _ask_person(self, node: Node) -> Any:
        """A no ends the run, unless a way leads on by the handle `rejected`."""
        message = self._text(node.config.get("message"))
        try:
            said = self._step.wait_for_approval(
                node.id, title=node.name or message[:200], message=message
            )
        except WorkflowRejected as fault:
            if "rejected" not in self._plan.handles.get(node.id, ()):
                raise
            self._choices[node.id] = "rejected"
            return {"approved": False, "note": fault.detail}
        self._choices[node.id] = "approved"
        return said

    def _wait(self, node: Node) -> Any:
        """For an event of this name, at most so long; without one, for so long."""
        event, seconds = node.config.get("event"), node.config.get("seconds")
        if event:
            longest = WAIT_SECONDS if seconds is None else seconds
            return self._step.wait_for_event(node.id, type=str(event)[:100], timeout=longest)
        self._step.sleep(node.id, seconds or 0)
        return None

    def _answer(self, node: Node) -> Any:
        """What its configuration says, else what came in: one value, or each by its node."""

        def value() -> Any:
            if node.config.get("value") is not None:
                return fill(node.config["value"], self._facts)
            came = {source: self._outputs[source] for source in self._ways_into(node)}
            return next(iter(came.values())) if len(came) == 1 else came

        self._results[node.id] = self._step.do(node.id, value)
        return self._results[node.id]


class WalkInTurn(Walk):
    """As runs of version 1 walk: one node after the other, whatever waits."""

    def run(self) -> dict[str, Any]:
        for nth, node in enumerate(self._plan.order):
            self._visit(node, nth)
        return self._answers()
