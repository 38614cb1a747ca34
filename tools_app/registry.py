"""The tool registry: a function with a typed argument model and a docstring becomes a tool.

At start, the `tools` and `builtin` modules and packages of every installed app are imported and
register what they define, so a later app or a plugin adds tools without being imported from here.
Each call gets a `ToolContext`: who makes it, and how the tool stops, reports progress and acts.
"""

from __future__ import annotations

import pkgutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from importlib import import_module
from inspect import getdoc
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_type_hints
from uuid import UUID

from pydantic import BaseModel, ConfigDict, ValidationError

from agents.providers.base import JSON, RAW, ToolSpec
from core import plugins
from tools_app.exceptions import ToolFailed, ToolStopped
from tools_app.outflow import Exposure, Outflow
from tools_app.sandbox.base import Mount, Sandbox
from tools_app.schemas import check_arguments, invalid_arguments, portable_schema, schema_of

if TYPE_CHECKING:
    from tools_app.policy.rules import PeerRight

#: How often a waiting tool checks whether it was stopped.
LOOK_UP_SECONDS = 0.1


class Parked:
    """Returned by a tool whose call goes on elsewhere, from where its result comes later.

    The tool marks its call as parked in the transaction that starts the other work.
    """


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """Says who makes a call, and how its tool stops, reports progress and acts.

    The defaults are for calls outside a session: no policy applies, nothing is tainted, and no other
    worker can interfere.
    """

    workspace_id: UUID
    session_id: UUID
    agent_id: UUID
    run_id: UUID
    #: The same across retries of one call.
    call_id: str
    #: Provisioned on first use; see `tools_app.sandbox.provisioning.LazySandbox`.
    sandbox: Sandbox
    #: The agent that a builder builds in this session.
    about_id: UUID | None = None
    #: The tools that the model knows by a line and may load.
    deferred: Mapping[str, Tool] = field(default_factory=dict)
    #: What file tools reach beside the session's own files.
    mounts: tuple[Mount, ...] = ()
    #: The person whose message is being answered, if a person sent it.
    user_id: UUID | None = None
    #: The policy's verdict on a call of this tool with other arguments: `allow`, `ask` or `deny`.
    judge: Callable[[Mapping[str, Any]], str] = lambda input: "allow"
    #: The agents whose sessions the policy lets this one list, read or send to.
    peers: Callable[[PeerRight], frozenset[UUID]] = lambda right: frozenset()
    #: Shows text to viewers while the tool is running.
    emit: Callable[[str], None] = lambda text: None
    #: Whether the session has read untrusted content by now. Asks the database at every call.
    is_tainted: Callable[[], bool] = lambda: False
    #: Called first in a transaction that writes: raises if another worker holds the session by now,
    #: and keeps others from taking it until the commit.
    fence: Callable[[], None] = lambda: None
    #: Set on interrupt or shutdown. A tool must end within a second.
    stopped: threading.Event = field(default_factory=threading.Event)
    #: On the clock of `time.monotonic()`.
    deadline: float = float("inf")

    def remaining(self) -> float:
        """Return the seconds until the deadline, never negative."""
        return max(0.0, self.deadline - time.monotonic())

    def check_stopped(self) -> None:
        """Raise if the call was stopped or its time is up."""
        if self.stopped.is_set():
            raise ToolStopped
        if not self.remaining():
            raise ToolFailed("The tool ran out of time.")

    def pause(self, seconds: float) -> None:
        """Sleep, but wake up and raise as soon as the call is stopped."""
        self.check_stopped()
        self.stopped.wait(min(seconds, self.remaining()))
        self.check_stopped()


class Category(StrEnum):
    """The kinds of tools that the product itself has; a plugin may name its own.

    `group:web` in a policy stands for all tools of a category.
    """

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


#: What an effect outside the session does, as the end of "this call would …". Files are the session's
#: own, and commands reach a network only where their tool says so.
OUTWARD: dict[Effect, str] = {
    Effect.PEOPLE: "send this text to people",
    Effect.NETWORK: "send data over the network",
    Effect.SESSIONS: "act in other sessions or at a later time",
    Effect.AGENTS: "change an agent",
    Effect.CANVAS: "change a canvas",
    Effect.MEMORY: "change what other agents and people read",
}


