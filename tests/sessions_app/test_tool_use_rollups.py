"""Tests that the daily sums of tool calls, with the calls that are not folded yet, equal the calls."""

from __future__ import annotations

import random
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from core.db import connect
from orchestrator.workspaces import erase_workspace
from sessions_app import ledger
from sessions_app.ledger import ToolUse, fold_calls, tool_use_between
from sessions_app.log.sql import row
from sessions_app.models import Run, ToolExecution, ToolUseRollup
from tenants.models import Workspace
from tests.factories import numbers, run

pytestmark = pytest.mark.django_db

STEPS = 150
TODAY = datetime.now(tz=UTC).date()
FIRST = TODAY - timedelta(days=20)
ENDED = ["completed", "error", "denied", "cancelled", "unknown"]


class FolderDied(Exception):
    """Stands for the death of the process that folds."""


class Calls:
    """Does something random to the tool calls of two workspaces."""

    def __init__(self, seed: int, workspaces: list[Workspace]) -> None:
        self.random = random.Random(seed)
        self.runs = [run(workspace) for workspace in workspaces for _ in range(3)]
        self.steps = [
            (6, self.request),
            (6, self.end),
            (2, self.fold),
            (1, self.die_while_folding),
            (1, self.verify),
            (1, self.retry),
            (1, self.delete),
        ]

    def step(self) -> None:
        weights, steps = zip(*self.steps, strict=True)
        self.random.choices(steps, weights)[0]()

    def one(self, states: Iterable[str]) -> Any:
        """Return the query of one random call in these states."""
        calls = list(ToolExecution.objects.filter(state__in=states).order_by("pk"))
        return ToolExecution.objects.filter(
            pk__in=[c.pk for c in self.random.sample(calls, 1)] if calls else []
        )

    def request(self) -> None:
        made = self.random.choice(self.runs)
        when = datetime.now(tz=UTC) - timedelta(days=self.random.randrange(25))
        request(
            made,
            name=self.random.choice(["bash", "read"]),
            created_at=when,
            decision=self.random.choice(["ask", "allow"]),
        )

    def end(self) -> None:
        """End a call. Calls of any day end at any time, so the sums of old days change too."""
        took = timedelta(milliseconds=self.random.choice([0, 0.2, 3, 40, 41.5, 700, 60_000]))
        began = datetime.now(tz=UTC) if self.random.random() < 0.8 else None
        self.one(["requested"]).update(
            state=self.random.choice(ENDED),
            started_at=began,
            finished_at=(began or datetime.now(tz=UTC)) + took,
        )

    def fold(self) -> None:
        row(ledger.FOLD, [self.random.choice([1, 3, 100])])

    def die_while_folding(self) -> None:
        with suppress(FolderDied), transaction.atomic():
            self.fold()
            raise FolderDied

    def verify(self) -> None:
        self.one(["unknown"]).update(state="completed", finished_at=datetime.now(tz=UTC))

    def retry(self) -> None:
        self.one(["unknown"]).update(state="requested", started_at=None, finished_at=None)

    def delete(self) -> None:
        if self.random.random() < 0.2:
            self.random.choice(self.runs).executions.all().delete()
        else:
            self.one(ENDED).delete()


def request(made: Run, **facts: Any) -> ToolExecution:
    return ToolExecution.objects.create(
        workspace=made.workspace,
        session=made.session,
        run=made,
        tool_use_id=f"call-{next(numbers)}",
        input={},
        **facts,
    )


def milliseconds(call: ToolExecution) -> float | None:
    if call.started_at is None or call.finished_at is None:
        return None
    return (call.finished_at - call.started_at) / timedelta(milliseconds=1)


def counts_of_rows(calls: list[ToolExecution]) -> tuple[int, ...]:
    states = [call.state for call in calls]
    asked = sum(call.decision == "ask" for call in calls)
    return (len(calls), *(states.count(state) for state in ENDED), asked)


def assert_statistics_equal_rows(workspace: Workspace) -> None:
    by_tool: dict[str, list[ToolExecution]] = {}
    for call in ToolExecution.objects.for_workspace(workspace.pk):
        if FIRST <= call.created_at.astimezone(UTC).date() <= TODAY:
            by_tool.setdefault(call.name, []).append(call)
    found = {use.name: use for use in tool_use_between(workspace.pk, FIRST, TODAY)}

    assert {name: use[1:8] for name, use in found.items()} == {
        name: counts_of_rows(calls) for name, calls in by_tool.items()
    }
    for name, calls in by_tool.items():
        took = sorted(ms for ms in map(milliseconds, calls) if ms is not None)
        assert_percentiles(found[name], took)


def assert_percentiles(use: ToolUse, took: list[float]) -> None:
    for shown, share in ((use.p50_ms, 0.5), (use.p95_ms, 0.95)):
        if not took:
            assert shown is None
            continue
        exact = next(ms for nth, ms in enumerate(took, 1) if nth >= share * len(took))
        assert shown == pytest.approx(exact, rel=0.1, abs=0.001)


@pytest.mark.parametrize("seed", range(4))
def test_statistics_equal_the_calls_after_any_sequence_of_events(
    workspace: Workspace, foreign_workspace: Workspace, seed: int
):
    walk = Calls(seed, [workspace, foreign_workspace])
    for number in range(STEPS):
        walk.step()
        if number % 10 == 0:
            assert_statistics_equal_rows(workspace)
    erase_workspace(foreign_workspace)
    assert_statistics_equal_rows(workspace)
    fold_calls()

    assert_statistics_equal_rows(workspace)
    assert not ToolExecution.objects.filter(folded=False, state__in=ENDED).exists()
    assert not ToolUseRollup.objects.exclude(workspace=workspace).exists()


def test_the_duration_of_equal_calls_is_exact(workspace: Workspace):
    began = datetime.now(tz=UTC)
    for _ in range(3):
        request(
            run(workspace),
            name="read",
            state="completed",
            started_at=began,
            finished_at=began + timedelta(seconds=2),
        )
    fold_calls()

    [use] = tool_use_between(workspace.pk, FIRST, TODAY)
    assert (use.calls, use.p50_ms, use.p95_ms) == (3, 2000, 2000)


@pytest.mark.django_db(transaction=True)
def test_a_folder_that_is_killed_leaves_all_calls_to_the_next_one(workspace: Workspace):
    for _ in range(3):
        request(run(workspace), name="read", state="completed")
    killed = connect()
    killed.execute("BEGIN")
    assert killed.execute("SELECT tool_use_fold(2)").fetchone() == (2,)

    assert fold_calls() == 0, "another folder is at work"
    with connect() as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [killed.info.backend_pid])
    killed.close()
    assert fold_calls() == 3
    assert tool_use_between(workspace.pk, FIRST, TODAY)[0].calls == 3


def test_statistics_read_the_sums_and_only_calls_that_are_not_folded(workspace: Workspace):
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        params: list[Any] = [workspace.pk, FIRST, TODAY, ToolUseRollup.NEVER_RAN]
        cursor.execute(f"EXPLAIN {ledger.COUNT_BY_TOOL}", params)
        plan = "\n".join(line for (line,) in cursor.fetchall())

    assert "tool_use_is_one_per_day_and_bucket" in plan
    assert "execution_unfolded" in plan
    assert "execution_by_workspace" not in plan
    assert "Seq Scan" not in plan
