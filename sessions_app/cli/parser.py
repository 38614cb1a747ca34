"""What can be typed after `manage.py agent`."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from functools import partial
from typing import Any, NoReturn
from uuid import UUID

import orjson
from django.core.management.base import CommandError, CommandParser

from sessions_app.cli import agents, approvals, logs, orchestrator, resources, sessions
from sessions_app.cli.desk import Act
from sessions_app.models import Approval, ResourceAttachment, Run


def complain(parser: CommandParser, message: str) -> NoReturn:
    """Say what is wrong in one line."""
    if not parser.called_from_command_line:
        raise CommandError(f"Error: {message}")
    parser.exit(2, f"{parser.prog}: {message}. Add --help to see what can be typed.\n")


class OneLineParser(CommandParser):
    def error(self, message: str) -> NoReturn:
        complain(self, message)


def session_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not the id of a session") from None


def json_object(text: str) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ArgumentTypeError(f"this is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ArgumentTypeError("this is no JSON object")
    return value


def at_least_one(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


class Commands:
    """Adds commands that all take --workspace and --json."""

    def __init__(self, parser: ArgumentParser, name: str) -> None:
        self._parsers = parser.add_subparsers(
            dest=name, required=True, metavar="COMMAND", parser_class=OneLineParser
        )

    def group(self, name: str, about: str) -> Commands:
        return Commands(
            self._parsers.add_parser(name, help=about, description=about), f"{name}_command"
        )

    def add(self, name: str, act: Act) -> ArgumentParser:
        about = act.__doc__ or ""
        parser = self._parsers.add_parser(name, help=about, description=about)
        parser.set_defaults(act=act)
        parser.add_argument("--workspace", help="its name or slug; default: the first one")
        parser.add_argument("--json", action="store_true", help="write JSON, one object a line")
        return parser


def add_commands(parser: CommandParser) -> None:
    # Django makes this parser itself; it tells of what none of the commands below knows.
    parser.error = partial(complain, parser)  # type: ignore[method-assign]
    commands = Commands(parser, "command")
    commands.add("list", agents.list_agents)
    spawn = commands.add("spawn", agents.spawn)
    spawn.add_argument("--name", required=True)
    spawn.add_argument("--provider")
    spawn.add_argument("--model")
    spawn.add_argument("--system-prompt")
    _add_session_commands(commands.group("session", "Talk to one session."))
    _about_session(commands.add("wake", sessions.wake))
    asked = commands.group("approvals", "What people are asked.").add("list", approvals.list_asked)
    asked.add_argument("--status", choices=Approval.Status.values, default="pending")
    asked.add_argument("--session", type=session_id)
    loop = commands.add("orchestrator", orchestrator.orchestrate)
    loop.add_argument("--agent", help="only sessions of this agent: its id or name")
    loop.add_argument("--watch", action="store_true", help="go on and wait for more")
    loop.add_argument("--stop-when-idle", action="store_true", help="end when nothing is due")
    loop.add_argument("--max-cycles", type=at_least_one, help="look at most so often")


def _add_session_commands(commands: Commands) -> None:
    create = commands.add("create", sessions.create)
    create.add_argument("--agent", required=True, help="its id or exact name")
    create.add_argument("--key", help="the same agent and key give the same session")
    create.add_argument("--environment", help="its id or name")
    create.add_argument("--title", default="")
    create.add_argument(
        "--outcome", type=json_object, help="JSON: statement, criteria, max_returns, grader"
    )
    send = _about_session(commands.add("send", sessions.send))
    send.add_argument("--message", required=True)
    send.add_argument("--on-busy", choices=Run.OnBusy.values, default=Run.OnBusy.FOLLOWUP.value)
    send.add_argument("--wait", action="store_true", help="write the answer")
    send.add_argument("--timeout", type=float, help="wait at most so many seconds")
    stop = _about_session(commands.add("interrupt", sessions.interrupt))
    stop.add_argument("--note", default="")
    _about_session(commands.add("status", sessions.status))
    compact = _about_session(commands.add("compact", sessions.compact))
    compact.add_argument("--keep", type=int, help="messages at the end to leave as they are")
    compact.add_argument("--target", type=int, help="tokens that the conversation may have then")
    compact.add_argument("--wait", action="store_true", help="say what came of it")
    compact.add_argument("--timeout", type=float, help="wait at most so many seconds")
    events = _about_session(commands.add("events", logs.events))
    events.add_argument("--after", type=int, default=0, help="begin after this seq")
    events.add_argument("--follow", action="store_true", help="go on until Ctrl-C")
    _about_session(commands.add("export", logs.write_export))
    _add_resource_commands(commands)
    confirm = _about_session(commands.add("confirm-tool", sessions.confirm_tool))
    confirm.add_argument("--request", required=True, help="the id of the call")
    confirm.add_argument("--decision", required=True, choices=["allow", "deny"])
    confirm.add_argument("--scope", choices=Approval.Scope.values, default="once")
    confirm.add_argument("--note", default="")
    result = _about_session(commands.add("custom-tool-result", sessions.custom_tool_result))
    result.add_argument("--request", required=True, help="the id of the call")
    result.add_argument("--output", required=True)
    result.add_argument("--error", action="store_true", help="the output says what went wrong")


def _add_resource_commands(commands: Commands) -> None:
    attach = _about_session(commands.add("attach", resources.attach_one))
    attach.add_argument("--kind", required=True, choices=ResourceAttachment.Kind.values)
    attach.add_argument("--mount-path", required=True, help="as in /workspace/data")
    attach.add_argument("--source-ref", default="", help="a name, path or address, by its kind")
    attach.add_argument("--access", choices=ResourceAttachment.Access.values, default="read_only")
    _about_session(commands.add("resources", resources.list_resources))
    detach = _about_session(commands.add("detach", resources.detach_one))
    detach.add_argument("--mount-path", required=True)


def _about_session(parser: ArgumentParser) -> ArgumentParser:
    parser.add_argument("--session", required=True, type=session_id)
    return parser
