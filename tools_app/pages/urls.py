"""The addresses of the pages of tools."""

from __future__ import annotations

from django.urls import URLPattern, path

from tools_app.pages import tools
from tools_app.pages.policies import LAYERS, policies, policy_preview


def of_layer(layer: str) -> list[URLPattern]:
    """Return the patterns of the policy page of one layer."""
    where, named = f"policies/{layer}/<uuid:subject_id>/", {"layer": layer}
    return [
        path(where, policies, named, name=f"policy_of_{layer}"),
        path(f"{where}preview/", policy_preview, named, name=f"policy_preview_of_{layer}"),
    ]


urlpatterns = [
    path("policies/", policies, name="policies"),
    path("policies/preview/", policy_preview, name="policy_preview"),
    *(pattern for layer in LAYERS for pattern in of_layer(layer)),
    path("settings/mcp/", tools.mcp_servers, name="mcp"),
    path("settings/mcp/new/", tools.server_new, name="mcp_new"),
    path("settings/mcp/<uuid:server_id>/", tools.server_edit, name="mcp_edit"),
    path("settings/mcp/<uuid:server_id>/refresh/", tools.server_refresh, name="mcp_refresh"),
    path("settings/mcp/<uuid:server_id>/switch/", tools.server_switch, name="mcp_switch"),
    path("settings/mcp/<uuid:server_id>/delete/", tools.server_delete, name="mcp_delete"),
    path("settings/tools/", tools.custom_tools, name="custom_tools"),
    path("settings/tools/new/", tools.custom_tool_new, name="custom_tool_new"),
    path("settings/tools/<uuid:tool_id>/", tools.custom_tool_edit, name="custom_tool_edit"),
    path(
        "settings/tools/<uuid:tool_id>/delete/",
        tools.custom_tool_delete,
        name="custom_tool_delete",
    ),
    path("settings/skills/", tools.skills, name="skills"),
    path("settings/skills/new/", tools.skill_new, name="skill_new"),
    path("settings/skills/<uuid:skill_id>/", tools.skill_edit, name="skill_edit"),
    path("settings/skills/<uuid:skill_id>/delete/", tools.skill_delete, name="skill_delete"),
]
