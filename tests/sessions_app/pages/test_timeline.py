"""Tests of the axis of the timeline: in order, within its width, with long pauses cut."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from sessions_app.pages.timeline import WIDTH, build_axis

ZERO = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return ZERO + timedelta(seconds=seconds)


def test_no_spans_give_no_axis():
    assert build_axis([]) is None


def test_a_long_pause_is_cut_and_labelled():
    axis = build_axis([(at(0), at(10)), (at(7_210), at(7_220))])
    assert axis
    left, width = axis.bar(at(0), at(10))

    assert [cut.words for cut in axis.cuts] == ["2 h 0 min"]
    assert left == 0
    assert width > WIDTH * 0.4


def test_a_short_pause_stays():
    axis = build_axis([(at(0), at(10)), (at(11), at(20))])

    assert axis
    assert axis.cuts == []
    assert axis.x(at(10)) == WIDTH / 2


def test_a_bar_has_a_minimum_width():
    axis = build_axis([(at(0), at(1_000))])
    assert axis

    assert axis.bar(at(1_000), at(1_000)) == (WIDTH - 3, 3)
    assert axis.bar(at(5), at(5.0001))[1] == 3


@given(
    st.lists(
        st.tuples(st.floats(0, 1e6), st.floats(0, 1e4)).map(lambda one: (one[0], one[0] + one[1])),
        min_size=1,
        max_size=20,
    )
)
def test_positions_keep_their_order_and_stay_within_the_width(spans):
    axis = build_axis([(at(start), at(end)) for start, end in spans])
    assert axis
    moments = sorted(moment for span in spans for moment in span)
    places = [axis.x(at(moment)) for moment in moments]

    assert places == sorted(places)
    assert all(0 <= place <= WIDTH for place in places)
    assert len(axis.ticks) == 5
