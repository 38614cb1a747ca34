"""Tests of the memory editor in a browser: editing, search, merging, phone, no JavaScript."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from memory.documents import Marks, content_of, write_entry
from memory.models import MemoryEntry
from memory.ownership import Reader, owner_within, person
from tests.browser.axe import faults_of
from tests.browser.conftest import OpenContext, sign_in
from tests.browser.islands import press
from tests.browser.looks import PHONE

TEXT = "# Kettle\n\nThe kettle is red.\n\nIt stands in the kitchen.\n"
#: An injection that a model, a tool or a person may write.
XSS = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>'

Remember = Callable[..., MemoryEntry]


@pytest.fixture
def remember(owner, workspace, transactional_db: None) -> Remember:
    def write(path: str, content: str, scope: str = "workspace", **marks: object) -> MemoryEntry:
        reader = Reader(workspace_id=workspace.pk, user_id=owner.pk)
        return write_entry(
            owner=owner_within(reader, scope),
            path=path,
            content=content,
            author=person(owner.pk),
            marks=Marks(**marks),  # type: ignore[arg-type]
        )

    return write


def stored(entry: MemoryEntry) -> str:
    return content_of(MemoryEntry.objects.select_related("current").get(pk=entry.pk))


def text_of(page: Page):
    return page.get_by_label("Text", exact=True)


def test_a_document_can_be_written_previewed_and_saved_with_the_keyboard(owner_page: Page):
    page = owner_page
    press(page, "g", "m")
    expect(page).to_have_url("/memory/")
    assert faults_of(page) == []
    page.keyboard.press("n")
    page.get_by_label("Path").fill("notes/kettle.md")
    text_of(page).fill(TEXT)
    page.get_by_role("button", name="Create").click()

    page.get_by_role("button", name="Split").click()
    preview = page.get_by_role("region", name="Preview")
    expect(preview.get_by_role("heading", name="Kettle")).to_be_visible()
    text_of(page).press("Control+End")
    page.keyboard.type("It is **new**.")
    expect(page.get_by_text("Unsaved changes")).to_be_visible()
    expect(preview.locator("strong", has_text="new")).to_be_visible()
    page.keyboard.press("Control+s")
    expect(page.get_by_text("Saved as version 2")).to_be_visible()
    expect(page.locator(".past li")).to_have_count(2)
    assert faults_of(page) == []
    assert stored(MemoryEntry.objects.get()).endswith("It is **new**.")


def test_renaming_moves_the_document_in_the_tree(owner_page: Page, remember: Remember):
    entry = remember("a.md", TEXT)
    page = owner_page
    page.goto(f"/memory/{entry.pk}/")
    page.get_by_label("Path").fill("kitchen/kettle.md")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".tree").get_by_text("kitchen/")).to_be_visible()
    expect(page.locator(".tree [aria-current]")).to_have_text("kettle.md")

    remember("taken.md", "x")
    page.get_by_label("Path").fill("taken.md")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Another document has the path 'taken.md'.")).to_be_visible()


def test_a_conflict_is_resolved_and_a_third_change_is_merged_again(
    owner_page: Page, remember: Remember
):
    entry = remember("kettle.md", TEXT)
    page = owner_page
    page.goto(f"/memory/{entry.pk}/")
    remember("kettle.md", TEXT.replace("red", "blue"))
    text_of(page).fill(TEXT.replace("red", "green"))
    page.keyboard.press("Control+s")
    expect(page.get_by_text("Resolve the remaining conflicts")).to_be_visible()
    remember("kettle.md", TEXT.replace("red", "black"))
    page.get_by_role("button", name="Use mine").click()
    expect(page.get_by_text("Resolve the remaining conflicts")).to_be_hidden()
    page.get_by_role("button", name="Save merged").click()

    expect(page.get_by_role("region", name="Their changes")).to_contain_text("black")
    page.get_by_role("button", name="Use mine").click()
    page.get_by_role("button", name="Save merged").click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    assert stored(entry) == TEXT.replace("red", "green")


def test_search_explains_scores_and_can_be_navigated_by_keys(owner_page: Page, remember: Remember):
    for number in range(3):
        remember(f"kettles/{number}.md", f"Kettle number {number} is in room {number}.")
    page = owner_page
    page.goto("/memory/")
    page.keyboard.press("/")
    page.keyboard.type("kettle room 1")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="3 results for")).to_be_visible()
    expect(page.locator(".hit").first).to_contain_text("kettles/1.md")
    bar = page.locator(".hit").first.get_by_role("img")
    expect(bar).to_have_accessible_name(
        re.compile(r"Score 1\.\d\d: words 0\.50, meaning 0\.\d\d, around it 0\.\d\d, recency 0\.05")
    )
    assert faults_of(page) == []
    page.get_by_role("heading", name="3 results for").click()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Path")).to_have_value("kettles/1.md")


def test_a_version_can_be_restored_and_a_deletion_undone(owner_page: Page, remember: Remember):
    entry = remember("kettle.md", TEXT)
    remember("kettle.md", "Gone wrong.")
    page = owner_page
    page.goto(f"/memory/{entry.pk}/")
    page.locator(".past a", has_text="v1").click()
    expect(page.locator(".changes .is-removed").first).to_be_visible()
    assert faults_of(page) == []
    page.get_by_role("button", name="Restore this version").click()
    expect(text_of(page)).to_have_value(TEXT)
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("was deleted")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(text_of(page)).to_have_value(TEXT)


def test_leaving_with_unsaved_changes_asks_first(owner_page: Page, remember: Remember):
    entry = remember("kettle.md", TEXT)
    page = owner_page
    page.goto(f"/memory/{entry.pk}/")
    text_of(page).fill("something else")
    asked: list[str] = []

    def stay(dialog) -> None:
        asked.append(dialog.type)
        dialog.dismiss()

    page.on("dialog", stay)
    page.get_by_role("link", name="Deleted documents").click()
    page.wait_for_timeout(0)
    expect(text_of(page)).to_have_value("something else")
    assert asked == ["beforeunload"]
    page.remove_listener("dialog", stay)
    page.on("dialog", lambda dialog: dialog.accept())


def test_hostile_text_in_a_document_does_not_run(owner_page: Page, remember: Remember):
    remember(
        "evil.md", f"{XSS}\n\n[x](javascript:window.broken=1)\n\n![p](https://evil.example/?leak)"
    )
    entry = remember("notes/a.md", f"evil {XSS}")
    page = owner_page
    page.goto(f"/memory/{entry.pk}/")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("region", name="Preview")).to_contain_text("onerror")
    page.goto("/memory/?q=evil")
    page.locator(".hit-path", has_text="evil.md").click()
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("region", name="Preview")).to_contain_text("onerror")
    page.goto(f"/memory/{entry.pk}/?version=1")
    assert page.evaluate("window.broken") is None
    assert page.locator("img").count() == 0


def test_the_memory_pages_work_on_a_phone_in_the_dark_theme(
    open_context: OpenContext, owner, workspace, remember: Remember
):
    entry = remember("kettle.md", TEXT)
    page = open_context(viewport=PHONE, color_scheme="dark", has_touch=True).new_page()
    sign_in(page, owner)
    for path in ("/memory/", f"/memory/{entry.pk}/", "/memory/?q=kettle", "/memory/new/"):
        page.goto(path)
        assert faults_of(page) == []
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= PHONE["width"], path


def test_memory_can_be_read_and_edited_without_javascript(
    open_context: OpenContext, owner, workspace, remember: Remember
):
    entry = remember("kettle.md", TEXT)
    page = open_context(java_script_enabled=False).new_page()
    sign_in(page, owner)
    page.goto("/memory/")
    page.get_by_role("link", name="kettle.md").click()
    text_of(page).fill("Edited by hand.")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    assert stored(entry) == "Edited by hand."
