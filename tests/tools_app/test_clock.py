"""Waiting, and telling the time."""

from __future__ import annotations

import time
from threading import Timer

import pytest

from tools_app.exceptions import ToolFailed, ToolStopped
from tools_app.registry import registry


def test_waiting_ends_early_when_stopped(make_context):
    # Slept through, it would end at the deadline with another fault.
    context = make_context(deadline=time.monotonic() + 30)
    Timer(0.05, context.stopped.set).start()

    with pytest.raises(ToolStopped):
        registry["wait"].call({"seconds": 300}, context)


def test_waiting_ends_at_the_deadline(make_context):
    with pytest.raises(ToolFailed, match="out of time"):
        registry["wait"].call({"seconds": 300}, make_context(deadline=time.monotonic() + 0.05))


def test_a_short_wait_says_how_long_it_was(call):
    assert call("wait", seconds=0.01) == "Waited for 0.01 seconds."


@pytest.mark.parametrize("seconds", [-1, 301])
def test_a_wait_has_bounds(call, seconds):
    with pytest.raises(ToolFailed, match="Invalid arguments for wait"):
        call("wait", seconds=seconds)


def test_the_time_is_told_in_a_zone(call):
    assert call("current_time").endswith("+00:00 (UTC)")
    assert call("current_time", zone="Asia/Kolkata").endswith("+05:30 (Asia/Kolkata)")


@pytest.mark.parametrize("zone", ["Nowhere/Land", "../../../etc/passwd", "Europe", ""])
def test_an_unknown_zone_is_told(call, zone):
    with pytest.raises(ToolFailed, match="No time zone is named"):
        call("current_time", zone=zone)
