"""The way of a stranger: signs up, makes a key, starts a task with it, approves, takes what came.

And each thing that can go wrong on the way says what it was, to programs and to people.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import faults_of
from tests.browser.conftest import PASSWORD
from tests.browser.whole_stack import OpenChat
from tests.stack.running import Running, wait_for
from tests.tools_app.conftest import needs_bwrap

pytestmark = [pytest.mark.timeout(600), needs_bwrap]
STRANGER: dict[str, list[Any]] = {"cookies": [], "origins": []}
Employ = Callable[[str], "Program"]
OVER = {"complete", "errored", "terminated"}


class Program:
    """A program somewhere else that has nothing but a key."""

    def __init__(self, stack: Running, key: str) -> None:
        self.http = httpx2.Client(
            base_url=stack.base_url, headers={"x-api-key": key}, timeout=60, trust_env=False
        )

    def close(self) -> None:
        self.http.close()

    def start(self, **task: Any) -> str:
        answer = self.http.post("/api/orchestrator", json=task)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["workflow_id"])

    def look(self, task: str) -> dict[str, Any]:
        found: dict[str, Any] = self.http.get(f"/api/v1/workflows/{task}/").json()
        return found

    def end_of(self, task: str) -> dict[str, Any]:
        wait_for(lambda: self.look(task)["status"] in OVER, "the end of the task")
        return self.look(task)

    def wait_until(self, task: str, status: str) -> None:
        wait_for(lambda: self.look(task)["status"] == status, f"a task that is {status}")


def sign_up(page: Page, name: str) -> None:
    page.goto("/")
    page.get_by_role("link", name="Create an account").click()
    page.get_by_label("Your name").fill(name)
    page.get_by_label("E-mail").fill(f"{name.split()[0].lower()}@example.com")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Create account").click()
    expect(page.get_by_role("heading", name=f"Set up {name}'s workspace")).to_be_visible()


def make_key(page: Page) -> str:
    page.goto("/settings/keys/")
    page.get_by_role("link", name="New key").first.click()
    page.get_by_label("Name").fill("Builds")
    page.get_by_role("button", name="Create key").click()
    return page.locator("#secret").inner_text()


@pytest.fixture
def stranger(open_window: OpenChat) -> Page:
    return open_window("/", storage_state=STRANGER)


@pytest.fixture
def employ(stack: Running) -> Iterator[Employ]:
    """A program with this key."""
    with ExitStack() as made:
        yield lambda key: made.enter_context(closing(Program(stack, key)))


def status(page: Page) -> Any:
    return page.locator("#flow-head .state")


def test_from_sign_up_to_the_artifact(stranger: Page, employ: Employ, tmp_path: Path) -> None:
    page = stranger
    sign_up(page, "Ada Ash")
    program = employ(make_key(page))

    page.goto("/workflows/")
    task = program.start(command="echo made of $(cat in.txt) | tee out.txt", approval=True,
                         files=[{"path": "in.txt", "text": "iron"}])  # fmt: skip
    # The list is open and nobody reloads it.
    row = page.locator(f"#row-{task}")
    expect(row).to_contain_text("echo made of")
    expect(row).to_contain_text("Needs you")
    row.get_by_role("link").click()
    expect(page.locator(".flow-gate")).to_contain_text("cat in.txt")
    assert faults_of(page) == []
    assert program.look(task)["status"] == "waiting_approval"

    page.get_by_label("Note").fill("go")
    page.get_by_role("button", name="Approve").click()
    expect(status(page)).to_have_text("Complete")
    expect(page.locator("#flow-command")).to_contain_text("made of iron")
    assert faults_of(page) == []
    with page.expect_download() as coming:
        page.locator("#flow-artifacts").get_by_role("link", name="out.txt").click()
    coming.value.save_as(tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text() == "made of iron\n"
    told = program.end_of(task)
    assert told["result"]["output"] == "made of iron\n"
    assert [one["path"] for one in told["result"]["artifacts"]] == ["out.txt"]


def test_the_inbox_approves_and_the_run_page_goes_on_by_itself(
    stranger: Page, employ: Employ
) -> None:
    sign_up(stranger, "Ida Ink")
    program = employ(make_key(stranger))
    task = program.start(command="echo said by the inbox", approval=True)
    stranger.goto(f"/workflows/{task}/")
    expect(status(stranger)).to_have_text("Needs you")

    inbox = stranger.context.new_page()
    inbox.goto("/approvals/")
    card = inbox.get_by_role("region", name="Run “echo said by the inbox”?")
    expect(card.get_by_role("link", name="Open run")).to_have_attribute(
        "href", f"/workflows/{task}/"
    )
    assert faults_of(inbox) == []
    note = card.get_by_role("textbox", name="Note")
    note.fill("go on")
    note.press("Enter")  # Neither yes nor no.
    expect(card.get_by_role("button", name="Approve")).to_be_enabled()
    expect(status(stranger)).to_have_text("Needs you")
    card.get_by_role("button", name="Approve").click()

    expect(status(stranger)).to_have_text("Complete")
    expect(stranger.locator("#flow-command")).to_contain_text("said by the inbox")


def test_each_failure_says_its_reason(stranger: Page, employ: Employ) -> None:
    page = stranger
    sign_up(page, "Eve Elm")
    program = employ(make_key(page))
    failing = program.start(command="echo nearly there; ls /nowhere; exit 3")
    slow = program.start(command="echo begun; sleep 60", timeout=2)
    refused = program.start(command="rm -rf build", approval=True)

    program.wait_until(refused, "waiting_approval")
    page.goto(f"/workflows/{refused}/")
    page.get_by_label("Note").fill("not on a Friday")
    page.get_by_role("button", name="Reject").click()
    for task, code, reason, words in [
        (failing, "command_failed", "The command ended with exit code 3.", "ls: cannot access"),
        (slow, "command_timeout", "The command took longer than 2 s and was stopped.", "begun"),
        (refused, "rejected", "Rejected by Eve Elm: not on a Friday", ""),
    ]:
        error = program.end_of(task)["error"]
        assert error["code"] == code
        assert error["message"].startswith(reason)
        page.goto(f"/workflows/{task}/")
        expect(status(page)).to_have_text("Failed")
        expect(page.locator("#flow-head .flow-reason")).to_contain_text(reason)
        if words:
            assert words in error["message"]
            expect(page.locator("#flow-command")).to_contain_text(words)
        assert faults_of(page) == []
    expect_lines(page, {failing: "Exit code 3", slow: "Took too long"})
    page.goto("/workflows/")
    expect(page.locator(f"#row-{refused}")).to_contain_text("Rejected by Eve Elm: not on a Friday")


def expect_lines(page: Page, wanted: dict[str, str]) -> None:
    """The step that went wrong is the one that is red, although it did its part."""
    for task, words in wanted.items():
        page.goto(f"/workflows/{task}/")
        line = page.locator(".flow-step", has_text="run command")
        expect(line).to_have_class(re.compile("is-failed"))
        expect(line).to_contain_text(words)


def test_a_bad_key_and_one_that_may_only_read_are_told_so(
    stranger: Page, employ: Employ, stack: Running
) -> None:
    sign_up(stranger, "Kay Key")
    good = make_key(stranger)
    task = employ(good).start(command="true")

    answer = employ("sy_nobody_nothing").http.post("/api/orchestrator", json={"command": "true"})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.json()["detail"] == "This API key is wrong, expired or revoked."
    reader = stack.manage("issue_key", "--workspace", "Kay Key's workspace", "--scope", "read")
    answer = employ(reader.stdout.strip()).http.post("/api/orchestrator", json={"command": "true"})
    assert answer.status_code == 403
    assert "run" in answer.json()["detail"]
    # And a person without an account is asked for one, not shown that the run is there.
    stranger.context.clear_cookies()
    stranger.goto(f"/workflows/{task}/")
    expect(stranger).to_have_url(re.compile("/sign-in/"))


def test_without_credits_nothing_begins_and_everybody_hears_why(
    stranger: Page, employ: Employ, stack: Running
) -> None:
    page = stranger
    sign_up(page, "Rae Roe")
    program = employ(make_key(page))
    taken = stack.manage("credits", "adjust", "--workspace", "Rae Roe's workspace", "--amount=-10")
    assert taken.returncode == 0, taken.stderr

    answer = program.http.post("/api/orchestrator", json={"command": "echo dear"})
    assert answer.status_code == 402
    assert answer.json()["code"] == "out_of_credits"
    reason = "The workspace has $0.00 of credits left. An owner can add credits."
    assert answer.json()["detail"] == reason

    # The form on the page starts a run, which says the same.
    page.goto("/workflows/new/?name=execute-task")
    page.get_by_label("Command").fill("echo dear")
    page.get_by_role("button", name="Start").click()
    expect(status(page)).to_have_text("Failed")
    expect(page.locator("#flow-head .flow-reason")).to_contain_text(reason)
    task = page.url.rstrip("/").rsplit("/", 1)[-1]
    assert program.end_of(task)["error"]["code"] == "task_unpaid"
    assert faults_of(page) == []
    page.get_by_role("link", name="Credits and budgets").click()
    expect(page.get_by_role("heading", name="Credits and budgets")).to_be_visible()
