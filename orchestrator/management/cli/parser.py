"""The arguments of `manage.py workflows`."""

from __future__ import annotations

from argparse import ArgumentParser
from functools import partial

from django.core.management.base import CommandParser

from orchestrator.management.cli import commands as commands_module
from orchestrator.management.cli import triggers
from orchestrator.models import Workflow, WorkflowTrigger
from sessions_app.management.cli import Commands, at_least_one, fail


def add_commands(parser: CommandParser) -> None:
    # Django creates this parser; it reports what none of the commands below accepts.
    parser.error = partial(fail, parser)  # type: ignore[method-assign]
    commands = Commands(parser, "command")
    listing = commands.add("list", commands_module.list_workflows)
    listing.add_argument("--name", help="only this workflow")
    listing.add_argument("--status", choices=Workflow.Status.values)
    commands.add("definitions", commands_module.list_definitions)
    start = commands.add("start", commands_module.start)
    start.add_argument("name", help="a registered workflow")
    start.add_argument("--params", default="{}", help="a JSON object")
    start.add_argument("--id", help="your own id for it; the same id starts it once")
    _add_workflow(commands.add("status", commands_module.status))
    events = _add_workflow(commands.add("events", commands_module.events))
    events.add_argument("--after", type=int, default=0, help="start after this seq")
    events.add_argument("--follow", action="store_true", help="continue until it is over")
    send = _add_workflow(commands.add("send", commands_module.send))
    send.add_argument("--type", required=True)
    send.add_argument("--payload", default="null", help="any JSON")
    for name, act in {"approve": commands_module.approve, "reject": commands_module.reject}.items():
        _add_workflow(commands.add(name, act)).add_argument("--note", default="")
    _add_workflow(commands.add("pause", commands_module.pause))
    _add_workflow(commands.add("resume", commands_module.resume))
    terminate = _add_workflow(commands.add("terminate", commands_module.terminate))
    terminate.add_argument("--rollback", action="store_true", help="undo what it did")
    restart = _add_workflow(commands.add("restart", commands_module.restart))
    restart.add_argument("--from-step", default="", help="keep the results before this step")
    restart.add_argument("--nth", type=at_least_one, default=1, help="which use of that name")
    _add_trigger_commands(commands.group("triggers", "Times and webhooks that start workflows."))


def _add_trigger_commands(commands: Commands) -> None:
    commands.add("list", triggers.list_triggers)
    add = commands.add("add", triggers.add)
    add.add_argument("name", help="its name")
    add.add_argument("--start", default="canvas", help="a registered workflow")
    add.add_argument("--agent", help="the agent whose canvas to run, by name or id")
    add.add_argument(
        "--params", default="{}", help="a JSON object; {{input}} stands for the message"
    )
    add.add_argument("--cron", default="", help="a cron expression, such as '0 9 * * 1-5'")
    add.add_argument("--every", type=at_least_one, help="an interval in seconds")
    add.add_argument("--timezone", default="UTC")
    add.add_argument("--verify", choices=WorkflowTrigger.Verify.values, default="signature")
    for name in ("pause", "resume", "remove", "history"):
        act = commands.add(name, getattr(triggers, name))
        act.add_argument("trigger", help="its id or name")


def _add_workflow(parser: ArgumentParser) -> ArgumentParser:
    parser.add_argument("workflow", help="its id, or the id that you gave it")
    return parser
