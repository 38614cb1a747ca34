"""Asks axe what is wrong with a page for people with disabilities."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from playwright.sync_api import Page

from core import env

GRAVE = {"serious", "critical"}
#: A colour that is still changing is no colour of the page.
_ASK = """async (options) => {
    const ends = document.getAnimations().filter(
        (one) => Number.isFinite(one.effect.getComputedTiming().endTime));
    await Promise.allSettled(ends.map((one) => one.finished));
    return (await axe.run(document, options)).violations;
}"""


@cache
def _source() -> str:
    return (env.ROOT / "frontend/node_modules/axe-core/axe.min.js").read_text()


def faults_of(page: Page, *, only: Sequence[str] = ()) -> list[str]:
    """Every serious or critical fault, with where it is; of all rules, or of these alone.

    The script is evaluated by the debugger, so the page's content security policy stays as it is.
    """
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(_source())
    options: dict[str, object] = {"resultTypes": ["violations"]}
    if only:
        options["runOnly"] = list(only)
    found = page.evaluate(_ASK, options)
    return [
        f"{page.url}: {fault['id']}: {node['target']} {node['failureSummary']}"
        for fault in found
        if fault["impact"] in GRAVE
        for node in fault["nodes"]
    ]
