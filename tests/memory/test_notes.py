"""Tests of what counts as a note, when it was written, and which notes say the same."""

from __future__ import annotations

import pytest

from memory.models import MemoryEntry
from memory.notes import Note, duplicates, read_notes, related

pytestmark = pytest.mark.django_db


@pytest.fixture
def notes(remember):
    """Write documents and return the notes in them."""

    def read(**by_path: str) -> list[Note]:
        for path, content in by_path.items():
            remember(f"{path.replace('__', '/').replace('_', '-')}.md", content)
        rows = MemoryEntry.objects.kept().select_related("current").order_by("path")
        return read_notes(list(rows))

    return read


def same(found: list[Note]) -> list[list[str]]:
    return [[note.text for note in group] for group in duplicates(found)]


def test_each_item_of_a_list_is_a_note_and_a_short_document_is_one(notes):
    found = notes(
        facts="# Facts\n\n- One.\n  More of it.\n- Two.\n\n1. Three.\n",
        prose="# Deploys\n\nWe deploy on Friday, and nobody has minded so far",
    )

    assert [note.text for note in found] == [
        "- One.\n  More of it.",
        "- Two.",
        "1. Three.",
        "# Deploys\n\nWe deploy on Friday, and nobody has minded so far",
    ]
    assert [(note.first, note.last, note.whole) for note in found][:3] == [
        (3, 4, False),
        (5, 5, False),
        (7, 7, False),
    ]


def test_turns_of_a_transcript_and_code_are_no_notes(notes):
    found = notes(
        talk="Anna: yes\nBen: yes\nAnna: yes\n",
        code="- Run it.\n- Stop it.\n- Rest.\n- Go on.\n\n```\n- yes\n```\n",
    )

    assert [note.text for note in found] == ["- Run it.", "- Stop it.", "- Rest.", "- Go on."]


def test_a_note_is_dated_by_itself_its_heading_or_path_or_the_version_that_wrote_it(
    notes, remember
):
    remember("kept.md", "- First.\n- Second.\n")
    first = MemoryEntry.objects.get(path="kept.md").versions.get(number=1).created_at
    remember("kept.md", "- First.\n- Second.\n- Third.\n")
    found = {
        note.text: note.written
        for note in notes(
            daily__2026_09_03="- A day.\n- Of 2026-09-09, not dated by that.\n- 2026-09-04: dated.\n",
            log="## 2026-08-01\n- Under a heading.\n- Another.\n",
        )
    }

    days = {text: f"{written:%Y-%m-%d}" for text, written in found.items()}
    assert days["- A day."] == "2026-09-03"
    assert days["- Of 2026-09-09, not dated by that."] == "2026-09-03"
    assert days["- 2026-09-04: dated."] == "2026-09-04"
    assert days["- Under a heading."] == "2026-08-01"
    assert found["- First."] == first
    assert found["- Third."] > first


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Deploys happen on Friday.", "deploys happen on friday"),
        ("The backup runs at night.", "Note: the backups run at night."),
        ("**Marta** owns the invoices.", "Marta owns invoices."),
    ],
)
def test_notes_in_the_same_words_are_duplicates(notes, one, other):
    found = notes(
        daily__2026_09_01=f"- {one}\n- Lunch is at noon.\n",
        daily__2026_09_02=f"- {other}\n- Tea is at four.\n",
    )
    assert same(found) == [[f"- {other}", f"- {one}"]]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Deploys happen on Friday.", "Deploys do not happen on Friday."),
        ("The limit is 10 users.", "The limit is 20 users."),
        ("Anna reports to Ben.", "Ben reports to Anna."),
        ("Anna leads the team.", "Anna led the team."),
        ("Call them before noon.", "Call them after noon."),
        ("It is never open.", "It is open."),
    ],
)
def test_notes_that_differ_in_a_word_that_matters_are_no_duplicates(notes, one, other):
    found = notes(daily__2026_09_01=f"- {one}\n- A.\n", daily__2026_09_02=f"- {other}\n- B.\n")

    assert same(found) == []


def test_equal_words_about_different_subjects_are_no_duplicates(notes):
    found = notes(
        people__alice="- Prefers tea.\n- Works on Mondays.\n",
        people__bob="- Prefers tea.\n- Works on Tuesdays.\n",
        team="## Carol\n- Is on leave.\n- X.\n## Dave\n- Is on leave.\n- Y.\n",
    )

    assert same(found) == []
    # The words around them are part of what they say.
    more = notes(
        learnings__deploys="- Deploys need two approvals.\n- Z.\n",
        daily__2026_09_05="- Deploys need two approvals.\n- W.\n",
    )
    assert len(same(more)) == 1


def test_the_note_that_stays_is_trusted_first_then_always_shown_then_the_newest(notes, remember):
    text = "- Exports run at night.\n- {}.\n"
    remember("daily/2026-09-03.md", text.format("u"), trust="untrusted")
    remember("daily/2026-09-01.md", text.format("a"))
    remember("daily/2026-09-02.md", text.format("b"))
    [group] = duplicates(notes())
    assert [note.path for note in group] == [
        "daily/2026-09-02.md",
        "daily/2026-09-01.md",
        "daily/2026-09-03.md",
    ]

    remember("MEMORY.md", text.format("m"))
    assert duplicates(notes())[0][0].path == "MEMORY.md"


def test_similar_notes_are_grouped_by_trust(notes, remember, workspace):
    remember("daily/2026-09-01.md", "- Production deploys happen on Fridays.\n- The cat sleeps.\n")
    remember("daily/2026-09-02.md", "- Production deploys happen on Tuesdays.\n- Rain in Basel.\n")
    remember("web.md", "- Production deploys happen never.\n- Prod.\n", trust="untrusted")

    groups = related(workspace.pk, notes())

    assert [[note.path for note in group] for group in groups] == [
        ["daily/2026-09-01.md", "daily/2026-09-02.md"]
    ]
