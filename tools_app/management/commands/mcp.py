"""Manages MCP servers from the command line: list, add, refresh."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from core.exceptions import Fault
from tenants.models import Workspace
from tenants.workspaces import find_workspace
from tools_app.mcp.servers import add_server, refresh
from tools_app.models import McpServer


class Command(BaseCommand):
    help = "List the MCP servers of a workspace, add one, or ask them for their tools."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        listing = verbs.add_parser("list", help="list all servers with their status")
        adding = verbs.add_parser("add", help="add a server and ask it for its tools")
        asking = verbs.add_parser("refresh", help="ask one server, or all, for their tools")
        for one in (listing, adding, asking):
            one.add_argument("--workspace", required=True, help="name or slug of the workspace")
        adding.add_argument("--name", required=True)
        adding.add_argument("--url", default="")
        adding.add_argument(
            "--command", dest="line", default="", help="the command of a stdio server"
        )
        adding.add_argument(
            "--header",
            action="append",
            default=[],
            metavar="NAME:VALUE",
            help="name a secret of the vault as {{vault:NAME}}; may be repeated",
        )
        asking.add_argument("--name", default="", help="the server; all servers if left out")

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = find_workspace(options["workspace"])
        if workspace is None:
            raise CommandError(f"There is no workspace {options['workspace']!r}.")
        try:
            for server in getattr(self, options["verb"])(workspace, options):
                self.stdout.write(line_of(server))
        except Fault as fault:
            raise CommandError(fault.detail) from fault

    def list(self, workspace: Workspace, options: dict[str, Any]) -> Iterable[McpServer]:
        return [*McpServer.objects.for_workspace(workspace.pk)]

    def add(self, workspace: Workspace, options: dict[str, Any]) -> Iterable[McpServer]:
        headers = dict(header_of(text) for text in options["header"])
        fields = {
            "name": options["name"],
            "transport": "stdio" if options["line"] else "http",
            "url": options["url"],
            "command": options["line"],
            "headers": headers,
        }
        return [refresh(add_server(workspace_id=workspace.pk, fields=fields))]

    def refresh(self, workspace: Workspace, options: dict[str, Any]) -> Iterable[McpServer]:
        rows = McpServer.objects.for_workspace(workspace.pk)
        if options["name"]:
            rows = rows.filter(name=options["name"])
        found = [*rows]
        if not found:
            raise CommandError("There is no such MCP server.")
        return [refresh(server) for server in found]


def header_of(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise CommandError(f"Write a header as NAME:VALUE, not {text!r}.")
    return name.strip(), value.strip()


def line_of(server: McpServer) -> str:
    """Describe a server in one line, with its error."""
    state = server.status if server.enabled else "off"
    where = server.url or server.command
    line = f"{server.name}\t{state}\t{len(server.tools)} tools\t{where}"
    return f"{line}\t{server.error}" if server.error else line
