"""A real MCP server over streamable HTTP, to run in a separate process.

`python -m tests.wire.mcp_server PORT NOTES`: NOTES is a file in which it writes what it was asked.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

HOST = "127.0.0.1"
PIXEL = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4"
    b"\x89\x00\x00\x00\rIDATx\x9cc\xf8\x0f\x00\x00\x01\x01\x00\x05\x18\xd8N\x00\x00\x00\x00IEND\xaeB`\x82"
)
server = MCPServer("Yard tools", version="1.2.3")
notes = Path(sys.argv[2]) if len(sys.argv) > 2 else Path("/dev/null")
last_headers: dict[str, str] = {}


def note(text: str) -> None:
    with notes.open("a") as file:
        file.write(f"{text}\n")


@server.tool()
def echo(text: str) -> str:
    """Say it again."""
    note(f"echo {text}")
    return f"You said {text}"


@server.tool()
def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


@server.tool()
def sleep(seconds: float) -> str:
    """Take a while."""
    note("sleep began")
    time.sleep(seconds)
    note("sleep ended")
    return "slept"


@server.tool()
def fail(reason: str) -> str:
    """Fail for this reason."""
    raise ToolError(reason)


@server.tool()
def flood(characters: int) -> str:
    """Say very much."""
    return "x" * characters


@server.tool(structured_output=False)
def picture() -> list[Any]:
    """Draw something."""
    return ["Here it is.", Image(data=PIXEL, format="png")]


@server.tool()
def whisper() -> str:
    """Say which credential came."""
    return f"You came with {last_headers.get('authorization')}"


def remembering(app: Any) -> Any:
    """Wrap the application to record the credential of every request."""

    async def call(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            last_headers.update(headers)
            note(f"authorization {headers.get('authorization')}")
        await app(scope, receive, send)

    return call


if __name__ == "__main__":
    application = remembering(server.streamable_http_app())
    uvicorn.run(application, host=HOST, port=int(sys.argv[1]), log_level="warning")
