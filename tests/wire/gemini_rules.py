"""The rules by which Gemini refuses requests, with its messages. Every request is checked whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.wire.answers import JSON, BadRequest
from tests.wire.contents import check_content
from tests.wire.schemas import check_tool, only_known

NAME = r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"
#: "skip_thought_signature_validator" in base64, which Google accepts for foreign calls.
SKIP = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="

REQUEST_FIELDS = frozenset(
    {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "safetySettings"}
)
CONTENT_FIELDS = frozenset({"role", "parts"})
PART_DATA = frozenset({"text", "functionCall", "functionResponse", "inlineData", "fileData"})
#: Google accepts both spellings of a field; its SDK sends the second.
SCHEMA_FIELDS = ("parametersJsonSchema", "parameters_json_schema")
DECLARATION_FIELDS = frozenset({"name", "description", "parameters", "response", *SCHEMA_FIELDS})
PART_FIELDS = PART_DATA | {"thought", "thoughtSignature"}


def check_request(body: JSON, model: str, signatures: Mapping[str, str]) -> None:
    """Raise the error that Gemini would answer. `signatures` holds the issued ones, by call."""
    only_known(body, REQUEST_FIELDS, "request")
    contents = body.get("contents")
    if not isinstance(contents, list) or not contents:
        raise BadRequest("GenerateContentRequest.contents: contents is not specified")
    for number, content in enumerate(contents):
        _check_content(content, number)
    _check_turns(contents)
    _check_signatures(contents, model, signatures)
    _check_tools(body.get("tools") or [])
    _check_limits(body.get("generationConfig") or {}, model)


def _check_content(content: JSON, number: int) -> None:
    only_known(content, CONTENT_FIELDS, f"contents[{number}]")
    if content.get("role") not in {"user", "model"}:
        raise BadRequest("Please use a valid role: user, model.")
    if not content.get("parts"):
        raise BadRequest(
            "Unable to submit request because it must include at least one parts field"
        )
    for part in content["parts"]:
        only_known(part, PART_FIELDS, f"contents[{number}].parts")
        if len(PART_DATA & set(part)) != 1:
            raise BadRequest(
                f"GenerateContentRequest.contents[{number}].parts: must have one initialized field"
            )
        _check_part(part, content["role"])


def _check_part(part: JSON, role: str) -> None:
    if part.get("text") == "" and not part.get("thoughtSignature"):
        raise BadRequest("Unable to submit request because it must have a text parameter.")
    if inline := part.get("inlineData"):
        # Google accepts both spellings, and both alphabets of base64.
        data = str(inline.get("data")).translate(str.maketrans("-_", "+/"))
        check_content(inline.get("mimeType") or inline.get("mime_type"), data, "inline_data")
    if "functionCall" in part and role != "model":
        raise BadRequest("Please ensure that function call turn has the role model.")
    if "functionResponse" in part:
        if role != "user":
            raise BadRequest("Please ensure that function response turn has the role user.")
        if not isinstance(part["functionResponse"].get("response"), dict):
            raise BadRequest("function_response.response: must be an object")


def _check_turns(contents: list[JSON]) -> None:
    if contents[0]["role"] != "user":
        raise BadRequest("Please ensure that multiturn requests begin with a user turn.")
    if contents[-1]["role"] != "user":
        raise BadRequest("Please ensure that multiturn requests end with a user turn.")
    for before, after in zip([None, *contents], contents, strict=False):
        if before and before["role"] == after["role"]:
            raise BadRequest(
                "Please ensure that multiturn requests alternate between user and model."
            )
        _check_pair(before, after)


def _check_pair(before: JSON | None, after: JSON) -> None:
    """Require one response in the next content for every call, and a call for every response."""
    calls = _all(before, "functionCall") if before else []
    responses = _all(after, "functionResponse")
    if responses and not calls:
        raise BadRequest(
            "Please ensure that function response turn comes immediately after a function call turn."
        )
    if len(calls) != len(responses):
        raise BadRequest(
            "Please ensure that the number of function response parts is equal to the number of "
            "function call parts of the function call turn."
        )
    asked = Counter((call.get("id"), call["name"]) for call in calls)
    told = Counter((response.get("id"), response["name"]) for response in responses)
    if asked != told:
        raise BadRequest("Function responses do not match the function calls of the turn before.")


def _check_signatures(contents: list[JSON], model: str, issued: Mapping[str, str]) -> None:
    for number, content in enumerate(contents):
        calls = [part for part in content["parts"] if "functionCall" in part]
        for place, part in enumerate(calls):
            call, sent = part["functionCall"], part.get("thoughtSignature")
            expected = issued.get(call.get("id", ""))
            if expected and sent and sent not in {expected, SKIP}:
                raise BadRequest("Corrupted thought signature.")
            # From the third generation on the first call of every step must be signed.
            needed = expected or (place == 0 and not model.startswith(("gemini-1", "gemini-2")))
            if needed and not sent:
                raise BadRequest(
                    f"Function call `{call['name']}` in the {number}. content block is missing a "
                    "thought_signature in functionCall parts."
                )


def _check_tools(tools: list[JSON]) -> None:
    seen: set[str] = set()
    for tool in tools:
        for declared in tool.get("functionDeclarations") or []:
            only_known(declared, DECLARATION_FIELDS, "tools.function_declarations")
            schemas = [declared[field] for field in SCHEMA_FIELDS if field in declared]
            if len(schemas) + ("parameters" in declared) > 1:
                raise BadRequest("parameters and parameters_json_schema are mutually exclusive.")
            schema = schemas[0] if schemas else None
            check_tool(declared.get("name"), schema, pattern=NAME, seen=seen)


def _check_limits(config: JSON, model: str) -> None:
    if "responseJsonSchema" in config and config.get("responseMimeType") != "application/json":
        raise BadRequest("A response schema needs the response MIME type application/json.")
    _check_thinking(config.get("thinkingConfig") or {}, model)
    if not 0 <= config.get("temperature", 1) <= 2:
        raise BadRequest("generation_config.temperature must be in the range [0.0, 2.0]")
    if config.get("maxOutputTokens", 1) < 1:
        raise BadRequest("max_output_tokens must be positive.")


def _check_thinking(config: JSON, model: str) -> None:
    only_known(
        config, frozenset({"include_thoughts", "thinking_budget", "thinking_level"}), "config"
    )
    is_old = model.startswith("gemini-2.")
    if "thinking_level" in config and (is_old or "thinking_budget" in config):
        raise BadRequest("Thinking level is not supported for this model.")
    if config.get("thinking_level") == "MINIMAL" and "pro" in model:
        raise BadRequest("Thinking level MINIMAL is not supported for this model.")
    if config.get("thinking_budget") == 0 and (not is_old or "pro" in model):
        raise BadRequest("Budget 0 is invalid. This model only works in thinking mode.")


def _all(content: JSON, kind: str) -> list[dict[str, Any]]:
    return [part[kind] for part in content["parts"] if kind in part]
