"""Tests that a viewer who joins during a command sees its newest output without a gap."""

from __future__ import annotations

import json
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.live import hub
from sessions_app.live.frames import Frame
from sessions_app.live.hub import OutputTracker
from sessions_app.live.output_buffer import OutputWindow
from sessions_app.live.publisher import OutputDelta, publish_deltas
from sessions_app.live.reader import RunningOutput
from sessions_app.models import ToolExecution, ToolOutput
from tests.sessions_app.live.stream_client import connected, in_thread, joined
from tests.sessions_app.live.test_output_publisher import claim, execution

__all__ = ["claim", "execution"]
SAID = "".join(f"line {number}\n" for number in range(200))
SESSION, RUN = uuid4(), uuid4()


def said(start: int, end: int, call: str = "tu_1") -> RunningOutput:
    window = OutputWindow(start=start, text=SAID[start:end])
    return RunningOutput(
        session_id=SESSION, run_id=RUN, tool_use_id=call, name="exec", window=window
    )


class Page:
    """Handles the frames of one call as a page does."""

    def __init__(self) -> None:
        self.window = OutputWindow()

    def take(self, *frames: Frame | None) -> None:
        for frame in frames:
            if frame:
                body = json.loads(frame.text)
                offset = body["metadata"]["offset"]
                assert offset <= self.window.end, "lines came without those before"
                self.window = self.window.write(offset, body["tool_output"])


def test_output_between_the_stored_row_and_the_first_delta_is_not_lost():
    tracker, page = OutputTracker(), Page()
    tracker.start({"tu_1": said(0, 100)})
    page.take(*tracker.frames())

    page.take(tracker.add(said(150, 200)), tracker.add(said(200, 220)))
    assert page.window.text == SAID[:100]
    page.take(*tracker.catch_up({"tu_1": said(0, 180)}))

    assert page.window.text == SAID[:220]
    page.take(tracker.add(said(220, 230)))
    assert page.window.text == SAID[:230]


def test_a_viewer_that_joins_later_sees_everything_too():
    tracker, late = OutputTracker(), Page()
    tracker.start({"tu_1": said(0, 100)})
    tracker.add(said(150, 200))
    tracker.catch_up({"tu_1": said(0, 180)})

    late.take(*tracker.frames())

    assert late.window.text == SAID[:200]


@given(
    row=st.integers(0, 300),
    missed=st.integers(0, 300),
    pieces=st.lists(st.integers(1, 100), min_size=1, max_size=6),
    stored=st.integers(0, 5),
)
def test_a_page_shows_all_output_once_the_row_has_caught_up(row, missed, pieces, stored):
    tracker, page = OutputTracker(), Page()
    tracker.start({"tu_1": said(0, row)} if row else {})
    page.take(*tracker.frames())
    at = first = row + missed
    for size in pieces:
        page.take(tracker.add(said(at, at + size)))
        at += size
    page.take(*tracker.catch_up({"tu_1": said(0, first + sum(pieces[:stored]))}))

    assert page.window.text == SAID[:at]


def test_a_flood_that_skips_lines_does_not_make_viewers_wait():
    tracker = OutputTracker()
    assert tracker.add(said(0, 50))
    assert tracker.add(said(900, 950))

    tracker.expect_gaps()
    assert tracker.add(said(1000, 1050)) is None


def test_the_end_of_a_call_drops_its_pending_output():
    tracker = OutputTracker()
    tracker.add(said(50, 60))
    tracker.remove("tu_1")
    assert tracker.catch_up({}) == []

    tracker.add(said(50, 60))
    tracker.clear()
    assert tracker.catch_up({}) == []


@pytest.mark.usefixtures("execution")
async def test_a_reload_during_a_verbose_command_shows_every_line(
    async_db, session, secret, claim, monkeypatch
):
    monkeypatch.setattr(hub, "CATCH_UP_SECONDS", 0.2)
    assert await ToolExecution.objects.aexists()
    row = {"session": session, "run_id": claim.run_id, "epoch": claim.epoch, "name": "exec"}
    await ToolOutput.objects.acreate(tool_use_id="tu_1", start=0, text=SAID[:100], **row)
    page = Page()
    async with connected(session, secret) as socket:
        await joined(session)
        await in_thread(send)(session.pk, 150, 200)
        await ToolOutput.objects.aupdate(text=SAID[:200])
        await socket.until(lambda frame: "line 25" in str(frame.get("tool_output")))
        for frame in socket.follower.frames:
            if frame.get("tool_state") == "running":
                page.take(Frame(text=json.dumps(frame)))

    assert page.window.text == SAID[:200]


def send(session_id: UUID, start: int, end: int) -> None:
    piece = OutputDelta(
        session_id=session_id,
        run_id=RUN,
        tool_use_id="tu_1",
        name="exec",
        offset=start,
        text=SAID[start:end],
    )
    publish_deltas([piece])
