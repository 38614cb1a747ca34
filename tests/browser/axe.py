"""Checks the accessibility of a page with axe."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from playwright.sync_api import Page

from core import env

GRAVE = {"serious", "critical"}
#: Waits for animations first: a colour in transition is not the page's colour.
_RUN_AXE = """async (options) => {
    const ends = document.getAnimations().filter(
        (one) => Number.isFinite(one.effect.getComputedTiming().endTime));
    await Promise.allSettled(ends.map((one) => one.finished));
    return (await axe.run(document, options)).violations;
}"""


@cache
def _source() -> str:
    return (env.ROOT / "frontend/node_modules/axe-core/axe.min.js").read_text()


def faults_of(page: Page, *, only: Sequence[str] = ()) -> list[str]:
    """Return every serious or critical violation and where it is, of all rules or of these only.

    The script is evaluated by the debugger, so the page's content security policy stays in force.
    """
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(_source())
    options: dict[str, object] = {"resultTypes": ["violations"]}
    if only:
        options["runOnly"] = list(only)
    found = page.evaluate(_RUN_AXE, options)
    return [
        f"{page.url}: {fault['id']}: {node['target']} {node['failureSummary']}"
        for fault in found
        if fault["impact"] in GRAVE
        for node in fault["nodes"]
    ]
