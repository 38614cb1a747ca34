"""Plugins: Django apps of other packages, and what they add to the registries of the product.

A plugin is found by an entry point in the group `switchyard.plugins`, or by its name in `PLUGINS`. It
is installed like any app, so its models, migrations, templates, tools and workflows are found as
usual. Its module `plugin`, if it has one, is imported when all models are loaded and calls the
`register_` functions of the apps; each of them adds to its registry through `add`.

A plugin that is named in `PLUGINS` is required: if it is broken, nothing starts. Any other broken
plugin is reported, everything it has added is removed, and the rest starts without it.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Hashable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import structlog
from django.apps import AppConfig, apps
from django.utils.module_loading import module_has_submodule

from core import env
from core.exceptions import CannotStart, PluginInvalid

log = structlog.get_logger(__name__)

GROUP = "switchyard.plugins"
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
#: How a setting is read, by the type of its default.
READERS: dict[type, Callable[[str, Any], Any]] = {
    bool: lambda name, default: env.flag(name, default=default),
    int: env.number,
    float: env.seconds,
    str: env.text,
    list: lambda name, default: env.strings(name) or default,
}

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, kw_only=True)
class Addition:
    """One thing that a plugin has added, and how to remove it."""

    kind: str
    name: str
    undo: Callable[[], object]


@dataclass(kw_only=True)
class Plugin:
    """A package that adds to the product."""

    name: str
    #: The module of its app, or the path of its AppConfig.
    entry: str
    #: The package of its app, which is known once the app is made.
    package: str = ""
    required: bool = False
    version: str = ""
    #: Why it was not loaded.
    error: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    additions: list[Addition] = field(default_factory=list)

    def fail(self, error: BaseException) -> None:
        """Remember why the plugin is broken, and remove what it has added."""
        self.error = describe(error)
        for addition in reversed(self.additions):
            addition.undo()
        self.additions.clear()
        log.error("plugin_failed", plugin=self.name, why=self.error)
        if self.required:
            raise CannotStart(
                f"The plugin {self.name} cannot be loaded: {self.error} "
                "Mend it, or remove it from PLUGINS."
            ) from error


#: Every plugin that was found, by name.
plugins: dict[str, Plugin] = {}
_current: ContextVar[Plugin | None] = ContextVar("plugin", default=None)


def describe(error: BaseException) -> str:
    """Return an error in one line, with the place in the plugin's code."""
    if isinstance(error, PluginInvalid):
        return error.detail
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}."


# ── Finding and installing ───────────────────────────────────────────────────


def install(required: Iterable[str]) -> tuple[list[AppConfig], dict[str, Any]]:
    """Return the apps of all plugins and their settings. Called once, by the settings."""
    configs: list[AppConfig] = []
    read: dict[str, Any] = {}
    for plugin in _find(list(required)):
        if plugin.name in plugins:
            continue
        plugins[plugin.name] = plugin
        with _blaming(plugin):
            config = _create(plugin)
            plugin.settings = _read_settings(plugin, config)
            configs.append(config)
            read |= plugin.settings
    return configs, read


def _find(required: list[str]) -> Iterator[Plugin]:
    """Yield those that are required first, in the order in which they are named."""
    points = {point.name: point for point in entry_points(group=GROUP)}
    for name in required:
        yield from _named(name, points.pop(name, None))
    for name in sorted(points):
        point = points[name]
        version = point.dist.version if point.dist else ""
        yield Plugin(name=name, entry=point.value.replace(":", "."), version=version)


def _named(name: str, point: EntryPoint | None) -> Iterator[Plugin]:
    if point:
        version = point.dist.version if point.dist else ""
        entry = point.value.replace(":", ".")
        yield Plugin(name=name, entry=entry, version=version, required=True)
    elif NAME.fullmatch(name) and find_spec(name):
        yield Plugin(name=name, entry=name, required=True)
    else:
        raise CannotStart(
            f"PLUGINS names {name!r}, but no installed package has an entry point of this name "
            "and there is no package of this name on the Python path."
        )


def _create(plugin: Plugin) -> AppConfig:
    """Import the app's package, without its models, and guard what Django calls later."""
    config = AppConfig.create(plugin.entry)
    if config.label != plugin.name or not NAME.fullmatch(plugin.name):
        refuse("app", f"its label {config.label!r} must be {plugin.name!r}, in lower case.")
    plugin.package = config.name
    for name in ("import_models", "ready"):
        setattr(config, name, partial(_call, plugin, getattr(config, name)))
    return config


