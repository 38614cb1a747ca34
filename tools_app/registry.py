"""The tool registry: a function with a typed argument model and a docstring becomes a tool.

At start, the `tools` and `builtin` modules and packages of every installed app are imported and
register what they define, so a later app adds tools without being imported from here.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from inspect import getdoc
from typing import Any, Literal, TypeAlias, get_type_hints

from django.apps import apps
from django.utils.module_loading import autodiscover_modules
from pydantic import BaseModel, ConfigDict, ValidationError

from agents.providers.base import JSON, RAW, ToolSpec
from tools_app.context import ToolContext
from tools_app.exceptions import ToolFailed
from tools_app.schemas import SHOWN_ERRORS, check_arguments, portable_schema, schema_of

Handler: TypeAlias = Callable[[Any, ToolContext], Any]
Permission: TypeAlias = Literal["always_allow", "always_ask"]
Ownership: TypeAlias = Literal["managed", "mcp", "custom"]


class Category(StrEnum):
    """The kind of a tool. `group:web` in a policy stands for all tools of a category."""

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
    """What a call may affect outside the conversation."""

    FILES = "files"
    COMMANDS = "commands"
    NETWORK = "network"
    PEOPLE = "people"
    MEMORY = "memory"
    SESSIONS = "sessions"
    CANVAS = "canvas"
    AGENTS = "agents"


class Arguments(BaseModel):
    """Base class of argument models. Unknown arguments are refused, not ignored."""

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
    #: The argument that patterns such as `exec(git *)` are matched against.
    subject: str = ""
    handler: Handler

    def spec(self) -> ToolSpec:
        """Return the tool as it is described to a model."""
        return ToolSpec(
            name=self.name,
            description=self.description,
            json_schema=schema_of(self.arguments),
        )

    def parse(self, raw: JSON) -> BaseModel:
        """Validate the arguments. Raise ToolFailed with a message that the model can act on."""
        if set(raw) == {RAW}:
            raise ToolFailed(
                f"The arguments of {self.name} were not a JSON object: {str(raw[RAW])[:200]!r}. "
                "Call it again with valid JSON, and with less content if it was cut off."
            )
        return self._validate(raw)

    def _validate(self, raw: JSON) -> BaseModel:
        try:
            return self.arguments.model_validate(raw)
        except ValidationError as error:
            raise ToolFailed(_describe_errors(self.name, error)) from error

    def call(self, raw: JSON, context: ToolContext) -> Any:
        """Validate the arguments and run the tool. The result can be serialised as JSON."""
        arguments = self.parse(raw)
        context.check_stopped()
        return self.handler(arguments, context)


class AnyArguments(BaseModel):
    """Arguments that a JSON Schema has validated."""

    model_config = ConfigDict(extra="allow", frozen=True)


@dataclass(frozen=True, kw_only=True)
class SchemaTool(Tool):
    """A tool whose arguments are described by a JSON Schema and not by a model."""

    schema: JSON = field(hash=False)

    def spec(self) -> ToolSpec:
        return ToolSpec(
            name=self.name, description=self.description, json_schema=portable_schema(self.schema)
        )

    def _validate(self, raw: JSON) -> BaseModel:
        check_arguments(self.name, self.schema, raw)
        return AnyArguments.model_validate(raw)


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
    """Register a function as a tool. Its name, docstring and argument model make the schema."""

    def register(handler: Handler) -> Handler:
        tool_name = name or handler.__name__
        if tool_name in registry and registry[tool_name].handler.__module__ != handler.__module__:
            raise ValueError(f"Two tools are named {tool_name!r}.")
        arguments = get_type_hints(handler)["arguments"]
        registry[tool_name] = Tool(
            name=tool_name,
            title=title or tool_name.replace("_", " ").capitalize(),
            description=getdoc(handler) or "",
            arguments=arguments,
            category=category,
            permission=permission,
            effects=frozenset(effects),
            read_only=read_only,
            # Reading twice is harmless.
            idempotent=idempotent or read_only,
            seconds=seconds,
            subject=subject or next(iter(arguments.model_fields), ""),
            handler=handler,
        )
        return handler

    return register


def discover() -> None:
    """Import the tools of every installed app."""
    for place in ("tools", "builtin"):
        autodiscover_modules(place)
        for app in apps.get_app_configs():
            package = getattr(app.module, place, None)
            for module in pkgutil.iter_modules(getattr(package, "__path__", [])):
                import_module(f"{app.name}.{place}.{module.name}")


def _describe_errors(name: str, error: ValidationError) -> str:
    faults = [
        f"{'.'.join(str(part) for part in fault['loc']) or 'arguments'}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_input=False)
    ]
    more = f" (and {len(faults) - SHOWN_ERRORS} more)" if len(faults) > SHOWN_ERRORS else ""
    return f"Invalid arguments for {name}: {'; '.join(faults[:SHOWN_ERRORS])}{more}."
