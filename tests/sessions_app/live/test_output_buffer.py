"""Tests of the output buffer of a running call: whole lines, bounded, masked, exact offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sessions_app.live import output_buffer
from sessions_app.live.output_buffer import MAX_FRAME_BYTES, WINDOW_SIZE, OutputBuffer, OutputWindow


def said(*texts: str, secrets: tuple[str, ...] = ()) -> OutputBuffer:
    one = OutputBuffer(secrets)
    for text in texts:
        one.add(text)
    one.release()
    return one


def test_a_line_is_released_when_it_is_complete():
    one = said("first\nsec")
    assert one.window.text == "first\n"
    one.add("ond\n")
    one.release()
    assert one.window.text == "first\nsecond\n"


def test_a_partial_line_is_released_after_a_while(monkeypatch):
    one = said("password? ")
    assert one.window.text == ""
    monkeypatch.setattr(output_buffer, "PARTIAL_LINE_SECONDS", -1)
    one.release()
    assert one.window.text == "password? "


def test_a_secret_split_over_two_writes_is_masked():
    one = said(
        "key: sk-abcdefgh", "ijklmnop123\n", "the pass is hun", "ter2!\n", secrets=("hunter2",)
    )
    assert "sk-" not in one.window.text
    assert "hunter2" not in one.window.text
    assert one.window.text.endswith("the pass is [removed]!\n")


def test_colours_and_overwritten_progress_are_left_out():
    assert said("\x1b[31mred\x1b[0m\r\n", " 1%\r 50%\r100%\n").window.text == "red\n100%\n"


def test_a_flood_is_cut_to_its_newest_part_and_offsets_stay_exact():
    one = OutputBuffer()
    for number in range(40_000):
        one.add(f"{number:07}\n")
    one.release()
    assert len(one.window.text) <= WINDOW_SIZE
    assert one.window.end == 40_000 * 8
    assert one.window.text.endswith("0039999\n")


def test_a_chunk_is_bounded_in_bytes_and_starts_where_the_last_one_ended():
    one = said("ü🚂" * 3_000 + "\n")
    text, sent = "", 0
    while piece := one.next_chunk()[1]:
        assert len(piece.encode()) <= MAX_FRAME_BYTES
        assert one.next_chunk()[0] == sent
        text += piece
        sent = one.published = sent + len(piece)
    assert text == one.window.text


@given(st.lists(st.tuples(st.integers(0, 60_000), st.text(max_size=200)), max_size=20))
def test_an_output_window_is_bounded_and_ends_at_the_newest_text(pieces):
    window = OutputWindow()
    for offset, text in pieces:
        window = window.write(offset, text)
        assert len(window.text) <= WINDOW_SIZE
        assert window.end == offset + len(text)
