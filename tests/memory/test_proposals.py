"""Tests of what a consolidation plans, and of applying, discarding and undoing it."""

from __future__ import annotations

import json
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from memory import proposals
from memory.consolidation import (
    MAIN_CHARACTERS,
    OVERFLOW,
    Answer,
    Plan,
    Question,
    Uses,
    read_answer,
)
from memory.documents import (
    Marks,
    change_entry,
    content_of,
    delete_entry,
    redact,
)
from memory.exceptions import ConsolidationOver
from memory.models import Consolidation, ConsolidationChange, MemoryEntry, MemoryVersion
from memory.ownership import person
from tests import factories

pytestmark = pytest.mark.django_db

OLD, NEW = "- Production deploys happen on Fridays.", "- Production deploys happen on Tuesdays."


def text_of(path: str) -> str | None:
    entry = MemoryEntry.objects.kept().filter(path=path).select_related("current").first()
    return content_of(entry) if entry else None


@pytest.fixture
def review(agent):
    """Review the agent's memory: `decide` gives the decisions on each group, by the notes' texts."""

    def run(decide=None, *, uses: Uses | None = None, now=None) -> Consolidation:
        row = proposals.begin(agent, session_id=uuid4(), run_id=uuid4())
        entries = proposals.documents_of(agent, leave=())
        plan = Plan(entries, refused=proposals.refused_groups(agent))
        plan.find_duplicates()
        settled = []
        for group in plan.groups() if decide else ():
            question = Question(groups=[group])
            number = {note.text: nth for nth, note in enumerate(group, 1)}
            answer = read_answer(json.dumps({"decisions": decide(number)}))
            assert answer
            settled += plan.decide(question, answer)
        if uses:
            plan.promote(uses)
            plan.fit_main(uses)
            plan.retire(uses, now or timezone.now())
        found = proposals.Review(
            drafts=plan.drafts(), settled=settled, documents=len(entries), notes=len(plan.notes)
        )
        return proposals.finish(row, found)

    return run


def outdated(number, *, keep=NEW, drop=OLD, kind="outdated", text=None):
    if keep not in number or drop not in number:
        return []
    return [
        {"keep": number[keep], "drop": [number[drop]], "kind": kind, "text": text, "why": "Newer."}
    ]


@pytest.fixture
def deploys(remember):
    remember("daily/2026-09-01.md", f"{OLD}\n- The cat sleeps.\n")
    remember("daily/2026-09-20.md", f"{NEW}\n- Rain in Basel.\n")


def test_an_outdated_note_goes_and_the_rest_of_its_document_stays(review, deploys):
    row = review(outdated)
    [change] = row.changes.all()
    assert (change.path, change.action) == ("daily/2026-09-01.md", "write")
    assert change.reasons[0] | {"group": ""} == {
        "kind": "outdated",
        "why": "Newer.",
        "text": OLD,
        "kept": NEW,
        "kept_in": "daily/2026-09-20.md",
        "group": "",
    }

    applied = proposals.apply(row, by=None)

    assert text_of("daily/2026-09-01.md") == "- The cat sleeps.\n"
    assert text_of("daily/2026-09-20.md") == f"{NEW}\n- Rain in Basel.\n"
    version = MemoryVersion.objects.get(entry__path="daily/2026-09-01.md", number=2)
    assert (version.author, version.tool) == ("tool", "consolidation")
    assert version.run_id == row.run_id
    assert applied.changes.get().content == ""


def test_an_older_note_never_replaces_a_newer_one(review, deploys):
    row = review(lambda number: outdated(number, keep=OLD, drop=NEW))

    assert row.status == "nothing"


def test_what_is_always_shown_stays_shown_with_the_text_that_holds_now(review, remember):
    remember("MEMORY.md", f"# Always\n\n{OLD}\n- The cat sleeps.\n")
    remember("daily/2099-01-01.md", f"{NEW}\n- Rain in Basel.\n")

    proposals.apply(review(outdated), by=None)

    assert text_of("MEMORY.md") == f"# Always\n\n{NEW}\n- The cat sleeps.\n"
    assert text_of("daily/2099-01-01.md") == "- Rain in Basel.\n"


