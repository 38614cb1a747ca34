"""Tests the way of a new user: sign up, create a key, start a task, approve it, get the artifact.

Every failure on the way is explained to programs and to people.
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
SIGNED_OUT: dict[str, list[Any]] = {"cookies": [], "origins": []}
MakeProgram = Callable[[str], "Program"]
ENDED = {"complete", "errored", "terminated"}


class Program:
    """A remote program that has only a key."""

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
        wait_for(lambda: self.look(task)["status"] in ENDED, "the end of the task")
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
    return open_window("/", storage_state=SIGNED_OUT)


@pytest.fixture
def make_program(stack: Running) -> Iterator[MakeProgram]:
    """Return a function that creates a program with a key."""
    with ExitStack() as made:
        yield lambda key: made.enter_context(closing(Program(stack, key)))


def status(page: Page) -> Any:
    return page.locator("#flow-head .state")


def test_from_sign_up_to_the_artifact(
    stranger: Page, make_program: MakeProgram, tmp_path: Path
) -> None:
    page = stranger
    sign_up(page, "Ada Ash")
    program = make_program(make_key(page))

    page.goto("/workflows/")
    task = program.start(command="echo made of $(cat in.txt) | tee out.txt", approval=True,
                         files=[{"path": "in.txt", "text": "iron"}])  # fmt: skip
    # The open list updates without a reload.
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
    ended = program.end_of(task)
    assert ended["result"]["output"] == "made of iron\n"
    assert [one["path"] for one in ended["result"]["artifacts"]] == ["out.txt"]


def test_approving_in_the_inbox_updates_the_open_run_page(
    stranger: Page, make_program: MakeProgram
) -> None:
    sign_up(stranger, "Ida Ink")
    program = make_program(make_key(stranger))
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
    note.press("Enter")  # Enter neither approves nor rejects.
    expect(card.get_by_role("button", name="Approve")).to_be_enabled()
    expect(status(stranger)).to_have_text("Needs you")
    card.get_by_role("button", name="Approve").click()

    expect(status(stranger)).to_have_text("Complete")
    expect(stranger.locator("#flow-command")).to_contain_text("said by the inbox")


def test_each_failure_shows_its_reason(stranger: Page, make_program: MakeProgram) -> None:
    page = stranger
    sign_up(page, "Eve Elm")
    program = make_program(make_key(page))
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
    expect_failed_steps(page, {failing: "Exit code 3", slow: "Took too long"})
    page.goto("/workflows/")
    expect(page.locator(f"#row-{refused}")).to_contain_text("Rejected by Eve Elm: not on a Friday")


def expect_failed_steps(page: Page, wanted: dict[str, str]) -> None:
    """Check that the failing step is marked as failed and says why."""
    for task, words in wanted.items():
        page.goto(f"/workflows/{task}/")
        line = page.locator(".flow-step", has_text="run command")
        expect(line).to_have_class(re.compile("is-failed"))
        expect(line).to_contain_text(words)


def test_a_bad_key_and_a_read_only_key_are_refused_with_a_reason(
    stranger: Page, make_program: MakeProgram, stack: Running
) -> None:
    sign_up(stranger, "Kay Key")
    good = make_key(stranger)
    task = make_program(good).start(command="true")

    answer = make_program("sy_nobody_nothing").http.post(
        "/api/orchestrator", json={"command": "true"}
    )
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.json()["detail"] == "This API key is wrong, expired or revoked."
    reader = stack.manage("issue_key", "--workspace", "Kay Key's workspace", "--scope", "read")
    answer = make_program(reader.stdout.strip()).http.post(
        "/api/orchestrator", json={"command": "true"}
    )
    assert answer.status_code == 403
    assert "run" in answer.json()["detail"]
    # A signed-out person is asked to sign in and does not learn whether the run exists.
    stranger.context.clear_cookies()
    stranger.goto(f"/workflows/{task}/")
    expect(stranger).to_have_url(re.compile("/sign-in/"))


def test_nothing_starts_without_credits_and_the_reason_is_shown(
    stranger: Page, make_program: MakeProgram, stack: Running
) -> None:
    page = stranger
    sign_up(page, "Rae Roe")
    program = make_program(make_key(page))
    taken = stack.manage("credits", "adjust", "--workspace", "Rae Roe's workspace", "--amount=-10")
    assert taken.returncode == 0, taken.stderr

    answer = program.http.post("/api/orchestrator", json={"command": "echo dear"})
    assert answer.status_code == 402
    assert answer.json()["code"] == "out_of_credits"
    reason = "The workspace has $0.00 of credits left. The operator of this installation can add credits."
    assert answer.json()["detail"] == reason

    # The form starts a run, which fails with the same reason.
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
