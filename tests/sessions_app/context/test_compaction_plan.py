"""Property tests of where a compaction cuts the log."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sessions_app.context.compaction.plan import Cut, Retention, choose_cut, entry_tokens
from sessions_app.context.conversation import LogEntry, build_messages

CALLS = "abcd"


def line(seq: int, type: str, payload: dict[str, Any], taken: bool = True) -> LogEntry:
    return LogEntry(seq=seq, type=type, payload=payload, taken=taken, run_id=None)


def call(id: str) -> tuple[str, dict[str, Any]]:
    return "agent.tool_use", {"tool_use_id": id, "name": "read", "input": {}}


def result(id: str) -> tuple[str, dict[str, Any]]:
    payload = {"tool_use_id": id, "name": "read", "state": "completed", "output": "x" * 80}
    return "agent.tool_result", payload


events = st.lists(
    st.one_of(
        st.sampled_from(["hi", "a longer message " * 6]).map(
            lambda t: ("user.message", {"text": t})
        ),
        st.just(("agent.message", {"text": "well " * 10})),
        st.just(("waits", {"text": "later"})),
        st.sampled_from(CALLS).map(call),
        st.sampled_from(CALLS).map(result),
        st.integers(1, 12).map(lambda seq: ("user.message_edited", {"seq": seq, "text": "new"})),
        st.integers(1, 12).map(lambda seq: ("user.message_withdrawn", {"seq": seq})),
    ),
    max_size=30,
)
keeps = st.one_of(
    st.builds(Retention, tokens=st.integers(0, 400), settled=st.booleans()),
    st.builds(Retention, messages=st.integers(0, 8), settled=st.just(True)),
)


def lines_of(found: list[tuple[str, dict[str, Any]]]) -> list[LogEntry]:
    return [
        line(seq, "user.message", payload, False) if type == "waits" else line(seq, type, payload)
        for seq, (type, payload) in enumerate(found, start=1)
    ]


def after(cut: Cut, lines: list[LogEntry]) -> list[LogEntry]:
    """Return the entries read after the cut: the later ones and the carried ones."""
    return [one for one in lines if one.seq > cut.last_seq or one.seq in cut.carried]


@given(events, keeps)
def test_no_cut_separates_a_call_from_its_result(found, keep):
    lines = lines_of(found)
    if (cut := choose_cut(lines, keep)) is None:
        return
    sides = [
        {one.payload["tool_use_id"] for one in part if "tool_use_id" in one.payload}
        for part in (cut.covered, cut.kept)
    ]
    assert not sides[0] & sides[1]


@given(events, keeps)
def test_every_entry_is_either_covered_or_kept(found, keep):
    lines = lines_of(found)
    if (cut := choose_cut(lines, keep)) is None:
        return
    covered = {one.seq for one in cut.covered}
    read = {one.seq for one in after(cut, lines)}
    assert covered | read == {one.seq for one in lines}
    assert not covered & read
    withdrawn = {o.payload["seq"] for o in lines if o.type == "user.message_withdrawn"}
    waiting = {o.seq for o in lines if o.type == "user.message" and not o.taken} - withdrawn
    assert waiting <= read


@given(events, st.integers(0, 400))
def test_the_message_being_answered_is_kept(found, tokens):
    lines = lines_of([*found, ("user.message", {"text": "the question"})])
    cut = choose_cut(lines, Retention(tokens=tokens))
    if cut is not None:
        # Or its edited text.
        assert build_messages(after(cut, lines))[-1].text.endswith(("the question", "new"))


@given(st.integers(2, 40), st.integers(50, 2_000))
def test_the_kept_part_stays_within_its_budget(turns, tokens):
    found = []
    for _ in range(turns):
        found += [("user.message", {"text": "ask " * 5}), ("agent.message", {"text": "say " * 5})]
    cut = choose_cut(lines_of(found), Retention(tokens=tokens))
    whole = sum(entry_tokens(one) for one in lines_of(found))
    if cut is None:
        assert whole <= tokens or turns == 1
        return
    assert sum(entry_tokens(one) for one in cut.kept) <= max(tokens, 60)
    assert cut.kept[0].type == "user.message"


def test_a_turn_that_is_too_long_is_cut_between_its_steps_and_keeps_its_task():
    found = [("user.message", {"text": "do it all"})]
    for nth in range(30):
        found += [call(f"c{nth}"), result(f"c{nth}")]
    lines = lines_of(found)

    cut = choose_cut(lines, Retention(tokens=300))

    assert cut is not None
    assert cut.carried == [1]
    built = build_messages(after(cut, lines))
    assert built[0].text == "do it all"
    assert 2 < len(built) < 20


def test_a_message_taken_after_the_cut_is_carried_over():
    waited = line(2, "user.message", {"text": "second"})
    lines = [
        line(1, "user.message", {"text": "first"}),
        line(3, "agent.message", {"text": "one " * 100}),
        waited,
        line(4, "agent.message", {"text": "two"}),
    ]

    cut = choose_cut(lines, Retention(tokens=60))

    assert cut is not None
    assert (cut.last_seq, cut.carried, cut.first_kept_seq) == (3, [2], 2)
