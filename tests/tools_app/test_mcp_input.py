"""Tests how the definition of an MCP server is validated."""

from __future__ import annotations

import pytest

from tools_app.api.tools import McpServerSerializer
from tools_app.mcp.servers import McpServerInput
from tools_app.models import McpServer

SERVERS = "/api/v1/tools/mcp-servers/"


def test_the_serializer_matches_the_input_model():
    fields = McpServerSerializer().get_fields()

    described = {name for name, field in fields.items() if not field.read_only}
    assert described == set(McpServerInput.model_fields)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"name": "Yard", "url": "https://a.example"}, "name"),
        ({"name": "a:b", "url": "https://a.example"}, "name"),
        ({"name": "yard"}, "needs an address"),
        ({"name": "yard", "url": "ftp://a.example"}, "http://"),
        ({"name": "yard", "url": "https://me:pass@a.example"}, "password"),
        ({"name": "yard", "url": "https://a.example/?token=abcdefgh12345"}, "shown and logged"),
        ({"name": "yard", "url": "https://{{vault:A}}.example"}, ""),
        ({"name": "yard", "url": "https://a.example", "headers": {"Authorization": "Bearer abc"}}, "vault"),
        ({"name": "yard", "url": "https://a.example", "headers": {"X-Api-Key": "abc"}}, "vault"),
        ({"name": "yard", "url": "https://a.example", "headers": {"X-A": "sk-0123456789abcdef"}}, "vault"),
        ({"name": "yard", "url": "https://a.example", "headers": {"Host": "b.example"}}, "set by Switchyard itself"),
        ({"name": "yard", "url": "https://a.example", "headers": {"X-A": "a\r\nB: c"}}, "printable"),
        ({"name": "yard", "transport": "stdio"}, "needs a command"),
        ({"name": "yard", "url": "https://a.example", "timeout_seconds": 601}, "timeout_seconds"),
    ],
)  # fmt: skip
def test_an_invalid_server_is_refused_with_a_reason(api, fields, complaint):
    answer = api.post(SERVERS, fields, format="json")

    assert answer.status_code == 400
    assert complaint in answer.text
    assert not McpServer.objects.exists()
