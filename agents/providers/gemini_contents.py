"""The conversation in Gemini's words: contents that alternate, calls with their signatures."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator

from google.genai import types

from agents.providers.base import Message, ModelRequest, ToolCall, ToolResult
from agents.providers.names import wire_name

#: Google's own word for "this call was not made by a Gemini model, so it has no signature".
UNSIGNED = b"skip_thought_signature_validator"
#: Gemini wants the user to speak first; a shortened history may begin with the model.
OPENING = "[Earlier messages are not shown.]"
# Gemini 1 and 2 never ask for a signature; later ones refuse a step without one.
_UNSIGNED_IS_FINE = re.compile(r"(?:models/)?gemini-(?:[12]\b|pro|flash)")


def contents_of(request: ModelRequest) -> list[types.Content]:
    """The messages as `user` and `model` contents in turn, neighbours of one role merged."""
    contents: list[types.Content] = []
    for message in request.messages:
        role = "model" if message.role == "assistant" else "user"
        parts = list(_parts(message, request.model))
        if not parts:
            continue
        if role == "model" and not contents:
            contents.append(types.Content(role="user", parts=[types.Part(text=OPENING)]))
        if contents and contents[-1].role == role and contents[-1].parts is not None:
            contents[-1].parts.extend(parts)
        else:
            contents.append(types.Content(role=role, parts=parts))
    return contents


def config_of(request: ModelRequest) -> types.GenerateContentConfig:
    """Instructions, tools and limits. The harness runs tools; the SDK never does."""
    declarations = [
        types.FunctionDeclaration(
            name=wire_name(tool.name),
            description=tool.description,
            parameters_json_schema=tool.json_schema,
        )
        for tool in request.tools
    ]
    return types.GenerateContentConfig(
        system_instruction=request.instructions or None,
        tools=[types.Tool(function_declarations=declarations)] if declarations else None,
        temperature=request.temperature,
        max_output_tokens=request.max_tokens,
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )


def _parts(message: Message, model: str) -> Iterator[types.Part]:
    match message.role:
        case "user":
            if message.text:
                yield types.Part(text=message.text)
        case "tool":
            yield from (_response_part(result) for result in message.results)
        case "assistant":
            if message.text:
                signature = _signature(message.provider_state)
                yield types.Part(text=message.text, thought_signature=signature)
            yield from _call_parts(message.calls, model)


def _call_parts(calls: tuple[ToolCall, ...], model: str) -> Iterator[types.Part]:
    # Of calls made side by side only the first is signed, so one signature serves the step.
    unsigned = not any(_signature(call.provider_state) for call in calls)
    stand_in = UNSIGNED if unsigned and not _UNSIGNED_IS_FINE.match(model) else None
    for call in calls:
        yield types.Part(
            function_call=types.FunctionCall(
                id=call.call_id, name=wire_name(call.name), args=call.arguments
            ),
            thought_signature=_signature(call.provider_state) or stand_in,
        )
        stand_in = None


def _response_part(result: ToolResult) -> types.Part:
    return types.Part(
        function_response=types.FunctionResponse(
            id=result.call_id,
            name=wire_name(result.name),
            response={"error" if result.is_error else "output": result.output},
        )
    )


def _signature(state: str | None) -> bytes | None:
    """The signature in a stored state; None when another provider wrote that state."""
    try:
        return b64decode(state, validate=True) if state else None
    except (binascii.Error, ValueError):
        return None
