"""Asks axe what is wrong with a page for people with disabilities."""

from __future__ import annotations

from functools import cache

from playwright.sync_api import Page

from config import env

GRAVE = {"serious", "critical"}


@cache
def _source() -> str:
    return (env.ROOT / "frontend/node_modules/axe-core/axe.min.js").read_text()


def faults_of(page: Page) -> list[str]:
    """Every serious or critical fault, with where it is.

    The script is evaluated by the debugger, so the page's content security policy stays as it is.
    """
    page.evaluate(_source())
    found = page.evaluate("async () => (await axe.run(document)).violations")
    return [
        f"{page.url}: {fault['id']}: {node['target']} {node['failureSummary']}"
        for fault in found
        if fault["impact"] in GRAVE
        for node in fault["nodes"]
    ]
