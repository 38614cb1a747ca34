"""What can be typed after `manage.py workflows`."""

from __future__ import annotations

from argparse import ArgumentParser
from functools import partial

from django.core.management.base import CommandParser

from orchestrator.cli import commands as acts
from orchestrator.cli import triggers
from orchestrator.models import Workflow, WorkflowTrigger
from sessions_app.cli.parser import Commands, at_least_one, complain


def add_commands(parser: CommandParser) -> None:
    # Django makes this parser itself; it tells of what none of the commands below knows.
    parser.error = partial(complain, parser)  # type: ignore[method-assign]
    commands = Commands(parser, "command")
    listing = commands.add("list", acts.list_workflows)
    listing.add_argument("--name", help="only this workflow")
    listing.add_argument("--status", choices=Workflow.Status.values)
    commands.add("definitions", acts.list_definitions)
    start = commands.add("start", acts.start)
    start.add_argument("name", help="a registered workflow")
    start.add_argument("--params", default="{}", help="a JSON object")
    start.add_argument("--id", help="your own name for it; the same starts it once")
    _about(commands.add("status", acts.status))
    events = _about(commands.add("events", acts.events))
    events.add_argument("--after", type=int, default=0, help="begin after this seq")
    events.add_argument("--follow", action="store_true", help="go on until it is over")
    send = _about(commands.add("send", acts.send))
    send.add_argument("--type", required=True)
    send.add_argument("--payload", default="null", help="any JSON")
    for name, act in {"approve": acts.approve, "reject": acts.reject}.items():
        _about(commands.add(name, act)).add_argument("--note", default="")
    _about(commands.add("pause", acts.pause))
    _about(commands.add("resume", acts.resume))
    end = _about(commands.add("terminate", acts.terminate))
    end.add_argument("--rollback", action="store_true", help="undo what it did")
    again = _about(commands.add("restart", acts.restart))
    again.add_argument("--from-step", default="", help="keep the results before this step")
    again.add_argument("--nth", type=at_least_one, default=1, help="which use of that name")
    _add_trigger_commands(commands.group("triggers", "What starts workflows by itself."))


def _add_trigger_commands(commands: Commands) -> None:
    commands.add("list", triggers.list_triggers)
    add = commands.add("add", triggers.add)
    add.add_argument("name", help="what people call it")
    add.add_argument("--start", default="canvas", help="a registered workflow")
    add.add_argument("--agent", help="whose canvas, by name or id")
    add.add_argument("--params", default="{}", help="a JSON object; {{input}} is what came in")
    add.add_argument("--cron", default="", help="when, such as '0 9 * * 1-5'")
    add.add_argument("--every", type=at_least_one, help="when, in seconds")
    add.add_argument("--timezone", default="UTC")
    add.add_argument("--verify", choices=WorkflowTrigger.Verify.values, default="signature")
    for name in ("pause", "resume", "remove", "history"):
        act = commands.add(name, getattr(triggers, name))
        act.add_argument("trigger", help="its id or name")


def _about(parser: ArgumentParser) -> ArgumentParser:
    parser.add_argument("workflow", help="its id, or the one that you gave it")
    return parser
