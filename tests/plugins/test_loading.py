"""Tests of finding and loading plugins, and of what happens to a broken one."""

# The calls are wrong on purpose, and a plugin's errors do not leave `loading`.
# mypy: disable-error-code="arg-type, dict-item, type-var, attr-defined, unreachable"

from __future__ import annotations

from importlib import reload
from pathlib import Path

import pytest
from django.apps import AppConfig, apps
from django.core.checks import run_checks
from rest_framework.views import APIView

from agents.canvas.graph import register_node
from agents.providers.registry import PROVIDERS, ProviderFactory, register_provider
from core import plugins as loader
from core.exceptions import CannotStart, PluginInvalid
from core.plugins import Plugin, loading, plugins
from memory.embedders import register_embedder
from orchestrator.engine.definition import Workflow, workflow
from sessions_app.outcomes.criteria import register_grader
from tenants import plugin_routes
from tenants.plugin_routes import register_page, register_route, register_socket
from tests.plugins.test_extending import run
from tools_app.builtin import clock
from tools_app.registry import Arguments, Category, registry, tool
from tools_app.sandbox.provisioning import register_sandbox


@pytest.fixture
def acme(monkeypatch):
    """Pretend that an app of the product is a plugin, and return its configuration."""
    plugin = Plugin(name="agents", entry="agents")
    monkeypatch.setitem(plugins, "agents", plugin)
    return plugin


def factory(**changes) -> ProviderFactory:
    facts = {"name": "echo", "label": "Echo", "needs_key": False, "build": lambda connection: None}
    return ProviderFactory(**{**facts, **changes})


def app() -> AppConfig:
    return apps.get_app_config("agents")


def test_a_plugin_that_fails_leaves_nothing_behind(acme):
    with loading(app()):
        register_provider(factory())
        register_page(lambda request: None, title="Echo")
        raise RuntimeError("out of order")

    assert "echo" not in PROVIDERS
    assert "agents/" not in plugin_routes.routes
    assert acme.error.startswith("RuntimeError: out of order (test_loading.py, line ")
    assert acme.additions == []


def test_a_plugin_that_failed_is_skipped_and_reported(acme):
    acme.error = "ImportError: no."

    assert app() not in list(loader.working_apps())
    assert [one.msg for one in run_checks() if one.id == "switchyard.W013"] == [
        "The plugin agents was not loaded: ImportError: no."
    ]


def test_a_required_plugin_that_fails_keeps_everything_from_starting(acme):
    acme.required = True

    with pytest.raises(CannotStart, match="agents cannot be loaded: RuntimeError"), loading(app()):
        raise RuntimeError("out of order")


class Nothing(Arguments):
    """No arguments."""


def a_tool(**facts):
    def work(arguments: Nothing, context) -> str:
        """Do nothing."""
        return ""

    return lambda: tool(**{"category": "acme", "name": "nothing", **facts})(work)


def without_model(arguments, context):
    """Do nothing."""


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: register_provider("echo"), "must be a ProviderFactory"),
        (lambda: register_provider(factory(name="demo")), "'demo' is taken"),
        (lambda: register_provider(factory(name="No Name")), "lower-case letters"),
        (lambda: register_provider(factory(build=None)), "build must be callable"),
        (lambda: register_provider(factory(label="")), "needs a label"),
        (lambda: register_provider(factory(name="x" * 21)), "may have 20 characters"),
        (lambda: register_embedder("wordllama", list, dimensions=3), "'wordllama' is taken"),
        (lambda: register_embedder("small", list, dimensions=0), "from 1 to 2000 dimensions"),
        (lambda: register_page("home"), "the view must be callable"),
        (lambda: register_page(print, path="/x"), "must look like 'reports/'"),
        (lambda: register_page(print, icon="unicorn"), "there is no icon 'unicorn'"),
        (lambda: register_page(print, needs="fly"), "must be one of read, run"),
        (lambda: register_page(print, path="<uuid:id>/", title="X"), "leave the title out"),
        (lambda: register_route(print, path="x/"), "derives from rest_framework's APIView"),
        (lambda: register_route(APIView, path="x/", needs={"POST": "fly"}), "must be one of"),
        (lambda: register_socket(APIView, path="x/"), "must derive from PumpedConsumer"),
        (lambda: register_node("agent", print, config=Nothing), "'agent' is taken"),
        (lambda: register_node("fetch", print, config=dict), "must be a pydantic model"),
        (lambda: register_sandbox("local", print, title="Local"), "'local' is taken"),
        (lambda: register_sandbox("remote", print, title=""), "needs a title"),
        (lambda: register_grader("demo", print), "the name of a model provider"),
        (lambda: register_grader("words", "words"), "grade must be callable"),
        (a_tool(name="read"), "Two tools are named 'read'"),
        (a_tool(category="Not a word"), "must be a lower-case word"),
        (lambda: tool(category="acme")(without_model), "needs the parameters"),
        (lambda: workflow(name="digest")(Workflow), "exists already"),
        (lambda: workflow(name="other")(Nothing), "must be a subclass of Workflow"),
    ],
)
def test_what_is_wrong_is_said_with_the_name_of_the_plugin(acme, act, message):
    known = set(registry)

    with loading(app()):
        act()

    assert acme.error.startswith("The plugin agents registers a ")
    assert message in acme.error
    assert set(registry) == known


