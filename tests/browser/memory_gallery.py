"""Takes pictures of the memory pages. Run by `pictures.py`; asserts nothing."""

from __future__ import annotations

import pytest

from agents.definitions import create_agent
from agents.models import Agent
from memory.documents import Marks, write_entry
from memory.models import MemoryVersion
from memory.ownership import Author, Reader, owner_within, person
from orchestrator.workspaces import create_workspace
from tenants.models import User, Workspace
from tests.browser.conftest import OpenContext, sign_in
from tests.browser.gallery import SIZES, TARGET, THEMES, as_seen, shoot

TEXTS = {
    "MEMORY.md": "# What I know by heart\n\n- The deploy window is **Tuesday 10:00 UTC**.\n"
    "- Olive owns billing, Jun owns the API.\n- Staging is `staging.acme.dev`.\n",
    "learnings/deploying.md": "# Deploying\n\nRun `make release` from a clean checkout, then wait "
    "for the smoke test.\n\n1. Tag the release\n2. Watch the dashboard for ten minutes\n"
    "3. Tell #releases\n\n> A deploy on a Friday needs Marta's word.\n\n"
    "```sh\nmake release VERSION=1.4.2\n```\n",
    "learnings/billing.md": "# Billing\n\nRefunds above 500 EUR need two people.\n",
    "daily/2026-11-14.md": "- Moved the nightly report to 05:00.\n- Deployed 1.4.1, no trouble.\n",
    "daily/2026-11-15.md": "- Olive asked for a list of late invoices.\n",
    "notes/people.md": "# People\n\nJun is away until Monday.\n",
}


def populate(acme: Workspace, olive: User) -> Agent:
    """Create memory as it looks after some weeks."""
    fields = {"name": "Release helper", "provider": "demo", "model": "demo"}
    agent = create_agent(workspace_id=acme.pk, fields=fields)
    create_agent(workspace_id=acme.pk, fields={**fields, "name": "Support"})
    reader = Reader(workspace_id=acme.pk, agent_id=agent.pk, user_id=olive.pk)
    tool = Author(kind=MemoryVersion.Author.TOOL, tool="memory_store")
    own = owner_within(reader, "agent")
    for path, text in TEXTS.items():
        marks = Marks(pinned=path == "MEMORY.md")
        write_entry(owner=own, path=path, content=text, author=tool, marks=marks)
    first = TEXTS["learnings/deploying.md"]
    changed = (
        first.replace("ten minutes", "a quarter of an hour") + "\nRoll back with `make undo`.\n"
    )
    write_entry(owner=own, path="learnings/deploying.md", content=changed, author=person(olive.pk))
    shared = owner_within(reader, "workspace")
    write_entry(
        owner=shared,
        path="house-rules.md",
        content="# House rules\n\nWrite to customers in their own language.\n",
        author=person(olive.pk),
        marks=Marks(pinned=True),
    )
    write_entry(
        owner=shared,
        path="vendors/fetched.md",
        content="Copied from a vendor's page.",
        author=tool,
        marks=Marks(trust="untrusted"),  # type: ignore[arg-type]
    )
    write_entry(
        owner=owner_within(reader, "user"),
        path="taste.md",
        content="Short answers, please.",
        author=person(olive.pk),
    )
    return agent


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
def test_pictures_of_memory(
    open_context: OpenContext, transactional_db: None, size: str, theme: str
) -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    olive = User.objects.create_user("olive@acme.dev", "correct horse 9", name="Olive Okafor")
    acme = create_workspace(name="Acme", owner=olive)
    look = f"{size}-{theme}"
    page = open_context(**as_seen(size, theme)).new_page()
    sign_in(page, olive)
    page.goto("/memory/")
    shoot(page, f"memory-empty-{look}")
    populate(acme, olive)
    page.goto("/memory/?q=when+may+I+deploy")
    shoot(page, f"memory-search-{look}")
    page.goto("/memory/")
    page.get_by_role("link", name="deploying.md").first.click()
    page.wait_for_selector("[data-editor]")
    shoot(page, f"memory-document-{look}")
    stale = open_context(**as_seen(size, theme)).new_page()
    sign_in(stale, olive)
    stale.goto(page.url)
    for window, words in ((page, "Tag and sign the release"), (stale, "Tag the release twice")):
        text = window.get_by_label("Text", exact=True)
        text.fill(text.input_value().replace("Tag the release", words))
        window.get_by_role("button", name="Save").click()
        window.wait_for_timeout(700)
    shoot(stale, f"memory-merge-{look}")
    page.goto(page.url.split("?")[0] + "?version=1")
    shoot(page, f"memory-version-{look}")
    page.goto("/memory/new/")
    shoot(page, f"memory-new-{look}")
    page.goto("/memory/import/")
    shoot(page, f"memory-import-{look}")
