"""Tests of tasks on a running stack: a command completes, and a lost one is not repeated."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

from tests.stack.client import Client
from tests.stack.running import Running, wait_for
from tests.tools_app.conftest import needs_bwrap
from tests.tools_app.sandbox.conftest import alive, sleep_command

pytestmark = [pytest.mark.stack, needs_bwrap]


def begin(client: Client, **body: Any) -> str:
    request = urllib.request.Request(  # noqa: S310
        f"{client.stack.base_url}/api/orchestrator",
        data=json.dumps(body).encode(),
        headers={"x-api-key": client.key, "content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return str(json.load(answer)["workflow_id"])


def wait_for_end(client: Client, task: str) -> dict[str, Any]:
    def look() -> Any:
        found = client.call(f"workflows/{task}/")
        return found if found["status"] in {"complete", "errored"} else None

    return wait_for(look, "the end of the task")


def download(client: Client, path: str) -> bytes:
    request = urllib.request.Request(  # noqa: S310
        f"{client.stack.base_url}/api/v1/{path}", headers={"x-api-key": client.key}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return bytes(answer.read())


def test_a_command_whose_keeper_is_killed_is_unknown_and_ran_once(stack: Running) -> None:
    client = Client(stack)
    fine = begin(client, command="echo hello | tee out.txt")
    assert wait_for_end(client, fine)["result"]["output"] == "hello\n"
    assert download(client, f"workflows/{fine}/artifacts/out.txt") == b"hello\n"

    marker = sleep_command()
    task = begin(client, command=f"echo run >> count; echo begun; {marker}; echo late >> count")

    def has_begun() -> bool:
        events = client.rows(f"workflows/{task}/events/?limit=100")
        return any("begun" in str(e["payload"]) for e in events if e["type"] == "output")

    wait_for(has_begun, "the command's first words")
    (keeper,) = stack.keepers()
    keeper.kill()
    lost = wait_for_end(client, task)

    assert lost["error"]["code"] == "unknown"
    run = next(step for step in lost["steps"] if step["name"] == "run command")
    assert [one["status"] for one in run["attempts"]] == ["errored"]
    (count,) = stack.data_dir.glob(f"sessions/*/{task}/workspace/count")
    assert count.read_text() == "run\n"
    wait_for(lambda: not alive(marker), "the end of the lost command")

    client.call(f"workflows/{task}/restart/", {"from_step": "run command"})
    wait_for(lambda: count.read_text() == "run\nrun\n", "the command that a person runs again")
    client.call(f"workflows/{task}/terminate/", {})
    wait_for(lambda: not count.exists(), "the end of the sandbox")
    wait_for(lambda: not alive(marker), "the end of the command")
