"""The lines of a chat, as the browser fetches them while the log grows."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from core.exceptions import Fault
from sessions_app.accept import accept_event
from sessions_app.lanes import run_queue
from sessions_app.lanes.queued_messages import list_queue, remove_run
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import Approval, Run, Session, SessionEvent, ToolExecution
from sessions_app.pages import chat, transcript
from sessions_app.sessions import get_or_create_session
from tenants.access import Principal
from tests.conftest import add_member
from tests.sessions_app.conftest import OWNER, serve

E = SessionEvent.Type
CSRF = re.compile(r'(<input type="hidden" name="csrfmiddlewaretoken" value=")[^"]*')
LINE = re.compile(r"<li\b|</li>")
VERSION = re.compile(r' data-version="[^"]*"')
KEY = re.compile(r'data-key="([^"]*)"(?: data-version="([^"]*)")?(?: data-seq="(\d+)")?')


def split_lines(html: str) -> dict[str, str]:
    """Return the top-level lines by their key, without what differs at every rendering."""
    lines, depth, start = {}, 0, 0
    for found in LINE.finditer(html):
        if found[0] == "<li":
            start = found.start() if depth == 0 else start
            depth += 1
            continue
        depth -= 1
        if depth == 0:
            line = CSRF.sub(r"\1", html[start : found.end()])
            lines[key_of(line)] = line
    return lines


def key_of(line: str) -> str:
    found = KEY.search(line)
    assert found
    return found[1]


def version_of(line: str) -> str:
    found = KEY.search(line)
    assert found
    return found[2]


@dataclass
class Page:
    """A browser that follows a session, as `frontend/src/chat/transcript.ts` does."""

    client: Client
    session: Session
    first_seq: int = 0
    lines: dict[str, str] = field(default_factory=dict)
    #: Lines that became too old to be updated.
    earlier: list[str] = field(default_factory=list)
    #: The keys of the lines that the last answer brought.
    brought: set[str] = field(default_factory=set)
    state: dict[str, Any] = field(default_factory=dict)

    def refresh(self) -> None:
        have = ".".join(version_of(line) for line in self.lines.values())
        asked = f"?from={self.first_seq}&have={have}" if self.first_seq else ""
        answer = self.client.get(f"/chat/{self.session.pk}/lines/{asked}").json()
        fresh = split_lines(answer.pop("html"))
        keys = answer.pop("keys")
        known = self.lines | fresh
        self.earlier += [line for key, line in self.lines.items() if self._is_old(line, answer)]
        self.lines = {key: known[key] for key in keys}
        self.brought, self.first_seq, self.state = set(fresh), answer["first_seq"], answer

    def _is_old(self, line: str, answer: dict[str, Any]) -> bool:
        found = KEY.search(line)
        return bool(found and found[3] and int(found[3]) < answer["first_seq"])


def open_page(client: Client, session: Session) -> Page:
    page = Page(client=client, session=session)
    page.refresh()
    return page


class Walk:
    """A session to which something random happens at every step."""

    def __init__(self, session: Session, principal: Principal, seed: int) -> None:
        self.session = session
        self.principal = principal
        self.random = random.Random(seed)
        self.claim: run_queue.Claim | None = None
        self.open_calls: list[str] = []
        self.asked_calls: list[str] = []
        self.unknown_calls: list[str] = []
        self.children: list[dict[str, str]] = []
        self.snapshots: list[str] = []
        self.happened: list[str] = []

    def step(self) -> None:
        moves = self.moves()
        move = self.random.choice(moves)
        self.happened.append(move.__name__)
        try:
            move()
        except Fault:
            self.happened[-1] += " (refused)"

    def moves(self) -> list[Callable[[], object]]:
        moves: list[Callable[[], object]] = [self.say, self.note, self.compact]
        if self.claim:
            moves += [self.answer, self.call, self.call, self.call, self.ask, self.spawn]
            moves += [
                self.steer,
                self.take_steered,
                self.error,
                self.finish,
                self.wait,
                self.release,
            ]
        else:
            moves += [self.start] * 6
        if self.open_calls:
            moves += [self.result] * 4
        if self.asked_calls:
            moves += [self.confirm] * 2
        if self.unknown_calls:
            moves += [self.run_again]
        if self.children:
            moves += [self.end_child, self.work_in_child, self.ask_in_child]
        if self.snapshots:
            moves += [self.undo]
        if list_queue(self.session):
            moves += [self.edit, self.withdraw]
        return [*moves, self.interrupt] if self.random.random() < 0.2 else moves

    def append(self, type: E, payload: dict[str, Any]) -> None:
        run_id = self.claim.run_id if self.claim else None
        author = self.principal.user_id if type.startswith("user.") else None
        event = NewEvent(type=type, payload=payload)
        append_events(self.session.pk, [event], run_id=run_id, author_id=author)

    def name(self) -> str:
        return f"{self.random.choice(['one', 'two', 'three'])} <b>{self.random.random()}</b>"

    def say(self, on_busy: str = "followup") -> None:
        payload: dict[str, Any] = {"text": self.name()}
        if self.random.random() < 0.2:
            file = {"name": "a.txt", "path": "up/a.txt", "media_type": "text/plain", "size": 9}
            payload["attachments"] = [file]
        accept_event(
            self.principal, self.session.pk, type=E.USER_MESSAGE, payload=payload, on_busy=on_busy
        )

    def steer(self) -> None:
        self.say("steer")

    def take_steered(self) -> None:
        assert self.claim
        run_queue.step(self.claim)

    def start(self) -> None:
        if not list_queue(self.session):
            self.say()
        self.claim = run_queue.claim(self.session.pk, OWNER)

    def answer(self) -> None:
        self.append(E.AGENT_MESSAGE, {"text": f"**{self.name()}**", "model": "demo"})

    def _call(self, decision: str, calls: list[str]) -> None:
        tool_use_id = uuid4().hex[:12]
        use = {"tool_use_id": tool_use_id, "name": "exec", "input": {"command": self.name()}}
        self.append(E.AGENT_TOOL_USE, {**use, "decision": decision, "decided_by": "agent: exec"})
        calls.append(tool_use_id)

    def call(self) -> None:
        self._call("allow", self.open_calls)

    def ask(self) -> None:
        self._call("ask", self.asked_calls)

    def result(self) -> None:
        tool_use_id = self.open_calls.pop(self.random.randrange(len(self.open_calls)))
        state = self.random.choice(["completed", "completed", "error", "cancelled", "unknown"])
        output = self.random.choice([None, "ok", {"exit": 0}, "x" * 30_000])
        result = {"tool_use_id": tool_use_id, "name": "exec", "state": state, "output": output}
        self.append(E.AGENT_TOOL_RESULT, {**result, "duration_ms": self.random.randrange(5_000)})
        if state == "unknown":
            self.unknown_calls.append(tool_use_id)

    def confirm(self) -> None:
        tool_use_id = self.asked_calls.pop()
        decision = self.random.choice(["allow", "deny"])
        answer: dict[str, Any] = {"tool_use_id": tool_use_id, "decision": decision, "note": "so"}
        if decision == "allow":
            self.open_calls.append(tool_use_id)
            if self.random.random() < 0.5:
                answer["input"] = {"command": "edited"}
        self.append(E.USER_TOOL_CONFIRMATION, answer)

    def run_again(self) -> None:
        tool_use_id = self.unknown_calls.pop()
        answer = {"tool_use_id": tool_use_id, "decision": "allow", "again": True}
        self.append(E.USER_TOOL_CONFIRMATION, answer)
        self.open_calls.append(tool_use_id)

    def spawn(self) -> None:
        child, _ = get_or_create_session(agent=self.session.agent)
        below = {"parent": self.session, "ancestors": [self.session.pk]}
        Session.objects.filter(pk=child.pk).update(**below)
        tool_use_id = uuid4().hex[:12]
        use = {"tool_use_id": tool_use_id, "name": "sessions_spawn", "input": {"task": "x"}}
        self.append(E.AGENT_TOOL_USE, {**use, "decision": "allow"})
        created = {"tool_use_id": tool_use_id, "child_session_id": str(child.pk), "title": "Child"}
        self.append(E.CHILD_CREATED, created)
        self.children.append(created)

    def work_in_child(self) -> None:
        children = Session.objects.filter(pk=self.children[-1]["child_session_id"])
        children.update(input_tokens=self.random.randrange(9_000), cost="0.25")

    def ask_in_child(self) -> None:
        child = Session.objects.get(pk=self.children[-1]["child_session_id"])
        execution = ToolExecution.objects.create(
            workspace_id=child.workspace_id,
            session=child,
            tool_use_id=uuid4().hex[:12],
            name="exec",
            input={"command": self.name()},
            state="awaiting_approval",
            run=Run.objects.create(workspace_id=child.workspace_id, session=child),
        )
        Approval.objects.create(
            workspace_id=child.workspace_id,
            subject_id=execution.pk,
            session=child,
            execution=execution,
            agent=child.agent,
            title="Run a command",
            input=execution.input,
            reason="default: exec",
            expires_at=timezone.now() + timedelta(days=1),
        )

    def end_child(self) -> None:
        created = self.children.pop()
        status = self.random.choice(["completed", "failed", "cancelled"])
        self.append(E.CHILD_IDLE, {**created, "status": status, "result": "**done**"})

    def note(self) -> None:
        type, payload = self.random.choice(
            [
                (E.RESOURCE_ATTACHED, {"mount_path": "/docs", "status": "ready"}),
                (E.OUTCOME_JUDGED, {"status": "met"}),
                (E.TERMINAL_OPENED, {"opened_by": "Olive"}),
            ]
        )
        self.append(type, payload)

    def compact(self) -> None:
        snapshot = str(uuid4())
        tokens = {"tokens_before": 20_000, "tokens_after": 900}
        self.append(E.CONTEXT_COMPACTED, {"snapshot_id": snapshot, **tokens})
        self.snapshots.append(snapshot)

    def undo(self) -> None:
        self.append(E.COMPACTION_UNDONE, {"snapshot_id": self.snapshots.pop()})

    def error(self) -> None:
        code = self.random.choice(["out_of_credits", "provider_rejected"])
        retryable = self.random.random() < 0.5
        self.append(E.ERROR, {"message": self.name(), "code": code, "retryable": retryable})

    def finish(self) -> None:
        assert self.claim
        self.claim = run_queue.finish(self.claim, OWNER, stop_reason="end_turn").next

    def wait(self) -> None:
        assert self.claim
        self.claim = run_queue.finish(self.claim, OWNER, stop_reason="requires_action").next

    def release(self) -> None:
        assert self.claim
        run_queue.release(self.claim, reason="test")
        self.claim = None

    def edit(self) -> None:
        seq = self.random.choice(list_queue(self.session)).message_seqs[0]
        payload = {"seq": seq, "text": self.name()}
        accept_event(self.principal, self.session.pk, type=E.USER_MESSAGE_EDITED, payload=payload)

    def withdraw(self) -> None:
        run = self.random.choice(list_queue(self.session))
        remove_run(self.session, run.run_id, self.principal.user_id)

    def interrupt(self) -> None:
        accept_event(
            self.principal, self.session.pk, type=E.USER_INTERRUPT, payload={"note": "enough"}
        )
        self.claim = None


@pytest.mark.parametrize("seed", range(4))
def test_a_page_that_fetches_only_changes_shows_what_a_fresh_page_shows(
    browser_client, session, principal, seed
):
    walk = Walk(session, principal, seed)
    page = open_page(browser_client, session)
    for _ in range(50):
        walk.step()
        before = dict(page.lines)
        page.refresh()

        fresh = open_page(browser_client, session)
        assert list(page.lines.items()) == list(fresh.lines.items()), walk.happened
        assert page.state == fresh.state, walk.happened
        # Only lines that look different are sent.
        looks = {key: VERSION.sub("", line) for key, line in before.items()}
        unchanged = [k for k in page.brought if VERSION.sub("", page.lines[k]) == looks.get(k)]
        assert unchanged == [], walk.happened
    painted = browser_client.get(f"/chat/{session.pk}/").text
    start = painted.index(">", painted.index("data-lines"))
    first_paint = split_lines(painted[start : painted.index("</ol>\n", start)])
    assert list(first_paint.items()) == list(page.lines.items())
    assert len(set(walk.happened)) > 10


@pytest.mark.parametrize("seed", range(3))
def test_a_page_that_stays_open_drops_no_line_and_repeats_none(
    browser_client, session, principal, seed, monkeypatch
):
    monkeypatch.setattr(transcript, "WINDOW_EVENTS", 10)
    chance = random.Random(seed)
    page = open_page(browser_client, session)
    for turn in range(12):
        events = [NewEvent(type=E.AGENT_MESSAGE, payload={"text": f"Turn {turn}."})]
        for nth in range(chance.randrange(5)):
            call = {
                "tool_use_id": f"{turn}-{nth}",
                "name": "read",
                "input": {"path": f"{turn}-{nth}."},
            }
            events += [
                NewEvent(type=E.AGENT_TOOL_USE, payload={**call, "decision": "allow"}),
                NewEvent(type=E.AGENT_TOOL_RESULT, payload={**call, "state": "completed"}),
            ]
        append_events(session.pk, events)
        page.refresh()
        shown = "".join([*page.earlier, *page.lines.values()])
        for earlier in range(turn + 1):
            assert shown.count(f"Turn {earlier}.") == 1
        subjects = re.findall(r'<code class="call-subject">([^<]*)', shown)
        assert len(subjects) == len(set(subjects))
    assert page.first_seq > 1
    assert len(page.earlier) > 5


def lines_of(client: Client, session: Session, **asked: int) -> dict[str, Any]:
    return dict(client.get(f"/chat/{session.pk}/lines/", asked).json())


def ask(session: Session, text: str) -> None:
    run_queue.accept(session.pk, NewEvent(type=E.USER_MESSAGE, payload={"text": text}))


def test_an_approval_is_a_form_and_then_a_call(browser_client, session, principal):
    ask(session, "run echo hello")
    serve(session.pk)
    page = open_page(browser_client, session)
    (card,) = [line for line in page.lines.values() if "data-answer" in line]
    assert (page.state["status"], page.state["status_label"]) == ("requires_action", "Needs you")
    payload = {"tool_use_id": key_of(card).removeprefix("call-"), "decision": "deny", "note": "no"}
    accept_event(principal, session.pk, type=E.USER_TOOL_CONFIRMATION, payload=payload)
    page.refresh()

    assert key_of(card) in page.brought
    assert "Denied by Olive Owner" in page.lines[key_of(card)]
    assert "data-answer" not in page.lines[key_of(card)]


def test_a_viewer_and_a_preview_get_no_buttons(browser_client, session, workspace):
    ask(session, "run echo hello")
    serve(session.pk)
    append_events(
        session.pk,
        [
            NewEvent(type=E.ERROR, payload={"message": "Broke", "code": "out_of_credits"}),
            NewEvent(type=E.CONTEXT_COMPACTED, payload={"snapshot_id": "s1"}),
        ],
    )
    viewer = Client()
    viewer.force_login(add_member(workspace, "viewer"))
    allowed = lines_of(browser_client, session)["html"]
    assert "data-answer" in allowed
    for html in (
        lines_of(viewer, session)["html"],
        lines_of(browser_client, session, read_only=1)["html"],
    ):
        assert "<form" not in html
        actions = set(re.findall(r'data-action="([^"]*)"', html))
        assert actions <= {"copy", "copy-part", "summary", "whole-output"}
        assert "run echo hello" in html


def test_a_session_of_another_workspace_does_not_exist(session, foreign_workspace, stranger):
    client = Client()
    client.force_login(stranger)

    assert client.get(f"/chat/{session.pk}/lines/").status_code == 404


def test_the_number_of_queries_does_not_grow(browser_client, session):
    def grow(count: int) -> int:
        for nth in range(count):
            ask(session, f"list the files in {nth}")
            serve(session.pk)
        with CaptureQueriesContext(connection) as captured:
            lines_of(browser_client, session)
        return len(captured)

    assert grow(1) == grow(4)


def test_a_conversation_is_read_in_five_statements(session):
    append_events(session.pk, [NewEvent(type=E.USER_MESSAGE, payload={"text": "hi"})])
    with CaptureQueriesContext(connection) as queries:
        chat.read_conversation(session)

    tables = [re.search(r'FROM "(\w+)"', query["sql"])[1] for query in queries]
    # The window, the session's status, the queue, edits of messages, and the runs that read them.
    events, runs = "session_messages", "agent_run_queue"
    assert tables == [events, "agent_sessions", runs, events, runs]


def test_viewers_that_ask_during_a_read_share_the_next_one(monkeypatch):
    sessions = [Session(pk=uuid4())] * 8
    reading, let_go = threading.Event(), threading.Event()
    reads: list[int] = []

    def read(*_: object) -> int:
        reads.append(len(reads))
        reading.set()
        assert let_go.wait(20)
        return reads[-1]

    monkeypatch.setattr(chat, "_read_conversation", read)
    with ThreadPoolExecutor(len(sessions)) as threads:
        read_lines: Callable[..., Any] = partial(chat.read_conversation, first_seq=1)
        first = threads.submit(read_lines, sessions[0])
        assert reading.wait(20)
        others = [threads.submit(read_lines, one) for one in sessions[1:]]
        time.sleep(0.5)  # Until the other viewers wait.
        let_go.set()

    results: list[object] = [one.result() for one in (first, *others)]
    assert results == [0, *[1] * 7]
    assert reads == [0, 1]


def test_earlier_lines_are_fetched_in_parts(browser_client, session):
    texts = [NewEvent(type=E.AGENT_MESSAGE, payload={"text": f"No. {n}."}) for n in range(250)]
    append_events(session.pk, texts)
    newest = lines_of(browser_client, session)
    earlier = lines_of(browser_client, session, before=newest["first_seq"])

    assert (newest["first_seq"], earlier["first_seq"]) == (51, 1)
    assert len(split_lines(earlier["html"])) == 50
    assert "No. 49." in earlier["html"]
    assert "No. 50." not in earlier["html"]


def test_a_message_shows_what_became_of_it(browser_client, session):
    page = open_page(browser_client, session)
    ask(session, "say one")
    page.refresh()
    seen = [receipt_of(page)]
    claim = run_queue.claim(session.pk, OWNER)
    assert claim
    page.refresh()
    seen.append(receipt_of(page))
    run_queue.finish(claim, None)
    page.refresh()

    assert [*seen, receipt_of(page)] == ["Sent", "Read", "Answered"]


def receipt_of(page: Page) -> str:
    (line,) = [line for line in page.lines.values() if "data-receipt" in line]
    return re.findall(r'<span class="receipt"[^>]*>([^<]*)', line)[0]


def test_several_messages_of_one_run_are_answered_together(session, browser_client):
    ask(session, "first")
    assert run_queue.claim(session.pk, OWNER)
    page = open_page(browser_client, session)
    ask(session, "second")
    page.refresh()

    assert [run["text"] for run in page.state["queue"]] == ["second"]
    assert not [line for line in page.lines.values() if "second" in line]
