"""Tests of compaction: what it keeps, what it records, and that a failure changes nothing."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, transaction

from agents.definitions import change_agent
from agents.exceptions import ContextOverflow, ProviderUnavailable
from agents.providers.base import TextDelta, Usage
from memory.models import MemoryEntry, MemoryVersion
from sessions_app import runtime
from sessions_app.context.compaction.snapshots import PAUSE_EVENTS, undo_snapshot
from sessions_app.context.preview import preview
from sessions_app.harness import model_call
from sessions_app.models import ContextSnapshot, Run, SessionEvent
from sessions_app.sessions import cancel_run, fork
from tests.sessions_app.conftest import newest, types
from tests.sessions_app.long_talk import Watched, give_past, serve, tell, window_of

pytestmark = pytest.mark.django_db(transaction=True)

COMPACTED = "session.context_compacted"


@pytest.fixture(autouse=True)
def small_window():
    with window_of(8_000):
        yield


@pytest.fixture
def model(monkeypatch) -> Watched:
    watched = Watched()
    monkeypatch.setattr("sessions_app.harness.loop.provider_for", lambda *_: watched)
    monkeypatch.setattr("sessions_app.harness.model_call.provider_for", lambda *_: watched)
    monkeypatch.setattr(model_call, "PAUSES", ())
    return watched


@pytest.fixture
def scripted_summaries(monkeypatch, model):
    """Answer requests for summaries with these texts, repeating the last one."""

    def use(*answers: str | Exception) -> None:
        left = list(answers)

        class SummaryProvider:
            def stream(self, request):
                said: str | Exception = "- a fact"
                if not request.messages[0].text.startswith("Save"):
                    said = left.pop(0) if len(left) > 1 else left[0]
                if isinstance(said, Exception):
                    raise said
                yield TextDelta(text=said)
                yield Usage(input_tokens=5, output_tokens=3)

        monkeypatch.setattr(
            "sessions_app.harness.model_call.provider_for", lambda *_: SummaryProvider()
        )

    return use


def fill(session, until: str = COMPACTED) -> None:
    """Send messages until the log has an event of this type."""
    for nth in range(60):
        tell(session, f"say note {nth} of file src/part{nth}.py " + "words " * 40)
        if until in types(session):
            return
    raise AssertionError(f"no {until}")


def test_a_nearly_full_context_is_compacted_before_the_model_is_asked(session, model):
    fill(session)

    snapshot = ContextSnapshot.objects.get()
    event = newest(session, COMPACTED)
    session.refresh_from_db()
    assert session.snapshot_seq == snapshot.last_seq
    assert event.payload["snapshot_id"] == str(snapshot.pk)
    assert event.payload["tokens_before"] == snapshot.tokens_before
    assert snapshot.tokens_after < snapshot.tokens_before * 3 // 4
    assert event.run_id == snapshot.run_id
    assert snapshot.trigger == "auto"
    assert model.largest < 8_000
    # The next answer is based on the summary and the newest messages.
    tell(session, "say hello")
    assert "Summary of the conversation so far" in model.answered[-1].messages[0].text
    assert snapshot.summary in model.answered[-1].messages[0].text
    assert len(session.events.all()) == session.events.latest("seq").seq


def test_memories_are_saved_once_before_a_compaction_with_their_origin(session, model):
    tell(session, "say the launch code of project heron is RX-4711")
    fill(session)

    version = MemoryVersion.objects.get()
    snapshot = ContextSnapshot.objects.get()
    assert "RX-4711" in version.content
    assert snapshot.memory_ids == [version.entry_id]
    assert (version.session_id, version.run_id) == (session.pk, snapshot.run_id)
    session.refresh_from_db()
    assert session.flushed_seq == snapshot.last_seq


def test_a_compaction_with_two_poor_summaries_fails_and_is_not_retried_at_once(
    session, model, scripted_summaries
):
    scripted_summaries("Too little was said here.", "I'm sorry, I cannot.")
    fill(session, "session.error")

    error = newest(session, "session.error").payload
    assert error["code"] == "compaction_failed"
    assert not ContextSnapshot.objects.exists()
    session.refresh_from_db()
    assert session.snapshot_seq == 0
    assert session.compact_after_seq > PAUSE_EVENTS
    assert newest(session, "agent.message").payload["text"].startswith("note")
    # The pause holds: the next turn requests no summary and still fits.
    before = types(session).count("session.error")
    tell(session, "say one more")
    assert types(session).count("session.error") == before
    assert model.largest < 8_000


def test_memories_are_not_saved_again_after_a_failed_summary(session, model, scripted_summaries):
    scripted_summaries(ProviderUnavailable("busy"))
    fill(session, "session.error")
    assert MemoryVersion.objects.count() == 1
    flushed = type(session).objects.get(pk=session.pk).flushed_seq

    type(session).objects.filter(pk=session.pk).update(compact_after_seq=0)
    scripted_summaries(
        "Task and state: notes of files " + " ".join(f"src/part{n}.py" for n in range(60)),
    )
    for nth in range(4):
        tell(session, f"say go on {nth}" + " words" * 60)

    later = MemoryVersion.objects.latest("created_at")
    assert int(later.call_id.split(":")[1]) > flushed
    assert MemoryVersion.objects.count() == 2
    assert ContextSnapshot.objects.count() == 1


def test_a_session_is_not_compacted_again_without_new_content(session, model):
    fill(session)
    for nth in range(3):
        tell(session, f"say short {nth}")

    assert ContextSnapshot.objects.count() == 1


def test_undo_restores_the_context_and_pauses_compaction(session, model, owner):
    fill(session)
    snapshot = ContextSnapshot.objects.get()

    undone = undo_snapshot(session, snapshot.pk, owner.pk)

    session.refresh_from_db()
    assert undone.undone_by == owner
    assert session.snapshot_seq == 0
    told = newest(session, "session.compaction_undone")
    assert told.payload["snapshot_id"] == str(snapshot.pk)
    assert told.payload["first_kept_seq"] == 1
    assert session.events.filter(type=COMPACTED).count() == 1
    tell(session, "say hello again")
    assert ContextSnapshot.objects.count() == 1
    assert model.largest < 8_000
    for nth in range(PAUSE_EVENTS):
        tell(session, f"say more of file a{nth}.py")
    assert ContextSnapshot.objects.count() == 2
    assert ContextSnapshot.objects.latest("id").previous is None


def test_a_snapshot_is_immutable_except_for_one_undo(session, model):
    fill(session)
    rows = ContextSnapshot.objects.all()
    for change in ({"summary": "other"}, {"last_seq": 1}, {"carried": [1]}):
        with pytest.raises(DatabaseError, match="immutable"), transaction.atomic():
            rows.update(**change)
    undo_snapshot(session, rows.get().pk, None)
    with pytest.raises(DatabaseError, match="immutable"), transaction.atomic():
        rows.update(undone_at=None)


def test_a_manual_compaction_is_a_run_of_the_lane(session, model, principal):
    give_past(session, 40, "the file notes/plan.md and more")
    first = runtime.compact(session, keep_recent_messages=4, principal=principal)
    again = runtime.compact(session, principal=principal)
    assert again.pk == first.pk

    serve(session)

    first.refresh_from_db()
    snapshot = ContextSnapshot.objects.get()
    assert (first.status, first.stop_reason) == ("completed", "compacted")
    assert first.result["snapshot_id"] == str(snapshot.pk)
    assert snapshot.trigger == "manual"
    assert snapshot.first_kept_seq == 37
    assert first.usage["input_tokens"] > 0
    assert types(session)[-3:] == ["session.status_changed", COMPACTED, "session.status_idle"]
    assert newest(session, "session.status_changed").payload["reason"] == "compaction"


def test_a_manual_compaction_can_cover_everything_and_reports_when_nothing_is_left(
    session, model, principal
):
    give_past(session, 10)
    runtime.compact(session, keep_recent_messages=0, principal=principal)
    serve(session)
    assert ContextSnapshot.objects.get().last_seq == 10
    run = runtime.compact(session, keep_recent_messages=0, principal=principal)
    serve(session)
    run.refresh_from_db()
    assert run.result == {"text": "There is nothing to compact yet.", "snapshot_id": None}


def test_a_failed_manual_compaction_fails_only_its_run(
    session, model, scripted_summaries, principal
):
    give_past(session, 40)
    scripted_summaries(ProviderUnavailable("busy"))
    run = runtime.compact(session, principal=principal)
    serve(session)
    run.refresh_from_db()
    assert (run.status, run.error["code"]) == ("failed", "compaction_failed")
    assert not ContextSnapshot.objects.exists()
    tell(session, "say still here")
    assert newest(session, "agent.message").payload["text"] == "still here"


def test_a_queued_compaction_can_be_cancelled_without_an_interrupt(session, principal):
    give_past(session, 10)
    run = runtime.compact(session, principal=principal)
    cancel_run(run, None)
    assert Run.objects.get().status == "cancelled"
    assert "user.interrupt" not in types(session)


def test_after_an_overflow_the_context_is_compacted_and_the_request_repeated_once(session, model):
    give_past(session, 30, "a longer story " * 8)
    refused: list[int] = []
    demo = Watched.stream

    def small(self, request):
        if request.tools and not refused:
            refused.append(len(request.messages))
            raise ContextOverflow("too long")
        return demo(self, request)

    model.stream = small.__get__(model)
    tell(session, "say made it")

    assert Run.objects.get().error is None
    assert newest(session, "agent.message").payload["text"] == "made it"
    assert ContextSnapshot.objects.get().trigger == "overflow"


def test_an_overflow_that_compaction_cannot_fix_fails_the_run(session, model):
    tell(session, "fail with overflow")

    assert Run.objects.get().error["code"] == "context_overflow"
    assert not ContextSnapshot.objects.exists()


def test_a_fork_keeps_the_snapshots_of_the_shared_part(session, model, owner):
    fill(session)
    snapshot = ContextSnapshot.objects.get()
    session.refresh_from_db()

    later = fork(session, session.last_seq, owner.pk)
    early = fork(session, snapshot.last_seq - 1, owner.pk)

    assert (later.snapshot_seq, early.snapshot_seq) == (snapshot.last_seq, 0)
    mine = later.snapshots.get()
    assert (mine.summary, mine.previous) == (snapshot.summary, None)
    undo_snapshot(later, mine.pk, owner.pk)
    session.refresh_from_db()
    assert session.snapshot_seq == snapshot.last_seq
    assert "summary" not in [part.name for part in preview(later).parts]


def test_an_agent_can_turn_off_saving_before_compaction(session, model, agent):
    change_agent(agent, {"limits": {"save_before_compacting": False}})
    session.agent_version = agent.versions.latest("number")
    session.save(update_fields=["agent_version"])
    fill(session)
    assert ContextSnapshot.objects.get().memory_ids == []
    assert not MemoryEntry.objects.exists()


def test_a_queued_message_is_not_covered_by_a_compaction(session, model, principal, monkeypatch):
    """The message was written before the cut and is taken after it."""
    from sessions_app.lanes import run_queue
    from sessions_app.log.writer import NewEvent

    give_past(session, 30, "a longer story " * 4)
    event = NewEvent(type=SessionEvent.Type.USER_MESSAGE, payload={"text": "say the waiting one"})
    run_queue.accept(session.pk, event)
    waiting = Run.objects.get(message_seqs=[31])
    runtime.compact(session, keep_recent_messages=0, principal=principal)
    Run.objects.filter(purpose="compact").update(priority=5)
    serve(session)

    snapshot = ContextSnapshot.objects.get()
    waiting.refresh_from_db()
    assert snapshot.last_seq >= 30
    assert waiting.status == "completed"
    assert model.answered[-1].messages[-1].text == "say the waiting one"
