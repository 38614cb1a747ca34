"""Tests of the tools that wait and that return the time."""

from __future__ import annotations

import time
from threading import Timer

import pytest

from tools_app.exceptions import ToolFailed, ToolStopped
from tools_app.registry import registry


def test_waiting_ends_early_when_stopped(make_context):
    # A wait that ignored the stop would end at the deadline with another error.
    context = make_context(deadline=time.monotonic() + 30)
    Timer(0.05, context.stopped.set).start()

    with pytest.raises(ToolStopped):
        registry["wait"].call({"seconds": 300}, context)


def test_waiting_ends_at_the_deadline(make_context):
    with pytest.raises(ToolFailed, match="out of time"):
        registry["wait"].call({"seconds": 300}, make_context(deadline=time.monotonic() + 0.05))


def test_a_wait_reports_its_length(call):
    assert call("wait", seconds=0.01) == "Waited for 0.01 seconds."


@pytest.mark.parametrize("seconds", [-1, 301])
def test_a_wait_outside_its_bounds_is_refused(call, seconds):
    with pytest.raises(ToolFailed, match="Invalid arguments for wait"):
        call("wait", seconds=seconds)


def test_the_time_is_given_in_the_requested_zone(call):
    assert call("current_time").endswith("+00:00 (UTC)")
    assert call("current_time", zone="Asia/Kolkata").endswith("+05:30 (Asia/Kolkata)")


@pytest.mark.parametrize("zone", ["Nowhere/Land", "../../../etc/passwd", "Europe", ""])
def test_an_unknown_zone_is_refused(call, zone):
    with pytest.raises(ToolFailed, match="No time zone is named"):
        call("current_time", zone=zone)