def _call(plugin: Plugin, act: Callable[[], None]) -> None:
    if not plugin.error:
        with _blaming(plugin):
            act()


def _read_settings(plugin: Plugin, config: AppConfig) -> dict[str, Any]:
    """Read the variables that `settings` of the AppConfig declares: a name and a default each."""
    read = {}
    for name, default in dict(getattr(config, "settings", {})).items():
        if not name.startswith(f"{plugin.name.upper()}_"):
            refuse("setting", f"{name!r} must begin with {plugin.name.upper()}_.")
        if type(default) not in READERS:
            refuse("setting", f"the default of {name} is neither text, number, bool nor list.")
        read[name] = READERS[type(default)](name, default)
    return read


# ── Loading ──────────────────────────────────────────────────────────────────


def load() -> None:
    """Import the module `plugin` of every plugin. Called when all models are loaded."""
    import_from_apps("plugin", only_plugins=True)


def import_from_apps(name: str, *, only_plugins: bool = False) -> None:
    """Import this module of every installed app that has one. Errors of a plugin are its own."""
    for config in working_apps():
        if only_plugins and config.label not in plugins:
            continue
        if module_has_submodule(config.module, name):
            with loading(config):
                import_module(f"{config.name}.{name}")


def working_apps() -> Iterator[AppConfig]:
    """Yield every installed app, but no plugin that is broken by then."""
    for config in apps.get_app_configs():
        plugin = plugins.get(config.label)
        if plugin is None or not plugin.error:
            yield config


@contextmanager
def loading(config: AppConfig) -> Iterator[None]:
    """Attribute to the app's plugin, if it is one, what is added and what goes wrong within."""
    plugin = plugins.get(config.label)
    if plugin is None:
        yield
        return
    with _blaming(plugin):
        yield


@contextmanager
def _blaming(plugin: Plugin) -> Iterator[None]:
    token = _current.set(plugin)
    try:
        yield
    except CannotStart:
        raise
    except Exception as error:  # noqa: BLE001 (the code of others may raise anything)
        plugin.fail(error)
    finally:
        _current.reset(token)


# ── Registering ──────────────────────────────────────────────────────────────


def current_plugin() -> Plugin:
    """Return the plugin that is being loaded."""
    plugin = _current.get()
    if plugin is None:
        raise PluginInvalid("Call this in the module `plugin` of a plugin.")
    return plugin


def plugin_of(module: str) -> Plugin | None:
    """Return the plugin that a module belongs to. Plugins import modules of the product as well."""
    for plugin in plugins.values():
        if plugin.package and f"{module}.".startswith(f"{plugin.package}."):
            return plugin
    return None


def add(
    registry: MutableMapping[K, V],
    key: K,
    value: V,
    *,
    kind: str,
    name: str = "",
    module: str = "",
) -> None:
    """Add a value to a registry of the product, and note which plugin brought it, if one did.

    That is the plugin of the module that defines the value, or else the one that is being loaded.
    """
    if plugin := plugin_of(module) if module else _current.get():
        undo = partial(registry.pop, key, None)
        plugin.additions.append(Addition(kind=kind, name=name or str(key), undo=undo))
    registry[key] = value


def refuse(kind: str, why: str) -> NoReturn:
    """Raise an error that names the plugin, what it registers and what is wrong with it."""
    plugin = _current.get()
    subject = f"The plugin {plugin.name}" if plugin else "A plugin"
    raise PluginInvalid(f"{subject} registers a {kind} that cannot be used: {why}")


def check_new(registry: MutableMapping[str, Any], name: object, *, kind: str) -> None:
    """Refuse a name that is not a plain identifier or is taken."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        refuse(kind, f"its name {name!r} must be lower-case letters, digits and underscores.")
    if name in registry:
        refuse(kind, f"the name {name!r} is taken.")


def check_callable(value: object, *, kind: str, what: str) -> None:
    if not callable(value):
        refuse(kind, f"{what} must be callable, not {value!r}.")


def is_subclass(value: object, base: type) -> bool:
    """Return whether a value, which may be anything, is a class that derives from this one."""
    return isinstance(value, type) and issubclass(value, base)
