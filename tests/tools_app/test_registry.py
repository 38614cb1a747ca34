"""Tests of tool registration and of how bad arguments are reported."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from django.apps import AppConfig, apps
from pydantic import Field

from tools_app.exceptions import ToolFailed, ToolStopped
from tools_app.registry import Arguments, Category, Effect, ToolContext, discover, registry, tool

BUILT_IN = {
    "read",
    "write",
    "edit",
    "list_directory",
    "exec",
    "web_fetch",
    "wait",
    "current_time",
}


class Greeting(Arguments):
    name: str = Field(max_length=10)
    times: int = Field(default=1, ge=1)


@pytest.fixture
def clean_registry():
    before = dict(registry)
    yield
    registry.clear()
    registry.update(before)


@pytest.fixture
def greet(clean_registry):
    @tool(category=Category.TIME, effects=[Effect.PEOPLE], seconds=3, title="Say hello")
    def greet(arguments: Greeting, context: ToolContext) -> str:
        """Greet somebody."""
        return f"Hello {arguments.name}! " * arguments.times

    return registry["greet"]


def test_the_tools_of_every_app_are_found_at_start():
    assert set(registry) >= BUILT_IN


def test_a_tool_is_its_function_docstring_and_arguments(greet, make_context):
    assert (greet.name, greet.title, greet.description) == ("greet", "Say hello", "Greet somebody.")
    assert (greet.category, greet.ownership, greet.permission) == (
        "time",
        "managed",
        "always_allow",
    )
    assert greet.effects == {"people"}
    assert greet.subject == "name"
    assert greet.call({"name": "Ada", "times": 2}, make_context()) == "Hello Ada! Hello Ada! "


def test_a_read_only_tool_is_idempotent():
    assert registry["read"].idempotent
    assert not registry["exec"].idempotent


def test_two_apps_cannot_claim_one_name(clean_registry):
    def read(arguments: Greeting, context: ToolContext) -> str:
        """Not the real one."""
        return ""

    with pytest.raises(ValueError, match="Two tools are named 'read'"):
        tool(category=Category.TIME)(read)


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        ({}, "Invalid arguments for greet: name: Field required"),
        ({"name": "x" * 11}, "name: String should have at most 10"),
        ({"name": "x", "times": "many"}, "times: Input should be a valid integer"),
        ({"name": "x", "tone": "warm"}, "tone: Extra inputs are not permitted"),
        ({"_raw": '{"name": "x'}, 'were not a JSON object: \'{"name": "x\''),
        ({"_raw": '{"name": "x'}, "with less content if it was cut off"),
    ],
)
def test_invalid_arguments_are_reported_to_the_model(greet, raw, complaint):
    with pytest.raises(ToolFailed) as caught:
        greet.parse(raw)

    assert complaint in caught.value.detail
    assert "https://" not in caught.value.detail


def test_a_stopped_call_does_not_start(greet, make_context):
    context = make_context()
    context.stopped.set()

    with pytest.raises(ToolStopped):
        greet.call({"name": "Ada"}, context)


def test_a_tools_package_of_another_app_is_discovered(tmp_path, monkeypatch, clean_registry):
    package = tmp_path / "yard_app" / "tools"
    package.mkdir(parents=True)
    (tmp_path / "yard_app" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "signals.py").write_text(
        "from tools_app.registry import Arguments, Category, ToolContext, tool\n"
        "@tool(category=Category.TIME)\n"
        "def throw_switch(arguments: Arguments, context: ToolContext) -> str:\n"
        "    'Throw a switch.'\n"
        "    return 'clack'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = __import__("yard_app")
    config = AppConfig("yard_app", module)
    monkeypatch.setitem(apps.app_configs, "yard_app", config)

    discover()

    assert registry["throw_switch"].description == "Throw a switch."
    for name in [name for name in sys.modules if name.startswith("yard_app")]:
        monkeypatch.delitem(sys.modules, name)
    assert isinstance(module, ModuleType)
