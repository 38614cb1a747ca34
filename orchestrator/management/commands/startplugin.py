"""Writes a working plugin: a tool, a workflow, a page and their tests."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError

from core.env import ROOT
from core.plugins import NAME

TEMPLATE = Path(__file__).parent.parent / "plugin_template"
#: Keeps tools that read Python files from reading the template.
SUFFIX = ".txt"


class Command(BaseCommand):
    help = "Write a plugin with a tool, a workflow, a page and tests that pass."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="Lower-case letters, digits and underscores.")
        parser.add_argument(
            "folder", nargs="?", default="", help="Where to write it (default: ./NAME)."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["name"]
        folder = Path(options["folder"] or name).resolve()
        if not NAME.fullmatch(name) or name == "tests":
            raise CommandError("A name has lower-case letters, digits and underscores.")
        if any(name in (config.label, config.name) for config in apps.get_app_configs()):
            raise CommandError(f"An app is named {name!r} already. Choose another name.")
        if folder.exists() and any(folder.iterdir()):
            raise CommandError(f"{folder} is not empty.")
        write(name, folder)
        self.stdout.write(
            f"Wrote {folder}\n"
            f"Test it:    cd {folder} && {ROOT / '.venv/bin/pytest'}\n"
            f"Run it:     PLUGINS={name} PYTHONPATH={folder} make run\n"
            f"Install it: {ROOT / '.venv/bin/pip'} install {folder}"
        )


def write(name: str, folder: Path) -> None:
    """Copy the template, with the plugin's name in place of `acme`."""
    title = name.replace("_", " ").capitalize()
    words = {
        "SWITCHYARD": os.path.relpath(ROOT, folder),
        "AcmeConfig": f"{title.title().replace(' ', '')}Config",
        "ACME": name.upper(),
        "Acme": title,
        "acme-greeting": f"{name.replace('_', '-')}-greeting",
        "acme": name,
    }
    for source in sorted(TEMPLATE.rglob(f"*{SUFFIX}")):
        place = str(source.relative_to(TEMPLATE)).removesuffix(SUFFIX)
        target = folder / place.replace("acme", name)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text()
        for word, replacement in words.items():
            text = text.replace(word, replacement)
        target.write_text(text)
