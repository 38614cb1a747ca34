"""The tree below a session, with what each branch and the whole have used."""

from __future__ import annotations

from dataclasses import dataclass

from sessions_app.models import Session
from sessions_app.pages.wanted import STATUSES
from sessions_app.pages.words import dollars, lasting, thousands
from sessions_app.tree import Branch, tree_of

DEEPEST = 5
TASKS = {
    "running": ("is-running", "Working"),
    "completed": ("is-done", "Done"),
    "failed": ("is-failed", "Failed"),
    "cancelled": ("", "Stopped"),
}


@dataclass(frozen=True, kw_only=True)
class ShownBranch:
    branch: Branch
    lamp: str
    state: str
    tokens: str
    cost: str
    took: str
    indent: str


@dataclass(frozen=True, kw_only=True)
class Tree:
    branches: list[ShownBranch]
    #: Of the session and everything below it.
    tokens: str
    cost: str
    approvals: int


def show_tree(session: Session) -> Tree:
    """A parent before its children. One query."""
    found = in_order(tree_of(session.pk), session)
    tokens = sum(one.input_tokens + one.output_tokens for one in found)
    return Tree(
        branches=[shown(branch) for branch in found],
        tokens=thousands(tokens + session.input_tokens + session.output_tokens),
        cost=dollars(sum((one.cost for one in found), session.cost)),
        approvals=sum(one.pending_approvals for one in found),
    )


def in_order(branches: list[Branch], session: Session) -> list[Branch]:
    """Each branch right below its parent."""
    below: dict[object, list[Branch]] = {}
    for branch in branches:
        below.setdefault(branch.parent_id, []).append(branch)
    placed: list[Branch] = []
    waiting = below.get(session.pk, [])[::-1]
    while waiting:
        branch = waiting.pop()
        placed.append(branch)
        waiting += below.get(branch.id, [])[::-1]
    return placed


def shown(branch: Branch) -> ShownBranch:
    known = TASKS.get(branch.task_status or "") or STATUSES.get(branch.status, ("", branch.status))
    is_waiting = branch.pending_approvals or branch.status == "requires_action"
    lamp, state = ("is-waiting", "Needs you") if is_waiting else known
    ended = branch.finished_at
    return ShownBranch(
        branch=branch,
        lamp=lamp,
        state=state,
        tokens=thousands(branch.input_tokens + branch.output_tokens),
        cost=dollars(branch.cost),
        took=lasting(ended - branch.created_at) if ended else "",
        indent=f"depth-{min(branch.depth, DEEPEST) - 1}",
    )
