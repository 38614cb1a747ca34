"""The named sets of tools that an agent starts from."""

from __future__ import annotations

DEFAULT_PROFILE = "coding"

#: Names and groups. Time and skills change nothing, so every profile has them; waiting holds a
#: lane, so the smallest one does without it. MCP and custom tools were added by somebody on
#: purpose, who said whether they ask, so only the smallest profile leaves them out. `exec` is part
#: of coding work and always asks until a rule of the agent says otherwise.
PROFILES: dict[str, tuple[str, ...]] = {
    "minimal": (
        "read",
        "web_search",
        "web_fetch",
        "memory_search",
        "memory_get",
        "current_time",
        "group:skills",
    ),
    "coding": (
        "group:filesystem",
        "group:web",
        "group:memory",
        "group:exec",
        "group:time",
        "group:skills",
        "group:mcp",
        "group:custom",
    ),
    "messaging": (
        "read",
        "group:messaging",
        "group:web",
        "group:memory",
        "group:time",
        "group:skills",
        "group:mcp",
        "group:custom",
    ),
    "full": ("*",),
}