class Arguments(BaseModel):
    """Base class of argument models. Unknown arguments are refused, not ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Handler: TypeAlias = Callable[[Any, ToolContext], Any]
Permission: TypeAlias = Literal["always_allow", "always_ask"]
Ownership: TypeAlias = Literal["managed", "mcp", "custom"]


@dataclass(frozen=True, kw_only=True)
class Tool:
    name: str
    title: str
    description: str
    arguments: type[BaseModel]
    #: A `Category`, or the category of a plugin.
    category: str
    ownership: Ownership = "managed"
    permission: Permission = "always_allow"
    effects: frozenset[Effect] = frozenset()
    read_only: bool = False
    idempotent: bool = False
    #: The time limit of one call.
    seconds: float
    #: The argument that patterns such as `exec(git *)` are matched against.
    subject: str = ""
    #: Says what a call could carry out of the session, if its effects do not.
    outflow: Outflow | None = None
    #: Whether its results may hold text of unknown authors, which taints a session.
    untrusted: bool = False
    #: Whether each call asks a person and ends with the answer, without being run.
    asks: bool = False
    #: What a list of tools says about it, on one line. Without one, its description is used.
    line: str = ""
    #: Whether only canvases call it: models are not offered it.
    for_canvas: bool = False
    handler: Handler

    @property
    def summary(self) -> str:
        """Return one line on what the tool does."""
        return self.line or " ".join(self.description.split())

    @cached_property
    def json_schema(self) -> JSON:
        """The schema of the arguments, as every vendor accepts it."""
        return schema_of(self.arguments)

    @cached_property
    def spec(self) -> ToolSpec:
        """Return the tool as it is described to a model."""
        return ToolSpec(name=self.name, description=self.description, json_schema=self.json_schema)

    def leaves(self, input: Mapping[str, Any], exposure: Exposure) -> str:
        """Say what this call could carry out of the session or change for good; empty if nothing."""
        if self.outflow:
            return self.outflow(input, exposure)
        match self.ownership:
            case "custom":
                return "give this input to the client that runs the tool"
            case "mcp":
                # An admin who lets a server's tools run without asking has named the server.
                return "" if self.permission == "always_allow" else "send this input to its server"
            case "managed":
                return next(
                    (text for effect, text in OUTWARD.items() if effect in self.effects), ""
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
            faults = error.errors(include_url=False, include_input=False)
            places = [(fault["loc"], fault["msg"]) for fault in faults]
            raise invalid_arguments(self.name, places) from error

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

    @cached_property
    def json_schema(self) -> JSON:
        return portable_schema(self.schema)

    def _validate(self, raw: JSON) -> BaseModel:
        check_arguments(self.name, self.schema, raw)
        return AnyArguments.model_validate(raw)


registry: dict[str, Tool] = {}


def tool(
    *,
    category: str,
    permission: Permission = "always_allow",
    effects: Iterable[Effect] = (),
    read_only: bool = False,
    idempotent: bool = False,
    seconds: float = 60,
    title: str = "",
    name: str = "",
    subject: str = "",
    outflow: Outflow | None = None,
    untrusted: bool | None = None,
    asks: bool = False,
    for_canvas: bool = False,
) -> Callable[[Handler], Handler]:
    """Register a function as a tool. Its name, docstring and argument model make the schema.

    The results of a plugin's tool count as untrusted unless it says otherwise.
    """

    def register(handler: Handler) -> Handler:
        tool_name, module = name or handler.__name__, handler.__module__
        arguments = _check_tool(tool_name, handler, category)
        made = Tool(
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
            outflow=outflow,
            untrusted=bool(plugins.plugin_of(module)) if untrusted is None else untrusted,
            asks=asks,
            for_canvas=for_canvas,
            handler=handler,
        )
        plugins.add(registry, tool_name, made, kind="tool", module=module)
        return handler

    return register


def _check_tool(name: str, handler: Handler, category: str) -> type[BaseModel]:
    """Return the model of the arguments, or say what is wrong with the tool."""
    if name in registry and registry[name].handler.__module__ != handler.__module__:
        plugins.refuse("tool", f"Two tools are named {name!r}.")
    if not plugins.NAME.fullmatch(category):
        plugins.refuse("tool", f"the category {category!r} of {name} must be a lower-case word.")
    arguments = get_type_hints(handler).get("arguments")
    if not (isinstance(arguments, type) and issubclass(arguments, BaseModel)):
        plugins.refuse(
            "tool", f"{name} needs the parameters (arguments: YourArguments, context: ToolContext)."
        )
    if not getdoc(handler):
        plugins.refuse("tool", f"{name} needs a docstring, which is what the model reads.")
    return arguments


def categories() -> list[str]:
    """Return the categories of the product, then those that plugins added."""
    own = [category.value for category in Category]
    return [*own, *sorted({str(tool.category) for tool in registry.values()} - set(own))]


def discover() -> None:
    """Import the tools of every installed app."""
    for place in ("tools", "builtin"):
        plugins.import_from_apps(place)
        for app in plugins.working_apps():
            package = getattr(app.module, place, None)
            with plugins.loading(app):
                for module in pkgutil.iter_modules(getattr(package, "__path__", [])):
                    import_module(f"{app.name}.{place}.{module.name}")
