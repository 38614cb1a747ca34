"""The pages of MCP servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from core.validation import submit_form
from tenants.access import authorise
from tenants.authentication import principal_of
from tools_app.mcp.discovery import refresh
from tools_app.mcp.servers import (
    LONGEST_SECONDS,
    SERVER_NAME_PATTERN,
    add_server,
    change_server,
    find_server,
)
from tools_app.models import McpServer

S = McpServer.Status
LAMPS = {S.OK: "is-done", S.DOWN: "is-failed", S.REFUSED: "is-failed", S.FAILED: "is-failed"}
REMEDIES = {
    S.DOWN: "Check that it is running and reachable from here. Switchyard tries again, and its tools stay listed.",
    S.REFUSED: "Check its headers, and the secrets that they name in the vault.",
    S.FAILED: "Check its address. MCP servers often answer under /mcp.",
}
#: Not in the template, which would read the braces as its own.
EXAMPLE = "Authorization: Bearer {{vault:TOKEN}}"
PLAIN = {"autocomplete": "off", "spellcheck": "false"}


class ServerForm(forms.Form):
    name = forms.RegexField(
        SERVER_NAME_PATTERN,
        label="Name",
        max_length=40,
        widget=forms.TextInput(attrs=PLAIN),
        help_text="Lowercase letters, digits, - and _. Its tools are called mcp:name:tool.",
        error_messages={
            "invalid": "Use lowercase letters, digits, - and _, and begin with a letter."
        },
    )
    url = forms.CharField(
        label="Address", required=False, max_length=500, widget=forms.URLInput(attrs=PLAIN)
    )
    headers = forms.CharField(
        label="Headers",
        required=False,
        max_length=20_000,
        widget=forms.Textarea(attrs={**PLAIN, "rows": 2}),
        help_text="One per line. Name a secret of the vault as {{vault:NAME}}.",
    )
    command = forms.CharField(
        label="Or a command",
        required=False,
        max_length=2_000,
        widget=forms.TextInput(attrs=PLAIN),
        help_text="For a server over stdio, instead of an address. It runs in the sandbox.",
    )
    permission = forms.ChoiceField(
        label="Its tools",
        choices=[
            ("always_ask", "Ask a person before each call"),
            ("always_allow", "Run without asking, unless a policy says otherwise"),
        ],
    )
    timeout_seconds = forms.IntegerField(
        label="Time out after (seconds)", min_value=1, max_value=LONGEST_SECONDS, initial=60
    )
    repeatable_tools = forms.CharField(
        label="May run twice after a crash",
        required=False,
        max_length=10_000,
        widget=forms.TextInput(attrs=PLAIN),
        help_text="Tools that are safe to repeat: names or globs, separated by spaces.",
    )

    def clean_headers(self) -> dict[str, str]:
        found = {}
        for line in self.cleaned_data["headers"].splitlines():
            if not line.strip():
                continue
            name, colon, value = line.partition(":")
            if not colon or not value.strip():
                raise forms.ValidationError(f"Write “Name: value”, not “{line.strip()[:60]}”.")
            found[name.strip()] = value.strip()
        return found

    def clean_repeatable_tools(self) -> list[str]:
        return list(self.cleaned_data["repeatable_tools"].split())

    def fields_of_server(self) -> dict[str, Any]:
        transport = "stdio" if self.cleaned_data["command"] else "http"
        return {**self.cleaned_data, "transport": transport}


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A server as the page shows it."""

    server: McpServer
    state: str
    lamp: str
    remedy: str


def panel(server: McpServer) -> Panel:
    if not server.enabled:
        return Panel(server=server, state="Switched off", lamp="", remedy="")
    status = S(server.status)
    return Panel(
        server=server,
        state=status.label,
        lamp=LAMPS.get(status, ""),
        remedy=REMEDIES.get(status, ""),
    )


@require_safe
def servers(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
    panels = [panel(row) for row in McpServer.objects.for_workspace(workspace_id)]
    context = {
        "panels": panels,
        "may_admin": principal.may("admin"),
        "may_build": principal.may("build"),
        "form": ServerForm(),
        "example_header": EXAMPLE,
    }
    return render(request, "pages/mcp/servers.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def server_new(request: HttpRequest) -> HttpResponse:
    """Add a server, then ask it for its tools."""
    principal = principal_of(request)
    workspace_id = authorise(principal, "admin")
    form = ServerForm(request.POST or None)
    made = submit_form(
        form,
        lambda: add_server(
            workspace_id=workspace_id, fields=form.fields_of_server(), created_by=principal.user
        ),
    )
    if made is None:
        context = {"form": form, "example_header": EXAMPLE}
        return render(request, "pages/mcp/new.html", context, status=400 if form.errors else 200)
    add_result_message(request, refresh(made), "was added")
    return redirect("mcp")


@require_http_methods(["GET", "HEAD", "POST"])
def server_edit(request: HttpRequest, server_id: UUID) -> HttpResponse:
    server = get_server_or_404(request, server_id, "admin")
    current = {
        **{name: getattr(server, name) for name in ServerForm.base_fields},
        "headers": "\n".join(f"{name}: {value}" for name, value in server.headers.items()),
        "repeatable_tools": " ".join(server.repeatable_tools),
    }
    form = ServerForm(request.POST or None, initial=current)
    changed = submit_form(form, lambda: change_server(server, form.fields_of_server()))
    if changed is None:
        context = {"form": form, "server": server, "example_header": EXAMPLE}
        return render(request, "pages/mcp/edit.html", context, status=400 if form.errors else 200)
    add_result_message(request, refresh(changed), "was saved")
    return redirect("mcp")


@require_POST
def server_refresh(request: HttpRequest, server_id: UUID) -> HttpResponse:
    add_result_message(
        request, refresh(get_server_or_404(request, server_id, "build")), "was refreshed"
    )
    return redirect("mcp")


@require_POST
def server_switch(request: HttpRequest, server_id: UUID) -> HttpResponse:
    server = get_server_or_404(request, server_id, "admin")
    changed = change_server(server, {"enabled": request.POST.get("on") == "1"})
    state = "on" if changed.enabled else "off. Agents can no longer use its tools"
    messages.success(request, f"{server.name} was switched {state}.")
    return redirect("mcp")


@require_POST
def server_delete(request: HttpRequest, server_id: UUID) -> HttpResponse:
    server = get_server_or_404(request, server_id, "admin")
    server.delete()
    messages.success(request, f"{server.name} and its tools were deleted.")
    return redirect("mcp")


def get_server_or_404(request: HttpRequest, server_id: UUID, verb: Any) -> McpServer:
    return find_server(authorise(principal_of(request), verb), server_id)


def add_result_message(request: HttpRequest, server: McpServer, done: str) -> None:
    """Tell what was done, and how the server answered."""
    if server.status == S.OK:
        count = len(server.tools)
        tools = f"{count} tool{'' if count == 1 else 's'}"
        messages.success(request, f"{server.name} {done} and offers {tools}.")
    else:
        messages.error(request, f"{server.name} {done}, but it does not work: {server.error}")
