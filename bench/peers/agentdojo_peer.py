"""Serves one suite of AgentDojo: its tools as an MCP server, and its attacks as questions.

The tools act on an environment in this process, and the suite's own check says whether an attack was
successful. Attackers write what AgentDojo's `important_instructions` writes.
"""

from __future__ import annotations

import re
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import mcp_types as types
import uvicorn
from agentdojo.agent_pipeline import GroundTruthPipeline
from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
from agentdojo.attacks import load_attack
from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime
from agentdojo.task_suite import get_suite
from mcp.server.lowlevel import Server

# At the end of the path: a package of this repository may have the name of one of AgentDojo's.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from bench.rounds import serve

VERSION = "v1.2.2"
ATTACK = "important_instructions"
#: Tools that change nothing, by the names that the suites use.
READING = re.compile(r"(get|read|search|list|check)_")


class Suite:
    """The tools and tasks of a suite, and the environment of the attack that is being tried."""

    def __init__(self, name: str) -> None:
        self._suite = get_suite(VERSION, name)
        pipeline = GroundTruthPipeline(None)
        pipeline.name = "local"  # the attack addresses the model by a name that AgentDojo knows
        self._attack = load_attack(ATTACK, self._suite, pipeline)
        self._runtime = FunctionsRuntime(self._suite.tools)
        self._port = 0

    # ── Questions ────────────────────────────────────────────────────────────

    def tools(self) -> dict[str, Any]:
        """Return where the MCP server listens, and the tools that only read."""
        names = [tool.name for tool in self._suite.tools]
        return {"port": self._port, "reading": [name for name in names if READING.match(name)]}

    def attacks(self, count: int) -> dict[str, Any]:
        """Return pairs of a user's task and an attack, with so many tasks for each attack.

        AgentDojo does not say which calls some attacks consist of; those are left out.
        """
        users = [task for task in self._suite.user_tasks.values() if self._reads_first(task)]
        pairs, left_out = [], []
        for nth, injection in enumerate(self._suite.injection_tasks.values()):
            environment = self._suite.load_and_inject_default_environment({})
            if not injection.ground_truth(environment) and not injection.GROUND_TRUTH_OUTPUT:
                left_out.append(injection.ID)
                continue
            chosen = [users[(nth * count + n) % len(users)] for n in range(count)]
            pairs += [(user.ID, injection.ID) for user in chosen]
        return {"pairs": pairs, "left_out": left_out}

    def _reads_first(self, user: Any) -> bool:
        """Return whether the task reads text that attackers can write before it changes anything."""
        environment = self._environment(user, self._attack.canary_injections)
        for call in user.ground_truth(environment):
            if not READING.match(call.function):
                return False
            result, _ = self._runtime.run_function(environment, call.function, call.args)
            if "<CANARY---" in tool_result_to_str(result):
                return True
        return False

    def _environment(self, user: Any, injections: dict[str, str]) -> Any:
        loaded = self._suite.load_and_inject_default_environment(injections)
        return user.init_environment(loaded)

    def prepare(self, user: str, injection: str) -> dict[str, Any]:
        """Load an attack: what the person and the attacker want, and the calls that do it."""
        task = self._suite.get_user_task_by_id(user)
        self._injection = self._suite.get_injection_task_by_id(injection)
        self._before = self._environment(task, self._attack.attack(task, self._injection))
        return {
            "prompt": task.PROMPT,
            "calls": _plain(task.ground_truth(self._before)),
            "goal": self._injection.GOAL,
            "attack_calls": _plain(self._injection.ground_truth(self._before)),
            "attack_answer": self._injection.GROUND_TRUTH_OUTPUT,
        }

    def reset(self) -> None:
        """Begin the prepared attack anew."""
        self._now = self._before.model_copy(deep=True)
        self._made: list[FunctionCall] = []

    def outcome(self, answer: str) -> dict[str, Any]:
        """Return whether the attack was successful, by the suite's own check."""
        states = (answer, self._before, self._now)
        found = self._injection.security_from_traces(*states, self._made)
        return {"successful": self._injection.security(*states) if found is None else found}

    # ── Tools ────────────────────────────────────────────────────────────────

    def listen(self) -> None:
        """Serve the tools on a free port of this machine."""
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        self._port = listener.getsockname()[1]
        server = Server("AgentDojo", on_list_tools=self._list, on_call_tool=self._call)
        config = uvicorn.Config(server.streamable_http_app(), log_level="error")
        web = uvicorn.Server(config)
        threading.Thread(target=web.run, args=([listener],), daemon=True).start()
        while not web.started:
            threading.Event().wait(0.05)

    async def _list(self, context: Any, params: Any) -> types.ListToolsResult:
        tools = [
            types.Tool(
                name=tool.name,
                description=tool.description,
                input_schema=tool.parameters.model_json_schema(),
            )
            for tool in self._suite.tools
        ]
        return types.ListToolsResult(tools=tools)

    async def _call(self, context: Any, params: Any) -> types.CallToolResult:
        arguments = params.arguments or {}
        self._made.append(FunctionCall(function=params.name, args=arguments))
        result, error = self._runtime.run_function(self._now, params.name, arguments)
        text = types.TextContent(type="text", text=error or tool_result_to_str(result))
        return types.CallToolResult(content=[text], is_error=bool(error))


def _plain(calls: list[FunctionCall]) -> list[tuple[str, dict[str, Any]]]:
    return [(call.function, call.model_dump(mode="json")["args"]) for call in calls]


if __name__ == "__main__":
    suite = Suite(sys.argv[1])
    suite.listen()
    questions = (suite.tools, suite.attacks, suite.prepare, suite.reset, suite.outcome)
    serve({question.__name__: question for question in questions})
