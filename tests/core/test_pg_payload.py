"""Tests of NOTIFY payloads: short, split and joined."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.channel_layer import LARGEST, MOST_UNFINISHED, Decoder, address_of, encode
from core.exceptions import MessageTooLong


def decode_all(payloads: list[str], decoder: Decoder | None = None) -> list[object]:
    decoder = decoder or Decoder()
    bodies = [decoder.decode(payload) for payload in payloads]
    return [orjson.loads(body) for body in bodies if body is not None]


def test_a_short_message_is_the_group_and_its_json():
    assert encode("session.1", {"type": "log.grew"}) == ['session.1 {"type":"log.grew"}']


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=400), st.integers(1, 60))
def test_any_text_of_any_length_is_restored(text: str, times: int):
    message = {"type": "delta", "text": text * times}
    payloads = encode("session.1", message)

    assert all(len(payload.encode()) <= LARGEST for payload in payloads)
    assert {address_of(payload) for payload in payloads} == {"session.1"}
    assert decode_all(payloads) == [message]


def test_a_long_message_is_cut_between_characters():
    message = {"text": "a" + "🚂" * 5000}

    payloads = encode("g", message)

    assert len(payloads) > 1
    assert decode_all(payloads) == [message]


def test_parts_of_several_messages_may_be_mixed():
    first, second = {"text": "1" * 20_000}, {"text": "2" * 20_000}
    mixed = [
        part for pair in zip(encode("g", first), encode("g", second), strict=True) for part in pair
    ]

    assert decode_all(mixed) == [first, second]


def test_a_message_with_a_missing_part_is_dropped_eventually():
    decoder = Decoder()
    lost = encode("g", {"text": "0" * 20_000})
    assert decode_all(lost[:-1], decoder) == []

    for _ in range(MOST_UNFINISHED):
        decode_all(encode("g", {"text": "1" * 20_000})[:-1], decoder)

    assert decode_all(lost[-1:], decoder) == []


def test_a_message_that_is_too_long_is_refused():
    with pytest.raises(MessageTooLong):
        encode("g", {"text": "x" * 8_000_000})
