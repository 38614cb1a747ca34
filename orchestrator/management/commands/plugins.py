"""Lists the plugins of this installation, with what each has brought."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from core.plugins import Plugin, plugins


class Command(BaseCommand):
    help = "List the plugins, what each has brought, and why a broken one was not loaded."

    def handle(self, *args: Any, **options: Any) -> None:
        if not plugins:
            self.stdout.write("No plugins. `manage.py startplugin NAME` writes one.")
        for plugin in plugins.values():
            self._write(plugin)

    def _write(self, plugin: Plugin) -> None:
        version = f" {plugin.version}" if plugin.version else ""
        required = ", required" if plugin.required else ""
        self.stdout.write(f"{plugin.name}{version} ({plugin.entry}{required})")
        if plugin.error:
            self.stdout.write(self.style.ERROR(f"  not loaded: {plugin.error}"))
        for kind, names in brought(plugin).items():
            self.stdout.write(f"  {kind}: {', '.join(names)}")


def brought(plugin: Plugin) -> dict[str, list[str]]:
    """Return the names of what the plugin has added, by kind, with its settings last."""
    found: dict[str, list[str]] = {}
    for addition in plugin.additions:
        found.setdefault(addition.kind, []).append(addition.name)
    if plugin.settings:
        found["setting"] = list(plugin.settings)
    return found
