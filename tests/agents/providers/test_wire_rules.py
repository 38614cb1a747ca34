"""Tests that the local servers refuse what the vendors refuse; the other tests rely on it."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.wire.anthropic import AnthropicWire
from tests.wire.gemini import GeminiWire
from tests.wire.openai import OpenAIWire

HI = {"role": "user", "parts": [{"text": "hi"}]}
GEMINI_CALL: dict[str, Any] = {
    "role": "model",
    "parts": [{"functionCall": {"name": "f", "id": "1"}, "thoughtSignature": "cw=="}],
}
GEMINI_RESPONSE = {
    "role": "user",
    "parts": [{"functionResponse": {"name": "f", "id": "1", "response": {"output": "x"}}}],
}
OPENAI_CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
OPENAI_RESULT = {"role": "tool", "tool_call_id": "1", "content": "x"}
ASK = {"role": "user", "content": "hi"}


def gemini(body: dict[str, Any], model: str = "gemini-3.8-flash") -> tuple[int, str]:
    with GeminiWire() as wire:
        answer = httpx2.post(
            f"{wire.url}/v1beta/models/{model}:streamGenerateContent?alt=sse",
            json=body,
            headers={"x-goog-api-key": wire.key},
        )
    return answer.status_code, answer.text


def openai(body: dict[str, Any]) -> tuple[int, str]:
    with OpenAIWire() as wire:
        answer = httpx2.post(
            f"{wire.url}/chat/completions",
            json={"model": "gpt-6-luna", "stream": True, **body},
            headers={"authorization": f"Bearer {wire.key}"},
        )
    return answer.status_code, answer.text


def test_complete_conversations_are_accepted():
    assert gemini({"contents": [HI, GEMINI_CALL, GEMINI_RESPONSE]})[0] == 200
    assert openai({"messages": [ASK, OPENAI_CALL, OPENAI_RESULT]})[0] == 200


@pytest.mark.parametrize(
    ("contents", "complaint"),
    [
        ([], "contents is not specified"),
        ([{**HI, "role": "assistant"}], "valid role"),
        ([{"role": "user", "parts": []}], "at least one parts field"),
        ([{"role": "user", "parts": [{"text": ""}]}], "text parameter"),
        ([{"role": "user", "parts": [{"thought": True}]}], "one initialized field"),
        ([{"role": "user", "parts": [{"words": "hi"}]}], "Unknown name"),
        ([HI, HI], "alternate"),
        ([GEMINI_CALL, GEMINI_RESPONSE], "begin with a user turn"),
        ([HI, GEMINI_CALL], "end with a user turn"),
        ([HI, GEMINI_CALL, HI], "number of function response parts"),
        ([GEMINI_RESPONSE], "immediately after a function call turn"),
        ([HI, {**GEMINI_CALL, "parts": GEMINI_CALL["parts"] * 2}, GEMINI_RESPONSE], "number of"),
        (
            [
                HI,
                GEMINI_CALL,
                {
                    "role": "user",
                    "parts": [{"functionResponse": {"name": "g", "id": "1", "response": {}}}],
                },
            ],
            "do not match",
        ),
        (
            [
                HI,
                {"role": "model", "parts": [{"functionCall": {"name": "f", "id": "1"}}]},
                GEMINI_RESPONSE,
            ],
            "missing a thought_signature",
        ),
    ],
)
def test_gemini_refuses_a_broken_conversation(contents: list[Any], complaint: str):
    status, text = gemini({"contents": contents})

    assert status == 400
    assert complaint in text


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([], "too short"),
        ([{"role": "model", "content": "hi"}], "Supported values"),
        ([{"role": "user", "content": None}], "expected a string"),
        ([{"role": "assistant", "content": "x", "tool_calls": []}], "too short"),
        ([ASK, OPENAI_CALL], "must be followed by tool messages"),
        ([ASK, OPENAI_CALL, ASK], "must be followed by tool messages"),
        ([ASK, OPENAI_RESULT], "must be a response to a preceeding message"),
        ([ASK, OPENAI_CALL, {**OPENAI_RESULT, "tool_call_id": "2"}], "must be a response"),
        ([ASK, OPENAI_CALL, OPENAI_RESULT, OPENAI_RESULT], "must be a response"),
    ],
)
def test_openai_refuses_a_broken_conversation(messages: list[Any], complaint: str):
    status, text = openai({"messages": messages})

    assert status == 400
    assert complaint in text


CLAUDE_CALL = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}],
}
CLAUDE_RESULT: dict[str, Any] = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": "1"}],
}
MARK = {"type": "ephemeral"}


def anthropic(body: dict[str, Any]) -> tuple[int, str]:
    with AnthropicWire() as wire:
        answer = httpx2.post(
            f"{wire.url}/v1/messages",
            json={"model": "claude-sonnet-5-5", "max_tokens": 2_000, "stream": True, **body},
            headers={"x-api-key": wire.key, "anthropic-version": "2023-06-01"},
        )
    return answer.status_code, answer.text


def test_anthropic_accepts_a_complete_conversation():
    assert anthropic({"messages": [ASK, CLAUDE_CALL, CLAUDE_RESULT]})[0] == 200


def said(*blocks: dict[str, Any], role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({"messages": []}, "at least one message"),
        ({"messages": [ASK], "max_tokens": 0}, "max_tokens"),
        ({"messages": [ASK], "seed": 1}, "Unknown name"),
        ({"messages": [{**ASK, "role": "system"}]}, "'user' or 'assistant'"),
        ({"messages": [said()]}, "non-empty content"),
        ({"messages": [said({"type": "text", "text": ""})]}, "must be non-empty"),
        ({"messages": [said({"type": "text", "text": " "})]}, "non-whitespace"),
        ({"messages": [said({"type": "words"})]}, "does not match"),
        ({"messages": [said({"type": "text", "text": "a", "thought": 1})]}, "Unknown name"),
        ({"messages": [said({"type": "thinking", "thinking": "a"})]}, "only be in assistant"),
        ({"messages": [CLAUDE_CALL, CLAUDE_RESULT]}, "first message must use the user role"),
        ({"messages": [ASK, said({"type": "text", "text": "a"}, role="assistant")]}, "prefill"),
        ({"messages": [ASK, CLAUDE_CALL, ASK]}, "without `tool_result`"),
        ({"messages": [ASK, CLAUDE_RESULT]}, "unexpected `tool_use_id`"),
        (
            {
                "messages": [
                    ASK,
                    CLAUDE_CALL,
                    said({"type": "text", "text": "a"}, *CLAUDE_RESULT["content"]),
                ]
            },
            "must come first",
        ),
        (
            {
                "messages": [
                    ASK,
                    said({"type": "thinking", "thinking": "a", "signature": "x"}, role="assistant"),
                    ASK,
                ]
            },
            "Invalid `signature`",
        ),
        (
            {"messages": [ASK], "thinking": {"type": "enabled", "budget_tokens": 1_024}},
            "not supported",
        ),
        ({"messages": [ASK], "temperature": 0.5}, "deprecated"),
        (
            {"messages": [said(*[{"type": "text", "text": "a", "cache_control": MARK}] * 5)]},
            "maximum of 4",
        ),
        (
            {
                "messages": [ASK],
                "model": "claude-haiku-4-5",
                "thinking": {"type": "enabled", "budget_tokens": 2_000},
            },
            "must be greater",
        ),
        (
            {"messages": [ASK], "model": "claude-haiku-4-5", "thinking": {"type": "adaptive"}},
            "not supported",
        ),
        ({"messages": [ASK], "tools": [{"name": "a b", "input_schema": {}}]}, "Invalid function"),
    ],
)
def test_anthropic_refuses_a_broken_request(body: dict[str, Any], complaint: str):
    status, text = anthropic(body)

    assert status == 400
    assert complaint in text


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("bad name!", {"type": "object"}),
        ("f", {"type": "string"}),
        ("f", {"type": "object", "properties": {"a": {"type": "nonsense"}}}),
    ],
)
def test_both_refuse_a_bad_tool(name: str, schema: dict[str, Any]):
    declared = {"functionDeclarations": [{"name": name, "parametersJsonSchema": schema}]}
    function = {"type": "function", "function": {"name": name, "parameters": schema}}

    assert gemini({"contents": [HI], "tools": [declared]})[0] == 400
    assert openai({"messages": [ASK], "tools": [function]})[0] == 400


def test_both_refuse_a_missing_key_and_an_unknown_model():
    with GeminiWire() as wire:
        path = f"{wire.url}/v1/models/gemini-3.8-flash:streamGenerateContent"
        assert httpx2.post(path, json={"contents": [HI]}).status_code == 403
    with OpenAIWire() as wire:
        path = f"{wire.url}/chat/completions"
        assert httpx2.post(path, json={"messages": [ASK]}).status_code == 401

    assert gemini({"contents": [HI]}, model="gemini-0")[0] == 404
    assert openai({"messages": [ASK], "model": "gpt-0"})[0] == 404
