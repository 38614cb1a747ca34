"""Tests of the output buffer of a running call: whole lines, bounded, masked, exact offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sessions_app.live import output_buffer
from sessions_app.live.output_buffer import (
    MAX_FRAME_BYTES,
    WINDOW_SIZE,
    OutputBuffer,
    OutputWindow,
    remove_secrets,
)
from tenants.vault import spellings


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


KEY = "first line of it\nsecond line of it\nab\nlast line of it"


def shown_of(*pieces: str, secrets: tuple[str, ...]) -> str:
    """Return what a viewer sees if every piece is late."""
    one = OutputBuffer(secrets)
    for piece in pieces:
        one.add(piece)
        one._waiting_since = float("-inf")
        one.release()
    return one.window.text


def test_each_line_of_a_longer_secret_is_masked():
    secrets = (KEY, *spellings(KEY))

    assert shown_of("a second line of it z\n", secrets=secrets) == "a [removed] z\n"
    assert remove_secrets(f"{KEY}\nlast line of it!", secrets) == "[removed]\n[removed]!"


def test_the_beginning_of_a_secret_is_held_back_until_its_end_is_known():
    assert shown_of("it is hun", secrets=("hunter2",)) == "it is "
    assert shown_of("it is hun", "ter2!", secrets=("hunter2",)) == "it is [removed]!"
    assert shown_of("it is hun", "gry", secrets=("hunter2",)) == "it is hungry"
    # The end of one secret is the beginning of another.
    assert shown_of("it is hunter2", "!", secrets=("hunter2", "2faced")) == "it is [removed]!"


@given(st.data())
def test_no_cutting_into_pieces_shows_a_secret(data):
    secrets = (KEY, *spellings(KEY), "itsecond")
    text = f"begin {KEY} and line {KEY[17:34]} end itsecond of\n"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    shown = shown_of(*pieces, secrets=secrets)

    assert shown == "begin [removed] and line [removed] end [removed] of\n"


def test_a_flood_is_masked_before_it_is_cut():
    one = OutputBuffer(("hunter2" * 4,))
    one.add("hunter2" * 4 + "x" * (2 * WINDOW_SIZE))
    one.release()
    whole = OutputBuffer(("hunter2" * 4,))
    whole.add("y" * WINDOW_SIZE + "hunter2" * 4 + "x" * (WINDOW_SIZE - 10))
    one.release()
    whole._waiting_since = float("-inf")
    whole.release()

    assert "hunter" not in one.window.text + whole.window.text
