"""The tool registry: a function with a typed argument model and a docstring becomes a tool.

Every installed app's `tools.py`, or each module of its `tools/` package, is imported at start and
registers what it defines, so that an app to the right adds tools without being imported from here.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from inspect import getdoc
from typing import Any, Literal, TypeAlias, get_type_hints

from django.apps import apps
from django.utils.module_loading import autodiscover_modules
from pydantic import BaseModel, ConfigDict, ValidationError

from agents.providers.base import JSON, RAW, ToolSpec
from config.faults import ToolFailed
from tools_app.context import ToolContext
from tools_app.schema import schema_of

__all__ = [
    "Arguments",
    "Category",
    "Effect",
    "Tool",
    "ToolContext",
    "discover",
    "registry",
    "tool",
]

SHOWN_ERRORS = 5

Handler: TypeAlias = Callable[[Any, ToolContext], Any]
Permission: TypeAlias = Literal["always_allow", "always_ask"]
Ownership: TypeAlias = Literal["managed", "mcp", "custom"]


class Category(StrEnum):
    """What kind of thing a tool does; `group:web` in a policy names all tools of a category."""

    FILESYSTEM = "filesystem"
    WEB = "web"
    MEMORY = "memory"
    SESSION = "session"
    CANVAS = "canvas"
    EXEC = "exec"
    MESSAGING = "messaging"
    TIME = "time"
    SKILLS = "skills"
    BUILDER = "builder"
    MCP = "mcp"
    CUSTOM = "custom"


class Effect(StrEnum):
    """What a call may touch outside the conversation."""

    FILES = "files"
    COMMANDS = "commands"
    NETWORK = "network"
    PEOPLE = "people"
    MEMORY = "memory"
    SESSIONS = "sessions"
    CANVAS = "canvas"
    AGENTS = "agents"


class Arguments(BaseModel):
    """Base of argument models. A name that the tool does not know is told, not ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, kw_only=True)
class Tool:
    name: str
    title: str
    description: str
    arguments: type[BaseModel]
    category: Category
    ownership: Ownership = "managed"
    permission: Permission = "always_allow"
    effects: frozenset[Effect] = frozenset()
    read_only: bool = False
    idempotent: bool = False
    #: The time limit of one call.
    seconds: float
    #: The argument that patterns such as `exec(git *)` look at.
    subject: str = ""
    handler: Handler

    def spec(self) -> ToolSpec:
        """The tool as a model is told of it."""
        return ToolSpec(
            name=self.name,
            description=self.description,
            json_schema=schema_of(self.arguments),
        )

    def parse(self, raw: JSON) -> BaseModel:
        """The checked arguments, or a complaint that the model can act on."""
        if set(raw) == {RAW}:
            raise ToolFailed(
                f"The arguments of {self.name} were not a JSON object: {str(raw[RAW])[:200]!r}. "
                "Call it again with valid JSON, and with less at once if it broke off."
            )
        return self._fitting(raw)

    def _fitting(self, raw: JSON) -> BaseModel:
        try:
            return self.arguments.model_validate(raw)
        except ValidationError as error:
            raise ToolFailed(_complaint(self.name, error)) from error

    def call(self, raw: JSON, context: ToolContext) -> Any:
        """Check the arguments and run the tool. Its answer can be written as JSON."""
        arguments = self.parse(raw)
        context.check_stopped()
        return self.handler(arguments, context)


registry: dict[str, Tool] = {}


def tool(
    *,
    category: Category,
    permission: Permission = "always_allow",
    effects: Iterable[Effect] = (),
    read_only: bool = False,
    idempotent: bool = False,
    seconds: float = 60,
    title: str = "",
    name: str = "",
    subject: str = "",
) -> Callable[[Handler], Handler]:
    """Register a function as a tool: its name, docstring and argument model are the schema."""

    def register(handler: Handler) -> Handler:
        known = name or handler.__name__
        if known in registry and registry[known].handler.__module__ != handler.__module__:
            raise ValueError(f"Two tools are named {known!r}.")
        arguments = get_type_hints(handler)["arguments"]
        registry[known] = Tool(
            name=known,
            title=title or known.replace("_", " ").capitalize(),
            description=getdoc(handler) or "",
            arguments=arguments,
            category=category,
            permission=permission,
            effects=frozenset(effects),
            read_only=read_only,
            # To read twice is to read.
            idempotent=idempotent or read_only,
            seconds=seconds,
            subject=subject or next(iter(arguments.model_fields), ""),
            handler=handler,
        )
        return handler

    return register


def discover() -> None:
    """Import the tools of every installed app."""
    autodiscover_modules("tools")
    for app in apps.get_app_configs():
        package = getattr(app.module, "tools", None)
        for module in pkgutil.iter_modules(getattr(package, "__path__", [])):
            import_module(f"{app.name}.tools.{module.name}")


def _complaint(name: str, error: ValidationError) -> str:
    faults = [
        f"{'.'.join(str(part) for part in fault['loc']) or 'arguments'}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_input=False)
    ]
    more = f" (and {len(faults) - SHOWN_ERRORS} more)" if len(faults) > SHOWN_ERRORS else ""
    return f"Invalid arguments for {name}: {'; '.join(faults[:SHOWN_ERRORS])}{more}."
