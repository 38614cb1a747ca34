"""Tests that a server that sends without end, or nonsense, ends in one fault and bounded memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from itertools import count, repeat

import pytest

from agents.exceptions import AnswerTooLarge, ProviderFault, ProviderUnavailable
from agents.providers import http, registry
from agents.providers.answer_checks import MAX_ARGUMENTS, MAX_CALLS, MAX_TEXT, MAX_THINKING
from agents.providers.base import Delta, ModelRequest, TextDelta
from agents.providers.registry import InterruptibleProvider
from tests.agents.providers.talk import CLOCK, complete
from tests.agents.providers.vendors import VENDORS, Vendor
from tests.wire.answers import Answer, Call, Refuse

both = pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
OPENAI = pytest.mark.parametrize("vendor", VENDORS[1:2], ids=lambda vendor: vendor.name)
#: What may wait in the sockets' buffers beyond what was accepted.
IN_TRANSIT = 16_000_000


class Flood:
    """Sends a piece again and again, and counts the characters."""

    def __init__(self, piece: str, first: str = "") -> None:
        self.piece, self.first, self.sent = piece, first, 0

    def __iter__(self) -> Iterator[str]:
        if self.first:
            yield self.first
        while True:
            self.sent += len(self.piece)
            yield self.piece


def fault_of(vendor: Vendor, answer: Answer | Refuse) -> ProviderFault:
    with vendor.wire([answer]) as wire:
        with pytest.raises(ProviderFault) as caught:
            complete(vendor.provider(wire), vendor.request("hi", tools=(CLOCK,)))
        assert len(wire.requests) == 1
    return caught.value


@both
def test_endless_text_is_stopped(vendor: Vendor):
    flood = Flood("x" * 1_000)

    fault = fault_of(vendor, Answer(text=flood))

    assert isinstance(fault, AnswerTooLarge)
    assert f"{MAX_TEXT:,} characters of text" in fault.detail
    assert flood.sent < MAX_TEXT + IN_TRANSIT


@both
def test_an_event_without_end_is_stopped(vendor: Vendor):
    flood = Flood("x" * 10_000, first='data: {"choices":[{"delta":{"content":"')

    fault = fault_of(vendor, Answer(raw=flood))

    assert isinstance(fault, AnswerTooLarge)
    assert f"an event of more than {http.MAX_EVENT_BYTES:,} bytes" in fault.detail
    assert flood.sent < http.MAX_EVENT_BYTES + IN_TRANSIT


@both
@pytest.mark.parametrize("piece", ["{\n" * 500, "data: {\n" * 500])
def test_lines_that_never_make_an_event_are_stopped(vendor: Vendor, piece: str):
    flood = Flood(piece)

    fault = fault_of(vendor, Answer(raw=flood))

    assert isinstance(fault, ProviderFault)
    assert flood.sent < http.MAX_EVENT_BYTES + IN_TRANSIT


@both
def test_a_body_that_claims_to_be_no_stream_is_stopped(vendor: Vendor, monkeypatch):
    monkeypatch.setattr(http, "MAX_BODY_BYTES", 1_000_000)
    flood = Flood("x" * 10_000, first='{"a": "')

    fault = fault_of(vendor, Answer(raw=flood, headers={"content-type": "application/json"}))

    assert isinstance(fault, ProviderFault)
    assert flood.sent < 1_000_000 + IN_TRANSIT


@both
@pytest.mark.parametrize("status", [400, 500])
def test_of_an_endless_error_the_beginning_is_read(vendor: Vendor, status: int):
    flood = Flood("so sorry " * 1_000)

    fault = fault_of(
        vendor, Answer(raw=flood, status=status, headers={"content-type": "text/html"})
    )

    assert f"answered {status}: " in fault.detail
    assert len(fault.detail) < 1_000
    assert flood.sent < http.MAX_ERROR_BYTES + IN_TRANSIT


@both
def test_endless_thinking_is_stopped(vendor: Vendor):
    hm = "hm " * 1_000
    thoughts: dict[str, object] = {
        "gemini": {"candidates": [{"content": {"parts": [{"text": hm, "thought": True}]}}]},
        "openai": {"choices": [{"delta": {"reasoning_content": hm}}]},
        "anthropic": anthropic_delta({"type": "thinking_delta", "thinking": hm}),
    }
    first = {"anthropic": anthropic_block({"type": "thinking", "thinking": "", "signature": ""})}
    flood = Flood(
        f"data: {json.dumps(thoughts[vendor.name])}\n\n", first=first.get(vendor.name, "")
    )

    fault = fault_of(vendor, Answer(raw=flood))

    assert f"{MAX_THINKING:,} characters of thinking" in fault.detail
    assert flood.sent < MAX_THINKING + IN_TRANSIT


def anthropic_block(block: dict[str, object]) -> str:
    event = {"type": "content_block_start", "index": 0, "content_block": block}
    return f"data: {json.dumps(event)}\n\n"


def anthropic_delta(delta: dict[str, object]) -> dict[str, object]:
    return {"type": "content_block_delta", "index": 0, "delta": delta}


@pytest.mark.parametrize(
    ("kind", "delta", "complaint"),
    [
        ("tool_use", {"type": "input_json_delta", "partial_json": "x" * 9_000}, "tool arguments"),
        ("thinking", {"type": "signature_delta", "signature": "x" * 9_000}, "provider state"),
    ],
)
def test_endless_pieces_of_an_anthropic_block_are_stopped(kind, delta, complaint: str):
    block = {"type": kind, "id": "c", "name": "clock", "input": {}, "thinking": ""}
    flood = Flood(f"data: {json.dumps(anthropic_delta(delta))}\n\n", anthropic_block(block))

    assert complaint in fault_of(VENDORS[2], Answer(raw=flood)).detail
    assert flood.sent < MAX_ARGUMENTS + IN_TRANSIT


def test_endless_empty_anthropic_blocks_are_stopped():
    flood = Flood(anthropic_block({"type": "surprise"}))

    assert "provider state" in fault_of(VENDORS[2], Answer(raw=flood)).detail
    assert flood.sent < MAX_ARGUMENTS + IN_TRANSIT


@OPENAI
def test_endless_arguments_and_calls_are_stopped_before_any_is_complete(vendor: Vendor):
    def chunk(call: dict[str, object]) -> str:
        return f"data: {json.dumps({'choices': [{'delta': {'tool_calls': [call]}}]})}\n\n"

    flood = Flood(chunk({"index": 0, "function": {"name": "clock", "arguments": "x" * 9_000}}))
    assert (
        f"{MAX_ARGUMENTS:,} characters of tool arguments"
        in fault_of(vendor, Answer(raw=flood)).detail
    )
    assert flood.sent < MAX_ARGUMENTS + IN_TRANSIT
    calls = (chunk({"index": nth, "id": f"c{nth}", "function": {}}) for nth in count())
    assert f"{MAX_CALLS} tool calls" in fault_of(vendor, Answer(raw=calls)).detail
    named = repeat(chunk({"function": {"name": "clock", "arguments": "{}}"}}))
    assert isinstance(fault_of(vendor, Answer(raw=named)), AnswerTooLarge)


@both
def test_more_calls_than_the_bound_are_stopped(vendor: Vendor):
    calls = tuple(Call(name="clock", id=f"c{nth}") for nth in range(MAX_CALLS + 1))

    assert f"{MAX_CALLS} tool calls" in fault_of(vendor, Answer(calls=calls)).detail


@both
def test_an_answer_that_was_compressed_without_being_asked_is_refused(vendor: Vendor):
    fault = fault_of(vendor, Answer(raw=["x"], headers={"content-encoding": "gzip"}))

    assert "compressed (gzip)" in fault.detail


DEEP = "[" * 100_000
MALFORMED = [
    f'{{"choices": {DEEP}',
    '{"choices": 5, "candidates": 5}',
    '{"choices": ["x"], "candidates": ["x"]}',
    '{"choices": [{"delta": "x"}], "candidates": [{"content": "x"}]}',
    '{"choices": [{"delta": {"content": 7}}], "candidates": [{"content": {"parts": 7}}]}',
    '{"choices": [{"delta": {"tool_calls": ["x"]}}], "candidates": [{"content": {"parts": [7]}}]}',
    '{"choices": [{"delta": {"tool_calls": [{"index": [], "function": {}}]}}], "candidates": {}}',
    '{"usage": [1], "choices": [], "usageMetadata": [1]}',
    '{"error": {"code": [], "message": {}}}',
    '{"error": 5}',
    "{",
    '{"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}}',
    '{"type": "content_block_start", "content_block": {"type": "tool_use"}}',
    '{"type": "message_start", "message": {"usage": {"input_tokens": "many"}}}',
    "\\x00\\ud800",
]


@both
@pytest.mark.parametrize("chunk", MALFORMED)
def test_a_malformed_chunk_is_a_failure_that_can_be_retried(vendor: Vendor, chunk: str):
    fault = fault_of(vendor, Answer(raw=[f"data: {chunk}\n\n"]))

    assert type(fault) is ProviderUnavailable
    assert len(fault.detail) < 1_000


@both
@pytest.mark.parametrize("wait", ["nan", "inf", "-5", "1e999"])
def test_a_time_that_cannot_be_waited_for_is_ignored(vendor: Vendor, wait: str):
    details = ({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{wait}s"},)
    fault = fault_of(vendor, Refuse(status=503, headers={"retry-after": wait}, details=details))

    assert isinstance(fault, ProviderUnavailable)
    assert fault.retry_after is None


def test_a_server_that_sends_faster_than_its_reader_takes_has_to_wait(monkeypatch):
    monkeypatch.setattr(registry, "MAX_WAITING", 10)
    sent: list[int] = []
    stuck = threading.Event()

    class Fast:
        def stream(self, request: ModelRequest) -> Iterable[Delta]:
            for nth in count():
                sent.append(nth)
                if nth == 11:
                    stuck.set()
                yield TextDelta(text="x")

    stream = InterruptibleProvider(Fast()).stream(  # type: ignore[arg-type]
        ModelRequest(model="m", instructions="", messages=())
    )
    next(stream)
    assert stuck.wait(10)
    assert len(sent) <= 13
    stream.close()  # type: ignore[attr-defined]
