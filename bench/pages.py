"""Measures whether pages and list endpoints grow with the data, from 100 to 10,000 sessions.

Two installations run side by side, one small and one large, and answer the same request in turn.
A page fails if its median in the large one is more than 1.3 times, and more than 3 ms, above the
small one. Names of pages can be given to measure only those whose address contains one of them.
"""

from __future__ import annotations

import multiprocessing
import statistics
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import installation

ALLOWED_GROWTH, NOISE_MS = 1.3, 3.0
EVENTS_PER_SESSION = 9
#: Every message contains the first of these words, and one in so many the others.
EVERY_MESSAGE, WORDS = (
    "report",
    ["invoice", "import", "deploy", "ticket", "vendor", "audit", "label"],
)
ADDRESSES = [
    "/",
    "/chat/",
    "/chat/{session}/",
    "/chat/{long}/",
    "/chat/{long}/lines/?from={newest}",
    "/chat/{session}/context/",
    "/sessions/",
    "/sessions/?after={after}",
    "/sessions/?level=all",
    "/sessions/?level=children",
    "/sessions/?sort=events",
    "/sessions/?sort=tokens",
    "/sessions/?sort=cost",
    "/sessions/?sort=lasted",
    "/sessions/?sort=begun",
    "/sessions/?sort=-active",
    "/sessions/?status=idle",
    "/sessions/?status=running",
    "/sessions/?status=archived",
    "/sessions/?errors=1",
    "/sessions/?approval=1",
    "/sessions/?mine=1",
    "/sessions/?agent={agent}",
    "/sessions/?q=report",
    "/sessions/?q=invoice",
    "/sessions/?q=rare",
    "/sessions/?q=nowhere",
    "/sessions/?q=cu",
    "/sessions/?q=c",
    "/sessions/?q=report&sort=cost",
    "/sessions/{long}/",
    "/sessions/{long}/timeline/",
    "/sessions/{session}/context/",
    "/sessions/{long}/tree/",
    "/sessions/{long}/outcome/",
    "/sessions/{long}/events/",
    "/sessions/{long}/events/?type=agent.message",
    "/sessions/{long}/replay/",
    "/sessions/{long}/preview/",
    "/sessions/{session}/children/",
    "/palette/?q=inv",
    "/palette/?q=i",
    "/palette/?q=nowhere",
    "/approvals/",
    "/inbox/",
    "/inbox/?show=unread",
    "/agents/",
    "/agents/{agent}/build/",
    "/memory/",
    "/policies/",
    "/policies/session/{session}/",
    "/schedules/",
    "/schedules/new/",
    "/workflows/",
    "/workflows/?status=errored",
    "/workflows/?status=running",
    "/workflows/{workflow}/",
    "/usage/",
    "/usage/?by=session",
    "/usage/?by=tool",
    "/usage/?by=day",
    "/settings/budgets/",
    "/settings/budgets/ledger/",
    "/settings/workspace/",
    "/settings/members/",
    "/settings/keys/",
    "/settings/webhooks/",
    "/settings/environments/",
    "/settings/terminals/",
    "/api/v1/sessions/",
    "/api/v1/sessions/?limit=90",
    "/api/v1/sessions/?status=running",
    "/api/v1/sessions/?agent={agent}",
    "/api/v1/sessions/?q=report",
    "/api/v1/sessions/?q=rare",
    "/api/v1/sessions/?q=cu",
    "/api/v1/sessions/{long}/",
    "/api/v1/sessions/{long}/events/",
    "/api/v1/sessions/{long}/messages/",
    "/api/v1/sessions/{long}/tree/",
    "/api/v1/runs/",
    "/api/v1/runs/?status=failed",
    "/api/v1/runs/?status=running",
    "/api/v1/runs/?session={long}",
    "/api/v1/tools/executions/",
    "/api/v1/tools/executions/?state=unknown",
    "/api/v1/tools/executions/?session={long}",
    "/api/v1/approvals/",
    "/api/v1/approvals/?status=pending",
    "/api/v1/inbox/",
    "/api/v1/credits/entries/",
    "/api/v1/usage/",
    "/api/v1/usage/?by=session",
    "/api/v1/analytics/tools/",
    "/api/v1/workflows/",
    "/api/v1/workflows/?status=errored",
    "/api/v1/terminals/",
    "/api/v1/memory/",
    "/admin/",
    "/admin/sessions_app/session/",
    "/admin/sessions_app/session/?q=invoice",
    "/admin/sessions_app/run/",
    "/admin/sessions_app/toolexecution/",
    "/admin/sessions_app/approval/",
    "/admin/orchestrator/workflow/",
    "/admin/tenants/creditentry/",
    "/admin/tenants/modelcall/",
]


def serve(commands: Connection, sessions: int) -> None:
    """Fill an installation, then answer every address that comes in with the milliseconds it took."""
    with installation.running():
        client, names = fill(sessions)
        commands.send("ready")
        while address := commands.recv():
            began = time.perf_counter()
            answer = client.get(address.format(**names))
            took = installation.milliseconds_since(began)
            if answer.status_code != 200:
                raise SystemExit(f"{address} answered {answer.status_code}")
            commands.send(took)


