"""Tests of the memory pages without JavaScript: reading, editing, versions and merging."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from memory.documents import delete_entry
from memory.models import MemoryEntry
from memory.ownership import Reader
from memory.pages import display
from tests import factories
from tests.memory.conftest import remember_for
from tests.memory.pages.conftest import newest, text, url


def save(page: Client, entry: MemoryEntry, content: str, **more):
    given = {"path": entry.path, "content": content, "expected_hash": entry.hash, **more}
    return page.post(url(entry), given)


def test_the_tree_groups_documents_by_owner(page, remember):
    remember("learnings/deploying.md", "Wait for the smoke test.")
    remember("rules.md", "Be kind.", scope="workspace")
    remember("taste.md", "Short answers.", scope="user")
    remember("session/plan.md", "First the tests.", scope="session")
    shown = text(page.get("/memory/"))

    places = [shown.index(words) for words in ("rules.md", "taste.md", "deploying.md", "plan.md")]
    assert places == sorted(places)
    assert "learnings/" in shown
    assert "You" in shown


def test_a_folder_may_have_a_name_that_templates_know(page, remember):
    remember("values/items.md", "Be kind.")

    assert "values/" in text(page.get("/memory/"))


def test_a_large_store_shows_the_open_memory_and_links_to_the_others(
    workspace, agent, reader, remember, monkeypatch, django_assert_max_num_queries
):
    monkeypatch.setattr(display, "MOST_SHOWN", 5)
    for number in range(8):
        remember(f"notes/{number}.md", "One of many.")
    remember("rules.md", "Be kind.", scope="workspace")
    everything = Reader(workspace_id=workspace.pk, user_id=reader.user_id, whole_workspace=True)
    with django_assert_max_num_queries(5):
        branches = {
            one.scope: one for one in display.build_tree(everything, current=None, open_owner=None)
        }
    assert branches["workspace"].is_shown
    assert not branches["agent"].is_shown
    assert branches["agent"].count == 8

    opened = {
        one.scope: one for one in display.build_tree(everything, current=None, open_owner=agent.pk)
    }
    assert opened["agent"].is_shown
    assert opened["agent"].left_out == 3
    assert not opened["workspace"].is_shown


def test_a_persons_own_documents_are_hidden_from_others(workspace, reader, remember, viewer):
    entry = remember("taste.md", "My secret taste.", scope="user")

    assert "taste.md" not in text(viewer.get("/memory/"))
    assert "No results for" in text(viewer.get("/memory/?q=secret+taste"))
    assert viewer.get(url(entry)).status_code == 404


def test_a_search_shows_the_parts_of_each_score(page, remember):
    remember("kettle.md", "The kettle is red.", pinned=True)
    shown = text(page.get("/memory/?q=red+kettle"))

    assert "1 result for" in shown
    assert re.search(r'<rect class="is-text" x="0\.0"', shown)
    for part in ("words", "meaning", "recency", "pin"):
        assert re.search(rf"{part} 0\.\d\d", shown), part


def test_hits_with_the_same_excerpt_are_shown_once(page, remember):
    remember("kettles.md", "# Kettles\n\n- the kettle is red\n- this kettle is blue\n")

    shown = text(page.get("/memory/?q=kettle"))

    assert "1 result for" in shown
    assert shown.count("the kettle is red · this kettle is blue") == 1


def test_a_document_shows_its_owner(page, remember):
    mine, ours = remember("a.md", "Mine."), remember("b.md", "Ours.", scope="workspace")

    assert '<span class="text-muted">(agent)</span>' in text(page.get(url(mine)))
    assert "<dd>Workspace</dd>" in text(page.get(url(ours)))


def test_excerpts_are_shown_without_markdown_syntax(page, remember):
    remember("kettle.md", "# Kitchen\n\n- the **kettle** is `red`\n- <b>hot</b>")

    shown = text(page.get("/memory/?q=red+kettle"))

    assert "Kitchen · the kettle is red · &lt;b&gt;hot&lt;/b&gt;" in shown


def test_a_search_as_an_agent_finds_what_the_agent_can_see(page, workspace, agent, remember):
    remember("kettle.md", "The kettle is red.")
    other = factories.agent(workspace)

    assert "kettle.md" in text(page.get(f"/memory/?q=kettle&as={agent.pk}"))
    found = text(page.get(f"/memory/?q=kettle&as={other.pk}"))
    assert "No results for" in found


def test_a_document_can_be_created_renamed_and_read(page, agent):
    made = page.post(
        "/memory/new/",
        {
            "path": "notes/office.md",
            "owner": f"agent:{agent.pk}",
            "content": "The door\r\nis open.\n",
        },
    )
    entry = MemoryEntry.objects.get()
    assert made.url == url(entry)
    assert newest(entry) == "The door\nis open.\n"
    assert entry.owner_id == agent.pk

    assert save(page, entry, "Closed.", path="notes/door.md").status_code == 302
    entry.refresh_from_db()
    assert (entry.path, newest(entry)) == ("notes/door.md", "Closed.")
    assert "Closed." in text(page.get(url(entry)))


def test_a_text_that_begins_with_an_empty_line_keeps_it(page, remember):
    entry = remember("a.md", "\n\nindented")
    shown = re.search(
        r"<textarea[^>]*name=\"content\"[^>]*>(.*?)</textarea>",
        text(page.get(url(entry))),
        re.DOTALL,
    )

    # A browser drops the first line end after the tag.
    assert shown
    assert shown[1].removeprefix("\n") == "\n\nindented"


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("../up.md", "names between single slashes"),
        ("a.md", "Someone else changed"),
        ("", "required"),
    ],
)
def test_an_invalid_path_is_refused_and_the_text_stays_in_the_form(
    page, remember, agent, path, complaint
):
    remember("a.md", "there already")
    given = {"path": path, "owner": f"agent:{agent.pk}", "content": "my long text"}
    answer = page.post("/memory/new/", given)

    assert answer.status_code == 400
    assert complaint in text(answer)
    assert "my long text" in text(answer)


def test_a_text_that_is_too_long_is_refused_and_stays_in_the_form(page, remember):
    entry = remember("a.md", "short")
    answer = save(page, entry, "x" * 100_001)

    assert answer.status_code == 413
    assert "the limit is 100,000" in text(answer)
    assert "x" * 100_001 in text(answer)
    assert newest(entry) == "short"


def test_changes_in_different_lines_are_merged_for_saving(page, remember):
    entry = remember("a.md", "one\ntwo\nthree\nfour\nfive")
    assert save(page, entry, "ONE\ntwo\nthree\nfour\nfive").status_code == 302
    answer = save(page, entry, "one\ntwo\nthree\nfour\nFIVE")

    assert answer.status_code == 409
    assert "The text below has both." in text(answer)
    merged = re.search(
        r"<textarea[^>]*name=\"content\"[^>]*>\n(.*?)</textarea>", text(answer), re.DOTALL
    )
    assert merged
    assert merged[1] == "ONE\ntwo\nthree\nfour\nFIVE"
    assert newest(entry) == "ONE\ntwo\nthree\nfour\nfive"

    entry.refresh_from_db()
    assert save(page, entry, merged[1]).status_code == 302
    assert newest(entry) == merged[1]


def test_conflicting_changes_are_shown_side_by_side(page, remember):
    entry = remember("a.md", "The kettle is red.")
    save(page, entry, "The kettle is blue.")
    shown = text(save(page, entry, "The kettle is green."))

    assert "the same lines in 1 place" in shown
    assert "&lt;&lt;&lt;&lt;&lt;&lt;&lt; mine" in shown
    for words in ("blue", "green"):
        assert f"The kettle is {words}." in shown


def test_a_version_can_be_compared_and_restored(page, remember):
    entry = remember("a.md", "one\ntwo")
    save(page, entry, "one\nthree")
    shown = text(page.get(f"{url(entry)}?version=1"))
    assert re.search(r"is-removed.*?two", shown, re.DOTALL)
    assert re.search(r"is-added.*?three", shown, re.DOTALL)

    page.post(url(entry, "memory_restore"), {"version": "1"})
    assert newest(entry) == "one\ntwo"
    assert entry.versions.count() == 3
    assert page.get(f"{url(entry)}?version=99").status_code == 404


def test_a_deletion_can_be_undone(page, remember):
    entry = remember("a.md", "one")
    answer = page.post(url(entry, "memory_delete"), follow=True)
    assert "was deleted" in text(answer)
    assert "Undo" in text(answer)
    assert "a.md" in text(page.get("/memory/?deleted=1"))

    page.post(url(entry, "memory_restore"), {"version": "1"})
    entry.refresh_from_db()
    assert entry.deleted_at is None


def test_a_deletion_cannot_be_undone_when_the_path_is_taken(page, remember):
    entry = remember("a.md", "one")
    delete_entry(entry)
    remember("a.md", "another")
    answer = page.post(url(entry, "memory_restore"), {"version": "1"}, follow=True)

    assert "Another document has the path" in text(answer)


@pytest.mark.parametrize(
    ("mark", "field", "value"),
    [
        ("pin", "pinned", True),
        ("hide", "never_recall", True),
        ("distrust", "trust", "untrusted"),
    ],
)
def test_a_mark_can_be_set_and_removed(page, remember, mark, field, value):
    entry = remember("a.md", "one")
    page.post(url(entry, "memory_mark"), {"mark": mark})
    entry.refresh_from_db()
    assert getattr(entry, field) == value

    back = {"pin": "unpin", "hide": "unhide", "distrust": "trust"}[mark]
    page.post(url(entry, "memory_mark"), {"mark": back})
    entry.refresh_from_db()
    assert getattr(entry, field) != value
    assert page.post(url(entry, "memory_mark"), {"mark": "nonsense"}).status_code == 400


@pytest.mark.parametrize("name", ["memory_mark", "memory_delete", "memory_redact"])
def test_an_action_on_a_text_that_the_person_has_not_seen_is_refused(page, remember, name):
    """In particular, a person must not trust a text that an agent replaced in the meantime."""
    entry = remember("a.md", "what the person sees", trust=MemoryEntry.Trust.UNTRUSTED)
    shown = page.get(url(entry)).content.decode()
    form = shown.split(f'action="{url(entry, name)}')[1].split("</form>")[0]
    assert entry.hash in form
    remember("a.md", "what came meanwhile")
    sent = {"mark": "trust", "expected_hash": entry.hash}
    answer = page.post(url(entry, name), sent, follow=True)

    assert "has changed. Nothing was done" in text(answer)
    entry.refresh_from_db()
    assert (entry.trust, entry.deleted_at) == ("untrusted", None)
    assert entry.current.content == "what came meanwhile"


def test_redaction_keeps_the_author(page, remember):
    entry = remember("a.md", "a password")
    page.post(url(entry, "memory_redact"))

    shown = text(page.get(url(entry)))
    assert "a password" not in shown
    assert "Olive Owner · redacted" in shown


def test_a_viewer_can_read_but_not_change(viewer, remember):
    entry = remember("a.md", "one")
    shown = text(viewer.get(url(entry)))

    assert "one" in shown
    assert "data-editor" not in shown
    assert save(viewer, entry, "two").status_code == 403
    for action in ("mark", "delete", "restore", "redact"):
        assert viewer.post(url(entry, f"memory_{action}"), {"mark": "pin"}).status_code == 403
    assert viewer.get("/memory/new/").status_code == 403
    assert newest(entry) == "one"


def test_unusual_search_queries_are_accepted(page, reader):
    remember_for(reader, "a.md", "one")
    for query in ("%00", "'", "\\", "%F0%9F%90%99", "a" * 3_000, "((", "or & |"):
        assert page.get(f"/memory/?q={query}").status_code == 200, query