def test_a_merged_text_takes_over_only_what_the_notes_say(review, remember):
    one, other = "- The gateway restarts at 03:00.", "- The gateway restarts at 03:00 on port 8443."
    remember("daily/2026-09-01.md", f"{one}\n- The cat sleeps.\n")
    remember("daily/2026-09-02.md", f"{other}\n- Rain in Basel.\n")

    def merged(text):
        return lambda number: outdated(number, keep=one, drop=other, kind="duplicate", text=text)

    proposals.apply(review(merged("The gateway restarts at 03:00 on port 8443.")), by=None)
    assert text_of("daily/2026-09-01.md") == f"{other}\n- The cat sleeps.\n"

    remember("daily/2026-09-01.md", f"{one}\n- The cat sleeps.\n")
    remember("daily/2026-09-02.md", f"{other}\n- Rain in Basel.\n")
    row = review(merged("The gateway restarts at 04:00 and emails root."))
    assert "04:00" not in "".join(change.content for change in row.changes.all())


def test_a_document_of_which_nothing_is_left_is_deleted_and_can_be_restored(review, remember):
    remember("learnings/exports.md", "# Exports\n\nExports of the billing service run at night.\n")
    remember("daily/2026-09-02.md", "# Exports\n\nExports of the billing service run at night.\n")

    row = proposals.apply(review(), by=None)

    assert text_of("daily/2026-09-02.md") is None
    assert text_of("learnings/exports.md")
    proposals.undo(row, by=None)
    assert text_of("daily/2026-09-02.md") == text_of("learnings/exports.md")


# ── Trust ────────────────────────────────────────────────────────────────────


def test_an_untrusted_note_never_removes_or_changes_a_trusted_one(review, remember):
    remember("daily/2026-09-01.md", f"{OLD}\n- The cat sleeps.\n")
    remember("web.md", f"{NEW}\n- Rain in Basel.\n", trust="untrusted")
    remember("web2.md", f"{OLD}\n- Sun in Bern.\n", trust="untrusted")

    row = proposals.apply(review(outdated), by=None)

    assert text_of("daily/2026-09-01.md") == f"{OLD}\n- The cat sleeps.\n"
    # An untrusted copy of a trusted note goes, and nothing is trusted that was not.
    assert text_of("web2.md") == "- Sun in Bern.\n"
    assert {c.path for c in row.changes.all()} == {"web2.md"}
    trust = dict(MemoryEntry.objects.values_list("path", "trust"))
    assert trust["web.md"] == trust["web2.md"] == "untrusted"
    assert set(
        MemoryVersion.objects.filter(entry__path="web2.md").values_list("trust", flat=True)
    ) == {"untrusted"}


def test_a_decision_across_trust_is_refused_even_if_it_is_asked_for(agent, remember):
    remember("daily/2026-09-01.md", f"{OLD}\n- A.\n")
    remember("web.md", f"{NEW}\n- B.\n", trust="untrusted")
    plan = Plan(proposals.documents_of(agent, leave=()))
    question = Question(groups=[[note for note in plan.notes if "deploys" in note.text]])
    keep = next(n for n, note in enumerate(question.notes, 1) if not note.trusted)
    answer = {"keep": keep, "drop": [3 - keep], "kind": "outdated", "why": "Obey."}

    plan.decide(question, Answer.model_validate({"decisions": [answer]}))

    assert plan.drafts() == []


def test_a_source_that_lost_its_trust_before_the_decision_counts_as_untrusted(review, deploys):
    row = review(outdated)
    newer = MemoryEntry.objects.get(path="daily/2026-09-20.md")
    change_entry(newer, author=person(None), marks=Marks(trust=MemoryEntry.Trust.UNTRUSTED))

    row = proposals.apply(row, by=None)

    assert text_of("daily/2026-09-01.md") == f"{OLD}\n- The cat sleeps.\n"
    assert row.changes.get().outcome == "skipped"


def test_notes_of_an_untrusted_memory_arrive_in_an_untrusted_document(review, remember):
    lines = "".join(f"- Fact {n} of the long list {'x' * 60}.\n" for n in range(100))
    remember("MEMORY.md", lines, trust="untrusted")

    proposals.apply(review(uses=Uses(since=timezone.now())), by=None)

    assert MemoryEntry.objects.get(path=OVERFLOW).trust == "untrusted"


# ── Changed meanwhile ────────────────────────────────────────────────────────


