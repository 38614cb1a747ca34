"""Tests that the daily sums of usage, with the calls that are not folded yet, equal the calls."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction

from core.db import connect, prepared_rows
from core.ids import uuid7
from orchestrator.workspaces import erase_workspace
from tenants.billing import usage
from tenants.billing.spending import Charge, PlannedCall, Spender, charge_minutes, reserve, settle
from tenants.billing.usage import Span, daily, fold_calls, report, totals
from tenants.models import CreditEntry, ModelCall, SessionUsage, UsageRollup, User, Workspace
from tests.factories import user
from tests.statements import recorded_statements

pytestmark = pytest.mark.django_db

STEPS = 120
WAITING = "SELECT 1 FROM pg_locks WHERE NOT granted LIMIT 1"
TODAY = datetime.now(tz=UTC).date()
SPAN = Span(first=TODAY - timedelta(days=20), last=TODAY)
OWNERS: dict[str, Callable[[ModelCall], Any]] = {
    "day": lambda call: call.created_at.astimezone(UTC).date(),
    "member": lambda call: call.created_by_id or "",
    "agent": lambda call: call.agent_id or "",
    "model": lambda call: f"{call.provider}/{call.model}",
    "key": lambda call: call.key_id or "",
    "session": lambda call: call.session_id or "",
}


class Folder(Exception):
    """Stands for the death of the process that folds."""


class Usage:
    """Does something random to the calls of two workspaces."""

    def __init__(self, seed: int, workspaces: list[Workspace]) -> None:
        self.random = random.Random(seed)
        self.workspaces = workspaces
        self.owners: list[UUID | None] = [None, *(uuid7() for _ in range(3))]
        self.sessions: list[UUID | None] = [None, *(uuid7() for _ in range(9))]
        self.people: list[User] = [user() for _ in range(3)]
        self.open: list[UUID] = []
        self.steps = [
            (6, self.call),
            (6, self.settle),
            (2, self.fold),
            (1, self.die_while_folding),
            (1, self.arrive_late),
            (1, self.change),
            (1, self.delete),
            (1, self.charge_sandbox),
        ]

    def step(self) -> None:
        weights, steps = zip(*self.steps, strict=True)
        self.random.choices(steps, weights)[0]()

    def call(self) -> None:
        person = self.random.choice([None, *self.people])
        planned = PlannedCall(
            spender=Spender(
                workspace_id=self.random.choice(self.workspaces).pk,
                agent_id=self.random.choice(self.owners),
                session_id=self.random.choice(self.sessions),
                key_id=self.random.choice(self.owners),
                user_id=person.pk if person else None,
            ),
            provider="openai",
            model=self.random.choice(["big", "small"]),
            worst_case=Decimal("0.01"),
        )
        reserve(planned)
        self.open.append(planned.id)

    def settle(self) -> None:
        if self.open:
            settle(
                Charge(
                    call_id=self.open.pop(self.random.randrange(len(self.open))),
                    outcome=self.random.choice(["settled", "estimated", "failed"]),
                    cost=self.random.choice(
                        [Decimal(0), Decimal(self.random.randrange(9_999)) / 10**6]
                    ),
                    input_tokens=self.random.randrange(999),
                    output_tokens=self.random.randrange(99),
                    cached_tokens=self.random.randrange(50),
                )
            )

    def fold(self) -> None:
        prepared_rows(usage.FOLD, [self.random.choice([1, 3, 100])])

    def die_while_folding(self) -> None:
        with suppress(Folder), transaction.atomic():
            self.fold()
            raise Folder

    def arrive_late(self) -> None:
        """Settle a call of a day whose other calls were folded long ago."""
        self.call()
        when = datetime.now(tz=UTC) - timedelta(days=self.random.randrange(25))
        ModelCall.objects.filter(pk=self.open[-1]).update(created_at=when)

    def change(self) -> None:
        if self.calls:
            ModelCall.objects.filter(pk=self.random.choice(self.calls).pk).update(cost="0.007")

    def delete(self) -> None:
        if self.random.random() < 0.3 and self.people:
            self.people.pop().delete()  # its calls stay, without a member
        elif self.calls:
            # The ledger refuses to lose a call that was charged.
            free = [call for call in self.calls if call.pk not in self.charged]
            ModelCall.objects.filter(pk=self.random.choice(free).pk).delete() if free else None

    def charge_sandbox(self) -> None:
        first = datetime.now(tz=UTC) - timedelta(minutes=self.random.randrange(9_999))
        workspace = self.random.choice(self.workspaces)
        charge_minutes(workspace.pk, f"call:{uuid7()}", first=first, count=2, note="a command")

    @property
    def charged(self) -> set[UUID | None]:
        return set(CreditEntry.objects.values_list("call_id", flat=True))

    @property
    def calls(self) -> list[ModelCall]:
        return list(ModelCall.objects.order_by("pk"))


def sums_of_rows(workspace: Workspace, by: str) -> dict[str, tuple[Any, ...]]:
    """Sum up the calls themselves."""
    sums: dict[str, Counter[int]] = {}
    for call in ModelCall.objects.for_workspace(workspace.pk):
        if SPAN.first <= call.created_at.astimezone(UTC).date() <= SPAN.last:
            facts = (1, call.input_tokens, call.output_tokens, call.cached_tokens, call.cost)
            sums.setdefault(str(OWNERS[by](call)), Counter()).update(dict(enumerate(facts)))
    return {key: tuple(total[nth] for nth in range(5)) for key, total in sums.items()}


def assert_reports_equal_rows(workspace: Workspace) -> None:
    for by in OWNERS:
        lines = report(workspace.pk, by, SPAN)
        found = {
            line.key: (
                line.calls,
                line.input_tokens,
                line.output_tokens,
                line.cached_tokens,
                line.cost,
            )
            for line in lines
            if line.calls  # others have only the cost of sandboxes
        }
        assert found == sums_of_rows(workspace, by), by
        if by != "day":
            assert [line.spent for line in lines] == sorted((x.spent for x in lines), reverse=True)
    assert_pages_of_sessions_follow_each_other(workspace)
    charged = CreditEntry.objects.for_workspace(workspace.pk).filter(kind="sandbox")
    days = daily(workspace.pk, SPAN)
    assert totals(days)["sandbox_cost"] == -sum(entry.amount for entry in charged)
    assert sum(day.calls for day in days) == totals(days)["calls"]


def assert_pages_of_sessions_follow_each_other(workspace: Workspace) -> None:
    for span in (SPAN, Span(first=TODAY - timedelta(days=9), last=TODAY - timedelta(days=3))):
        params = [workspace.pk, "session", span.first, span.last, 100, 0]
        every = [key for key, *_ in prepared_rows(usage.SUM_BY_KEY, params)]
        pages = [
            line.key
            for skip in range(0, len(every), 2)
            for line in report(workspace.pk, "session", span, limit=2, offset=skip)
        ]
        assert pages == every


@pytest.fixture(autouse=True)
def few_sessions_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "SESSIONS_PER_ROW", 1)


@pytest.fixture(autouse=True)
def sandboxes_cost_something(settings: Any) -> None:
    settings.SANDBOX_MINUTE_PRICE = Decimal("0.0001")


@pytest.mark.parametrize("seed", range(4))
def test_reports_equal_the_sum_of_the_calls_after_any_sequence_of_events(
    workspace: Workspace, foreign_workspace: Workspace, seed: int
):
    walk = Usage(seed, [workspace, foreign_workspace])
    for number in range(STEPS):
        walk.step()
        if number % 10 == 0:
            assert_reports_equal_rows(workspace)
    erase_workspace(foreign_workspace)
    assert_reports_equal_rows(workspace)
    fold_calls()

    assert_reports_equal_rows(workspace)
    assert set(ModelCall.objects.filter(folded=False).values_list("state", flat=True)) <= {
        "reserved"
    }
    for model in (UsageRollup, SessionUsage):
        assert not model.objects.exclude(workspace=workspace).exists()


def spend(workspace: Workspace, *, count: int = 1, created_at: datetime | None = None) -> None:
    facts: dict[str, Any] = {"created_at": created_at} if created_at else {}
    for _ in range(count):
        ModelCall.objects.create(
            workspace=workspace,
            session_id=uuid7(),
            provider="demo",
            model="demo",
            state="settled",
            reserved=0,
            cost="0.5",
            **facts,
        )


@pytest.mark.django_db(transaction=True)
def test_a_folder_that_is_killed_leaves_all_calls_to_the_next_one(workspace: Workspace):
    spend(workspace, count=3)
    killed = connect()
    killed.execute("BEGIN")
    assert killed.execute("SELECT usage_fold(2)").fetchone() == (2,)

    assert fold_calls() == 0, "another folder is at work"
    assert totals(daily(workspace.pk, SPAN))["calls"] == 3
    with connect() as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [killed.info.backend_pid])
    killed.close()
    assert totals(daily(workspace.pk, SPAN))["calls"] == 3
    assert fold_calls() == 3
    assert totals(daily(workspace.pk, SPAN))["calls"] == 3


@pytest.mark.django_db(transaction=True)
def test_a_fold_that_an_erasure_waits_for_leaves_no_sums(workspace: Workspace):
    spend(workspace, count=2)
    eraser = threading.Thread(target=erase, args=[workspace])
    with connect() as folder:
        folder.execute("BEGIN")
        folder.execute("SELECT usage_fold(2)")
        eraser.start()
        while eraser.is_alive() and not folder.execute(WAITING).fetchone():
            time.sleep(0.01)
        folder.execute("COMMIT")
    eraser.join()

    assert not Workspace.objects.exists()
    assert not UsageRollup.objects.exists()
    assert not SessionUsage.objects.exists()


def erase(workspace: Workspace) -> None:
    erase_workspace(workspace)
    connection.close()


def test_days_begin_at_midnight_by_utc(workspace: Workspace):
    midnight = datetime(2026, 3, 1, tzinfo=UTC)
    for moment in (midnight - timedelta(microseconds=1), midnight):
        spend(workspace, created_at=moment)
    span = Span(first=date(2026, 3, 1), last=date(2026, 3, 1))

    assert [line.calls for line in report(workspace.pk, "day", span)] == [1]
    fold_calls()
    assert [line.calls for line in report(workspace.pk, "day", span)] == [1]


def plan_of(query: str, *params: Any) -> str:
    with connection.cursor() as cursor:
        # With tables as small as these, reading and sorting everything is the cheapest plan.
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
        cursor.execute(f"EXPLAIN {query}", params)
        return "\n".join(line for (line,) in cursor.fetchall())


def test_a_report_reads_the_sums_and_only_calls_that_are_not_folded(workspace: Workspace):
    plan = plan_of(usage.SUM_BY_KEY, workspace.pk, "agent", SPAN.first, SPAN.last, 5, 0)

    assert "usage_is_one_per_day_and_key" in plan
    assert "call_unfolded" in plan
    assert "call_by_time" not in plan
    assert "Seq Scan" not in plan


def test_the_most_expensive_sessions_are_found_by_index(workspace: Workspace):
    plan = plan_of(usage.TOP_SESSIONS, workspace.pk, SPAN.first, SPAN.last, 20, 5)

    assert "usage_session_by_cost" in plan
    assert "usage_by_session" in plan
    assert "call_unfolded" in plan
    assert "Seq Scan" not in plan


def test_a_page_of_sessions_is_read_by_one_statement_however_many_sessions_there_are(
    workspace: Workspace,
):
    spend(workspace, count=30)
    fold_calls()
    spend(workspace)
    with recorded_statements() as statements:
        page = report(workspace.pk, "session", SPAN, limit=5, offset=5)

    assert len(page) == 5
    assert len(statements) == 1


def test_an_expensive_session_of_other_days_does_not_hide_those_of_these_days(
    workspace: Workspace,
):
    now = datetime.now(tz=UTC)
    old = ModelCall(workspace=workspace, provider="demo", model="demo", state="settled")
    old.session_id, old.reserved = uuid7(), Decimal(0)
    for days, cost in ((40, 9), (1, "0.1")):  # it was used again yesterday, for less
        old.pk, old.cost, old.created_at = uuid7(), Decimal(cost), now - timedelta(days=days)
        old.save(force_insert=True)
    spend(workspace, count=3)
    fold_calls()

    lines = report(workspace.pk, "session", SPAN, limit=4)
    assert [line.cost for line in lines] == [Decimal(cost) for cost in ("0.5", "0.5", "0.5", "0.1")]
    assert lines[3].key == str(old.session_id)
    [first] = report(workspace.pk, "session", SPAN, limit=1)
    assert first.cost == Decimal("0.5")