def fill(count: int) -> tuple[Any, dict[str, object]]:
    """Create the sessions with runs, calls, charges and the rest. Return a client and the ids."""
    from django.conf import settings
    from django.db import connection
    from django.test import Client

    from agents.definitions import create_agent
    from orchestrator.supervisor import fold_usage
    from orchestrator.workspaces import create_workspace
    from sessions_app.models import Session
    from tenants.models import User

    settings.ALLOWED_HOSTS = ["testserver"]
    settings.REQUESTS_PER_MINUTE = 1_000_000
    person = User.objects.create_superuser("bench@example.com", "correct horse 9")
    workspace = create_workspace(name="Bench", owner=person)
    fields = {"name": "Bench", "provider": "demo", "model": "demo"}
    agent = create_agent(workspace_id=workspace.pk, fields=fields)
    filler = Filler(workspace=workspace, person=person, agent=agent, count=count)
    filler.fill()
    fold_usage()  # as the supervisor does every few seconds
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    client = Client(raise_request_exception=True)
    client.force_login(person)
    middle = Session.objects.order_by("-active_at")[count // 2]
    names = {
        "session": filler.sessions[1].pk,
        "long": filler.sessions[0].pk,
        "newest": filler.sessions[0].last_seq - 20,
        "after": f"{middle.active_at:%Y-%m-%dT%H:%M:%S.%f}%2B00:00~{middle.pk}",
        "agent": agent.pk,
        "workflow": filler.workflows[0].pk,
    }
    return client, names


class Filler:
    """Writes the rows of an installation that has been used for two months."""

    def __init__(self, *, workspace: Any, person: Any, agent: Any, count: int) -> None:
        from django.utils import timezone

        self.owned = {"workspace": workspace, "created_by": person}
        self.workspace, self.person, self.agent, self.count = workspace, person, agent, count
        self.now = timezone.now()
        #: Rows of which a filter finds few are equally many in both installations: twenty.
        self.rarely = count // 20
        self.sessions: list[Any] = []
        self.workflows: list[Any] = []

    def age(self, number: int) -> Any:
        """Return the moment of the row with this number, the first row being the newest."""
        return self.now - timedelta(days=60) * (number / self.count)

    def fill(self) -> None:
        for rows in (
            self.make_sessions(),
            self.make_events(),
            self.make_runs(),
            self.make_calls(),
            self.make_approvals(),
            self.make_charges(),
            self.make_entries(),
            self.make_items(),
            self.make_workflows(),
        ):
            insert(rows)

    def make_sessions(self) -> Iterator[Any]:
        from sessions_app.models import Session

        for number in range(self.count):
            is_child = number % self.rarely == 4
            parent = self.sessions[number - 1] if is_child else None
            events = max(300, self.count) if number == 0 else EVENTS_PER_SESSION
            session = Session(
                **self.owned,
                agent=self.agent,
                agent_version=self.agent.current,
                parent=parent,
                ancestors=[parent.pk] if parent else [],
                title=f"{WORDS[number % len(WORDS)].title()} of customer {number}",
                last_seq=events,
                input_tokens=number * 37 % 90_001,
                output_tokens=number * 11 % 5_003,
                cost=f"{number * 7 % 1009 / 1000:.3f}",
                status="running" if number % self.rarely == 1 else "idle",
                created_at=self.age(number) - timedelta(minutes=number % 50),
                active_at=self.age(number),
                archived_at=self.now if number % self.rarely == 2 else None,
            )
            self.sessions.append(session)
            yield session

    def make_events(self) -> Iterator[Any]:
        from sessions_app.models import SessionEvent

        for number, session in enumerate(self.sessions):
            for seq in range(1, session.last_seq + 1):
                kind, payload = event_of(number, seq)
                yield SessionEvent(
                    workspace=self.workspace,
                    session=session,
                    seq=seq,
                    type=kind,
                    payload=payload,
                    processed_at=session.active_at,
                    created_at=session.active_at,
                )

    def make_runs(self) -> Iterator[Any]:
        from sessions_app.models import Run

        self.runs = []
        for number, session in enumerate(self.sessions):
            for nth in range(max(30, self.count // 10) if number == 0 else 2):
                run = Run(
                    **self.owned,
                    session=session,
                    status="failed" if number % self.rarely == 3 and not nth else "completed",
                    stop_reason="end_turn",
                    usage={"input_tokens": 90, "output_tokens": 20},
                    started_at=session.active_at,
                    finished_at=session.active_at + timedelta(seconds=3),
                    created_at=session.active_at,
                )
                self.runs.append(run)
                yield run

    def make_calls(self) -> Iterator[Any]:
        from sessions_app.models import ToolExecution

        self.calls = []
        for number, run in enumerate(self.runs):
            call = ToolExecution(
                **self.owned,
                session=run.session,
                run=run,
                tool_use_id=f"call_{number}",
                name=("bash", "read_file", "web_fetch")[number % 3],
                input={"command": f"echo {number}"},
                state={5: "error", 7: "unknown", 9: "awaiting_approval"}.get(
                    number % (2 * self.rarely), "completed"
                ),
                decision="ask" if number % 2 else "allow",
                output={"text": "done"},
                started_at=run.started_at,
                finished_at=run.finished_at,
                created_at=run.created_at,
            )
            self.calls.append(call)
            yield call

    def make_approvals(self) -> Iterator[Any]:
        from sessions_app.models import Approval

        for call in self.calls:
            waits = call.state == "awaiting_approval"
            if waits or call.decision == "ask":
                yield Approval(
                    **self.owned,
                    subject_id=call.pk,
                    session=call.session,
                    execution=call,
                    agent=self.agent,
                    title=f"Run {call.tool_use_id}",
                    input=call.input,
                    status="pending" if waits else "allowed",
                    resolved_at=None if waits else call.finished_at,
                    expires_at=self.now + timedelta(days=1),
                    created_at=call.created_at,
                )

    def make_charges(self) -> Iterator[Any]:
        from tenants.models import ModelCall

        self.charges = []
        for run in self.runs:
            charge = ModelCall(
                **self.owned,
                agent_id=self.agent.pk,
                session_id=run.session_id,
                run_id=run.pk,
                provider="demo",
                model="demo",
                state="settled",
                reserved="0.01",
                cost="0.002",
                input_tokens=90,
                output_tokens=20,
                finished_at=run.finished_at,
                created_at=run.created_at,
            )
            self.charges.append(charge)
            yield charge

    def make_entries(self) -> Iterator[Any]:
        from tenants.models import CreditEntry

        for charge in self.charges:
            yield CreditEntry(
                **self.owned,
                kind="charge",
                amount="-0.002",
                call=charge,
                created_at=charge.created_at,
            )

    def make_items(self) -> Iterator[Any]:
        from tenants.models import InboxItem

        for number in range(self.count):
            yield InboxItem(
                **self.owned,
                kind="notice",
                title=f"Run {number} ended",
                body="It **ended**.",
                created_at=self.age(number),
            )

    def make_workflows(self) -> Iterator[Any]:
        from orchestrator.models import Workflow

        for number in range(self.count):
            workflow = Workflow(
                **self.owned,
                key=f"bench-{number}",
                name="execute-task",
                params={"prompt": f"Task {number}"},
                status="errored" if number % self.rarely == 3 else "complete",
                started_at=self.age(number),
                finished_at=self.age(number),
                created_at=self.age(number),
            )
            self.workflows.append(workflow)
            yield workflow


def event_of(number: int, seq: int) -> tuple[str, dict[str, object]]:
    """Return the type and the payload of an event: a question, a call, its result and an answer."""
    word = WORDS[(number + seq) % len(WORDS)]
    rare = " rare" if number % 20 == 7 and number < 100 else ""
    text = f"{EVERY_MESSAGE} {seq} of customer {number} on the {word}{rare}. " * 4
    call = {"tool_use_id": f"call_{number}_{seq // 4}", "name": "bash"}
    match seq % 4:
        case 1:
            return "user.message", {"text": text}
        case 2:
            return "agent.tool_use", {**call, "input": {"command": f"echo {word}"}}
        case 3:
            return "agent.tool_result", {**call, "state": "completed", "result": {"text": word}}
        case _:
            return "agent.message", {"text": text, "model": "demo"}


def insert(rows: Iterable[Any]) -> None:
    made = list(rows)
    type(made[0]).objects.bulk_create(made, batch_size=2_000)


def compare(small: Connection, large: Connection, address: str, rounds: int) -> bool:
    """Measure an address in both installations in turn. Return whether it grew too much."""
    both: tuple[list[float], list[float]] = ([], [])
    for nth in range(rounds + 2):
        for times, server in zip(both, (small, large), strict=True):
            server.send(address)
            took = server.recv()
            if nth >= 2:  # the first requests load templates and plans
                times.append(took)
    before, after = (statistics.median(times) for times in both)
    # Pairs, because both of a pair met the same load of the machine.
    ratio = statistics.median(large / small for small, large in zip(*both, strict=True))
    grew = ratio > ALLOWED_GROWTH and after - before > NOISE_MS
    verdict = "  GROWS" if grew else ""
    print(f"{before:8.1f} {after:8.1f} ms {ratio:6.2f} x  {address}{verdict}", flush=True)
    return grew


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", help="parts of addresses; default: all")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--sessions", type=int, nargs=2, default=[100, 10_000])
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    servers = []
    for count in options.sessions:
        here, there = context.Pipe()
        context.Process(target=serve, args=(there, count), daemon=True).start()
        servers.append(here)
    for server in servers:
        server.recv()
    print(f"{options.sessions[0]:8d} {options.sessions[1]:8d} sessions")
    chosen = [a for a in ADDRESSES if not options.pages or any(p in a for p in options.pages)]
    small, large = servers
    grew = [a for a in chosen if compare(small, large, a, options.rounds)]
    for server in servers:
        server.send("")
    if grew:
        sys.exit(f"{len(grew)} pages grow: {', '.join(grew)}")


if __name__ == "__main__":
    main()
