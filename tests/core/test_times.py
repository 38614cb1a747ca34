"""Tests that pages leave the time zone to the viewer's browser."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from django.template import Context, Template

from core.env import ROOT

#: A time of day that a template writes itself, which no script converts.
RAW = re.compile(r"\|(?:time|date):[\"'][^\"']*[HGhgiPsu][^\"']*[\"']")


def test_no_page_writes_a_time_of_day_itself():
    found = {
        (path.name, raw)
        for path in (ROOT / "templates").rglob("*.html")
        for raw in RAW.findall(path.read_text())
    }

    assert found == set()


def test_a_moment_with_seconds_says_so_to_the_script():
    at = datetime(2026, 1, 5, 9, 30, 7, tzinfo=UTC)
    shown = Template("{% load frame %}{% moment at seconds=True %}").render(Context({"at": at}))

    assert shown == (
        '<time data-exact="seconds" datetime="2026-01-05T09:30:07+00:00" '
        'title="5 January 2026, 09:30:07 UTC">5 Jan 2026, 09:30:07 UTC</time>'
    )