def test_two_pages_cannot_have_the_same_path(acme):
    with loading(app()):
        register_page(print, path="same/")
        register_page(print, path="same/")

    assert "the path 'agents/same/' is taken" in acme.error


def test_a_route_needs_a_plugin():
    with pytest.raises(PluginInvalid, match="in the module `plugin` of a plugin"):
        register_page(print)


def test_a_view_cannot_open_itself_to_everyone(acme, rf):
    class Open(APIView):
        permission_classes = []
        authentication_classes = []

    with loading(app()):
        register_route(Open, path="open/")
        view = plugin_routes.routes["agents/open/"].pattern.callback
        response = view(rf.get("/plugins/agents/open/"))
        acme.fail(RuntimeError())

    assert response.status_code == 401
    assert view.cls.authentication_classes == APIView.authentication_classes


def test_the_product_categories_stay_members_of_the_enumeration():
    assert registry["exec"].category is Category.EXEC


def test_what_a_plugin_imports_from_the_product_is_not_its_own(acme):
    acme.package = "acme"
    known = dict(registry)

    with loading(app()):
        reload(clock)
        raise RuntimeError("out of order")

    assert registry.keys() == known.keys()
    assert not registry["current_time"].untrusted


def write(folder: Path, **files: str) -> Path:
    package = folder / "acme"
    package.mkdir()
    for name, text in {"__init__": "", **files}.items():
        (package / f"{name}.py").write_text(text)
    return folder


def install(folder: Path) -> None:
    """Make the package look installed, with its entry point."""
    facts = folder / "acme-1.2.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.2\n")
    (facts / "entry_points.txt").write_text("[switchyard.plugins]\nacme = acme\n")


def list_plugins(folder: Path, required: str = "acme"):
    return run(folder, "manage.py", "plugins", required=required)


@pytest.mark.parametrize("broken", ["__init__", "models", "plugin", "tools", "workflows"])
def test_an_installed_plugin_that_is_broken_does_not_keep_the_rest_from_starting(tmp_path, broken):
    write(tmp_path, **{broken: "import a_module_that_is_missing\n"})
    install(tmp_path)

    listed = list_plugins(tmp_path, required="")

    assert listed.returncode == 0, listed.stderr
    assert "acme 1.2 (acme)" in listed.stdout
    assert "not loaded: ModuleNotFoundError: No module named 'a_module" in listed.stdout
    assert f"({broken}.py, line 1)" in listed.stdout


@pytest.mark.parametrize("broken", ["__init__", "plugin"])
def test_a_broken_plugin_in_the_setting_is_named_when_nothing_starts(tmp_path, broken):
    write(tmp_path, **{broken: "import a_module_that_is_missing\n"})

    listed = list_plugins(tmp_path)

    assert listed.returncode == 1
    assert "The plugin acme cannot be loaded: ModuleNotFoundError" in listed.stderr
    assert "Traceback" not in listed.stderr


def test_a_plugin_that_is_not_there_is_named_when_nothing_starts(tmp_path):
    listed = list_plugins(tmp_path)

    assert listed.returncode == 1
    assert "PLUGINS names 'acme', but no installed package" in listed.stderr


def test_a_setting_must_begin_with_the_name_of_its_plugin(tmp_path):
    config = "class C(AppConfig):\n    name = 'acme'\n    settings = {'DEBUG': True}\n"
    write(tmp_path, apps=f"from django.apps import AppConfig\n{config}")

    assert "'DEBUG' must begin with ACME_." in list_plugins(tmp_path).stderr
