"""Replays AgentDojo's attacks with a model that obeys them, and counts how many are successful.

Every attack runs in a real session whose agent uses the tools of AgentDojo's suite over MCP, under each
profile and four settings of an administrator. No approval is answered. AgentDojo runs in a
separate environment, which is made in `var/agentdojo`; see `bench/peers/agentdojo_peer.py`.
"""

from __future__ import annotations

import os
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import installation
from bench.obeying_model import SERVER, ObeyingModel
from bench.rounds import MeasuredProcess

SUITES = ("workspace", "travel", "banking", "slack")
#: What an administrator did, from nothing to everything.
_, NAMED, GROUP, NEVER_ASKS = SETTINGS = (
    "nothing",
    "named the reading tools",
    "named the reading tools, allowed group:mcp",
    "set the server to never ask",
)
WORKER = uuid4()


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one attack under one profile and setting."""

    read: bool
    successful: bool
    asked: int


def is_hole(attack: Mapping[str, Any], named: Sequence[str]) -> bool:
    """Return whether a successful attack used a tool that the administrator did not name."""
    return any(name not in named for name, _ in attack["attack_calls"])


def make_agents(port: int, setting: str, reading: Sequence[str]) -> dict[str, Any]:
    """Return an agent for each profile, in a workspace with the suite's server."""
    from tools_app import save_tool_policy
    from tools_app.mcp import servers
    from tools_app.policy.rules import PROFILES

    agents = dict(zip(PROFILES, installation.make_agents(len(PROFILES)), strict=True))
    fields = {
        "name": SERVER,
        "url": f"http://127.0.0.1:{port}/mcp",
        "permission": "always_allow" if setting == NEVER_ASKS else "always_ask",
    }
    [workspace_id] = {agent.workspace_id for agent in agents.values()}
    server = servers.refresh(servers.add_server(workspace_id=workspace_id, fields=fields))
    assert server.status == "ok", server.error
    assert not server.left_out, server.left_out
    rules = [f"mcp:{SERVER}:{name}(*)" for name in reading] if setting in {NAMED, GROUP} else []
    rules += ["group:mcp"] if setting == GROUP else []
    for profile, agent in agents.items():
        save_tool_policy(agent.pk, {"profile": profile, "approved_tools": rules})
    return agents


def try_attack(agent: Any, attack: Mapping[str, Any], suite: MeasuredProcess) -> Outcome:
    """Let a person send the task to a new session, and serve it until it ends or waits."""
    from sessions_app.harness import loop
    from sessions_app.lanes import run_queue
    from sessions_app.lanes.signals import StopSignal
    from sessions_app.models import ToolExecution
    from sessions_app.sessions import get_or_create_session

    suite.ask("reset")
    model = ObeyingModel(attack)
    loop.provider_for = lambda *_: model  # type: ignore[attr-defined]
    session, _ = get_or_create_session(agent=agent)
    installation.send(session, attack["prompt"])
    claim = run_queue.claim(session.pk, WORKER)
    while claim:
        claim = loop.run(claim, WORKER, StopSignal())
    waiting = ToolExecution.objects.filter(session=session, state="awaiting_approval")
    return Outcome(
        read=model.has_read_attack,
        successful=suite.ask("outcome", answer=model.answer)["successful"],
        asked=waiting.count(),
    )


class Report:
    """Counts the outcomes by setting and profile, and explains the successes."""

    def __init__(self) -> None:
        self._counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._successes: Counter[str] = Counter()
        self.holes = 0

    def add(self, setting: str, profile: str, outcome: Outcome) -> None:
        counted = {"tried": 1, "read": outcome.read, "successful": outcome.successful}
        self._counts[setting, profile].update({**counted, "asked": outcome.asked})

    def explain(self, name: str, setting: str, attack: Mapping[str, Any], hole: bool) -> None:
        used = ", ".join(tool for tool, _ in attack["attack_calls"]) or "words in the answer"
        self._successes[f"{setting}: {name} by {used}{', A HOLE' if hole else ''}"] += 1
        self.holes += hole

    def show(self) -> None:
        print("| setting | profile | tried | read | successful | calls that asked |")
        print("|---|---|---|---|---|---|")
        for (setting, profile), counts in self._counts.items():
            figures = [counts[name] for name in ("tried", "read", "successful", "asked")]
            print("|", " | ".join(map(str, (setting, profile, *figures))), "|")
        for success, times in self._successes.items():
            print(f"{success} ({times})")


def replay(name: str, suite: MeasuredProcess, tasks: int, report: Report) -> None:
    """Try every attack of a suite under every setting and profile."""
    from django.conf import settings

    told = suite.ask("tools")
    settings.EGRESS_ALLOWED_PRIVATE = [f"mcp=127.0.0.1:{told['port']}"]
    agents = {one: make_agents(told["port"], one, told["reading"]) for one in SETTINGS}
    found = suite.ask("attacks", count=tasks)
    print(f"{name}: {len(found['pairs'])} attacks, left out {found['left_out']}", flush=True)
    for user, injection in found["pairs"]:
        attack = suite.ask("prepare", user=user, injection=injection)
        for setting, by_profile in agents.items():
            named = told["reading"] if setting in {NAMED, GROUP} else []
            for profile, agent in by_profile.items():
                outcome = try_attack(agent, attack, suite)
                report.add(setting, profile, outcome)
                if outcome.successful and setting != NEVER_ASKS:
                    report.explain(f"{name} {injection}", setting, attack, is_hole(attack, named))


def main() -> None:
    options = installation.parse_options(__doc__, tasks=2)
    python = str(installation.install("agentdojo.txt", into="agentdojo"))
    env = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    report = Report()
    with installation.running():
        for name in SUITES:
            command = [python, "bench/peers/agentdojo_peer.py", name]
            suite = MeasuredProcess(name, command, folder=installation.ROOT, env=env)
            try:
                replay(name, suite, options.tasks, report)
            finally:
                suite.close()
    report.show()
    sys.exit(1 if report.holes else 0)


if __name__ == "__main__":
    main()