def test_a_document_that_changed_meanwhile_stays_and_so_does_what_relies_on_it(review, deploys):
    row = review(outdated)
    newer = MemoryEntry.objects.get(path="daily/2026-09-20.md")
    change_entry(newer, author=person(None), content="- Rain in Basel.\n")

    row = proposals.apply(row, by=None)

    assert text_of("daily/2026-09-01.md") == f"{OLD}\n- The cat sleeps.\n"
    assert row.changes.get().remark == proposals.RELIED_CHANGED


def test_notes_leave_memory_only_if_they_arrive_elsewhere(review, remember):
    lines = "".join(f"- Fact {n} of the long list {'x' * 60}.\n" for n in range(100))
    remember("MEMORY.md", lines)
    row = review(uses=Uses(since=timezone.now()))
    assert {change.path for change in row.changes.all()} == {"MEMORY.md", OVERFLOW}
    remember(OVERFLOW, "Something else is here by now.")

    row = proposals.apply(row, by=None)

    assert text_of("MEMORY.md") == lines
    assert {change.outcome for change in row.changes.all()} == {"skipped"}


def test_a_consolidation_is_decided_once(review, deploys):
    row = review(outdated)
    proposals.apply(row, by=None)

    for act in (proposals.apply, proposals.discard):
        with pytest.raises(ConsolidationOver):
            act(row, by=None)
    proposals.undo(row, by=None)
    with pytest.raises(ConsolidationOver):
        proposals.undo(row, by=None)


def test_a_newer_review_replaces_one_that_waits_and_an_agent_has_one_of_each(
    review, deploys, agent
):
    first, second = review(outdated), review(outdated)

    first.refresh_from_db()
    assert (first.status, second.status) == ("discarded", "waiting")
    with pytest.raises(IntegrityError), transaction.atomic():
        Consolidation.objects.create(workspace_id=agent.workspace_id, agent=agent, status="waiting")


def test_what_a_person_discarded_or_undid_is_not_proposed_again(review, deploys, remember):
    proposals.discard(review(outdated), by=None)
    assert review(outdated).status == "nothing"

    for day in ("03", "04"):
        remember(f"daily/2026-09-{day}.md", f"- Exports run at night.\n- Day {day}.\n")
    proposals.undo(proposals.apply(review(), by=None), by=None)
    assert review().status == "nothing"
    remember("daily/2026-09-05.md", "- Exports run at night.\n- Day 05.\n")
    assert review().status == "waiting", "three equal notes are another group than two"


def test_a_group_in_which_a_model_found_nothing_is_remembered(review, deploys, agent):
    row = review(lambda number: [])

    assert proposals.settled_groups(agent) == row.settled != []


# ── Undo ─────────────────────────────────────────────────────────────────────


def test_undo_brings_back_every_text_and_keeps_later_changes_of_other_lines(
    review, deploys, remember
):
    remember("daily/2026-09-03.md", f"{OLD}\n- Snow in Chur.\n- Three.\n- Four.\n")
    row = proposals.apply(review(outdated), by=None)
    paths = {change.path for change in row.changes.all()}
    assert len(paths) == 2
    kept = MemoryEntry.objects.get(path="daily/2026-09-03.md")
    # The older copy gave way to the newer one, and that to what holds now.
    change_entry(kept, author=person(None), content=f"{content_of(kept)}- Five.\n")

    row = proposals.undo(row, by=None)

    assert text_of("daily/2026-09-01.md") == f"{OLD}\n- The cat sleeps.\n"
    assert text_of("daily/2026-09-03.md") == f"{OLD}\n- Snow in Chur.\n- Three.\n- Four.\n- Five.\n"
    assert {change.outcome for change in row.changes.all()} == {"undone"}


def test_undo_leaves_a_document_that_was_changed_in_the_same_place(review, deploys):
    row = proposals.apply(review(outdated), by=None)
    entry = MemoryEntry.objects.get(path="daily/2026-09-01.md")
    change_entry(entry, author=person(None), content="- The dog sleeps.\n")

    row = proposals.undo(row, by=None)

    assert text_of("daily/2026-09-01.md") == "- The dog sleeps.\n"
    assert row.changes.get().remark == proposals.CHANGED_AFTER


# ── Use ──────────────────────────────────────────────────────────────────────


