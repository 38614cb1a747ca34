"""Tests of compactions during which a snapshot is undone, and of the trust of what they save."""

from __future__ import annotations

import pytest

from memory.models import MemoryEntry
from sessions_app.context.compaction.snapshots import undo_snapshot
from sessions_app.context.taint import mark_tainted
from sessions_app.harness import crash_points
from sessions_app.models import ContextSnapshot, Session
from tests.sessions_app.context.test_compaction import fill, model, small_window
from tests.sessions_app.long_talk import tell

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["model", "small_window"]


def test_a_summary_is_dropped_when_its_base_snapshot_was_undone_meanwhile(
    session, model, monkeypatch
):
    fill(session)
    first = ContextSnapshot.objects.get()
    undone: list[ContextSnapshot] = []

    def undo_once(point: str) -> None:
        if point == "before_snapshot" and not undone:
            undone.append(undo_snapshot(session, first.pk, None))

    monkeypatch.setattr(crash_points, "on_reach", undo_once)
    for nth in range(60):
        tell(session, f"say more of file src/more{nth}.py " + "words " * 40)
        if undone:
            break
    assert undone, "another compaction came"

    assert not ContextSnapshot.objects.active().exists()
    assert Session.objects.get(pk=session.pk).snapshot_seq == 0


@pytest.mark.parametrize("tainted", [True, False])
def test_a_compaction_saves_trusted_memories_only_in_an_untainted_session(session, model, tainted):
    if tainted:
        mark_tainted(session.pk)
    tell(session, "say the launch code of project heron is RX-4711")
    fill(session)

    assert MemoryEntry.objects.get().trust == ("untrusted" if tainted else "trusted")
