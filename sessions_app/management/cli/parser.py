"""The command line of `manage.py agent`: its commands and their options."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from functools import partial
from typing import Any, NoReturn
from uuid import UUID

import orjson
from django.core.management.base import CommandError, CommandParser

from sessions_app.management.cli import commands as cli
from sessions_app.management.cli.commands import Act
from sessions_app.models import Approval, ResourceAttachment, Run


def fail(parser: CommandParser, message: str) -> NoReturn:
    """Exit with a one-line error."""
    if not parser.called_from_command_line:
        raise CommandError(f"Error: {message}")
    parser.exit(2, f"{parser.prog}: {message}. Add --help to see what can be typed.\n")


class OneLineParser(CommandParser):
    def error(self, message: str) -> NoReturn:
        fail(self, message)


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
        parser.add_argument("--workspace", help="name or slug; default: the first workspace")
        parser.add_argument("--json", action="store_true", help="print JSON, one object per line")
        return parser


def add_commands(parser: CommandParser) -> None:
    # Django creates this parser; it reports options that no command below knows.
    parser.error = partial(fail, parser)  # type: ignore[method-assign]
    commands = Commands(parser, "command")
    commands.add("list", cli.list_agents)
    spawn = commands.add("spawn", cli.spawn)
    spawn.add_argument("--name", required=True)
    spawn.add_argument("--provider")
    spawn.add_argument("--model")
    spawn.add_argument("--system-prompt")
    _add_session_commands(commands.group("session", "Work with one session."))
    _about_session(commands.add("wake", cli.wake))
    asked = commands.group("approvals", "Approvals that people have to answer.").add(
        "list", cli.list_approvals
    )
    asked.add_argument("--status", choices=Approval.Status.values, default="pending")
    asked.add_argument("--session", type=session_id)
    loop = commands.add("orchestrator", cli.orchestrate)
    loop.add_argument("--agent", help="id or name: only sessions of this agent")
    loop.add_argument("--watch", action="store_true", help="keep running and wait for work")
    loop.add_argument("--stop-when-idle", action="store_true", help="stop when nothing is due")
    loop.add_argument("--max-cycles", type=at_least_one, help="stop after this many cycles")


def _add_session_commands(commands: Commands) -> None:
    create = commands.add("create", cli.create)
    create.add_argument("--agent", required=True, help="its id or exact name")
    create.add_argument("--key", help="the same agent and key give the same session")
    create.add_argument("--environment", help="its id or name")
    create.add_argument("--title", default="")
    create.add_argument(
        "--outcome", type=json_object, help="JSON: statement, criteria, max_returns, grader"
    )
    send = _about_session(commands.add("send", cli.send))
    send.add_argument("--message", required=True)
    send.add_argument("--on-busy", choices=Run.OnBusy.values, default=Run.OnBusy.FOLLOWUP.value)
    send.add_argument("--wait", action="store_true", help="wait and print the answer")
    send.add_argument("--timeout", type=float, help="wait at most so many seconds")
    stop = _about_session(commands.add("interrupt", cli.interrupt))
    stop.add_argument("--note", default="")
    _about_session(commands.add("status", cli.status))
    compact = _about_session(commands.add("compact", cli.compact))
    compact.add_argument("--keep", type=int, help="number of newest messages to keep")
    compact.add_argument(
        "--target", type=int, help="tokens that the conversation may have afterwards"
    )
    compact.add_argument("--wait", action="store_true", help="wait and print the result")
    compact.add_argument("--timeout", type=float, help="wait at most so many seconds")
    events = _about_session(commands.add("events", cli.events))
    events.add_argument("--after", type=int, default=0, help="start after this seq")
    events.add_argument("--follow", action="store_true", help="continue until Ctrl-C")
    _about_session(commands.add("export", cli.write_export))
    _add_resource_commands(commands)
    confirm = _about_session(commands.add("confirm-tool", cli.confirm_tool))
    confirm.add_argument("--request", required=True, help="the id of the call")
    confirm.add_argument("--decision", required=True, choices=["allow", "deny"])
    confirm.add_argument("--scope", choices=Approval.Scope.values, default="once")
    confirm.add_argument("--note", default="")
    result = _about_session(commands.add("custom-tool-result", cli.custom_tool_result))
    result.add_argument("--request", required=True, help="the id of the call")
    result.add_argument("--output", required=True)
    result.add_argument("--error", action="store_true", help="the output is an error message")


def _add_resource_commands(commands: Commands) -> None:
    attach = _about_session(commands.add("attach", cli.attach_resource))
    attach.add_argument("--kind", required=True, choices=ResourceAttachment.Kind.values)
    attach.add_argument("--mount-path", required=True, help="as in /workspace/data")
    attach.add_argument("--source-ref", default="", help="a name, path or address, by its kind")
    attach.add_argument("--access", choices=ResourceAttachment.Access.values, default="read_only")
    _about_session(commands.add("resources", cli.list_resources))
    detach = _about_session(commands.add("detach", cli.detach_resource))
    detach.add_argument("--mount-path", required=True)


def _about_session(parser: ArgumentParser) -> ArgumentParser:
    parser.add_argument("--session", required=True, type=session_id)
    return parser