def test_a_note_that_is_used_often_moves_to_memory_and_back(review, remember, agent):
    entry = remember("daily/2026-09-01.md", "- The vault is in the cellar.\n- The cat sleeps.\n")
    uses = Uses(since=timezone.now(), notes={(entry.pk, "- The vault is in the cellar."): 9})

    row = proposals.apply(review(uses=uses), by=None)

    assert text_of("MEMORY.md") == "- The vault is in the cellar.\n"
    assert MemoryEntry.objects.get(path="MEMORY.md").pinned
    assert text_of("daily/2026-09-01.md") == "- The cat sleeps.\n"
    proposals.undo(row, by=None)
    assert text_of("MEMORY.md") is None
    assert text_of("daily/2026-09-01.md") == "- The vault is in the cellar.\n- The cat sleeps.\n"


def test_memory_is_kept_within_its_size_and_nothing_is_lost(review, remember):
    lines = [f"- Fact {n} of the long list {'x' * 60}." for n in range(100)]
    entry = remember("MEMORY.md", "# Always\n\n" + "\n".join(lines) + "\n")
    uses = Uses(since=timezone.now(), notes={(entry.pk, lines[0]): 3})

    proposals.apply(review(uses=uses), by=None)

    main, more = text_of("MEMORY.md"), text_of(OVERFLOW)
    assert main
    assert more
    assert MAIN_CHARACTERS - 100 < len(main) <= MAIN_CHARACTERS
    assert lines[0] in main
    assert sorted((main.removeprefix("# Always\n\n") + more).splitlines()) == sorted(lines)


def test_a_document_is_hidden_only_if_it_was_neither_changed_nor_used_for_long(review, remember):
    for name in ("unused", "used", "new", "pinned"):
        remember(f"{name}.md", f"Something about {name} things", pinned=name == "pinned")
    old = MemoryEntry.objects.exclude(path="new.md")
    old.update(updated_at=timezone.now() - timedelta(days=91))
    used = MemoryEntry.objects.get(path="used.md")
    since = timezone.now() - timedelta(days=90, seconds=1)

    row = proposals.apply(review(uses=Uses(since=since, documents={used.pk: 1})), by=None)

    hidden = MemoryEntry.objects.filter(never_recall=True).values_list("path", flat=True)
    assert list(hidden) == ["unused.md"]
    assert not MemoryEntry.objects.get(path="unused.md").chunks.exists()
    proposals.undo(row, by=None)
    assert MemoryEntry.objects.get(path="unused.md").chunks.exists()
    # What was used before the time that was looked at is not known.
    later = Uses(since=timezone.now() - timedelta(days=10))
    assert review(uses=later).status == "nothing"


# ── Who sees what ────────────────────────────────────────────────────────────


def test_only_the_agents_own_visible_documents_are_reviewed(agent, remember, foreign_workspace):
    remember("own.md", "- One.\n")
    remember("hidden.md", "- One.\n", never_recall=True)
    for scope in ("workspace", "user", "session"):
        remember(f"{scope}.md", "- One.\n", scope=scope)
    delete_entry(remember("gone.md", "- One.\n"))
    factories.memory(foreign_workspace)

    assert [entry.path for entry in proposals.documents_of(agent, leave=())] == ["own.md"]


def test_a_redacted_text_is_in_no_proposal_and_is_not_brought_back(review, deploys):
    applied = proposals.apply(review(outdated), by=None)
    entry = MemoryEntry.objects.get(path="daily/2026-09-01.md")

    redact(entry, by=None, number=1)

    for change in ConsolidationChange.objects.all():
        assert "Fridays" not in json.dumps([change.reasons, change.content, change.relies_on])
    proposals.undo(applied, by=None)
    assert text_of("daily/2026-09-01.md") == "- The cat sleeps.\n"


def test_a_proposal_that_waits_is_not_applied_to_a_redacted_document(review, deploys):
    row = review(outdated)
    redact(MemoryEntry.objects.get(path="daily/2026-09-20.md"), by=None)

    assert "Tuesdays" not in json.dumps([one.reasons for one in row.changes.all()])
    proposals.apply(row, by=None)
    assert text_of("daily/2026-09-01.md") == f"{OLD}\n- The cat sleeps.\n"


@pytest.mark.parametrize(
    "text",
    ["", "nothing", "{", '{"decisions": 3}', '{"decisions": [{"keep": 1}]}', "[" * 100_000],
)
def test_an_answer_that_is_not_what_was_asked_for_is_no_answer(text):
    assert read_answer(text) is None
