"""Tests of the processes of an idle stack, and of its web processes, which share one port."""

from __future__ import annotations

import json
import re
import signal
import socket
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from core.env import ROOT
from tests.stack.running import Running, wait_for

pytestmark = pytest.mark.stack

#: Every process of Python that an idle stack has, with two web processes and two workers.
PROCESSES = {
    "manage.py up": 1,
    "orchestrator.launcher.guardian": 1,
    "switchyard web-1": 1,
    "switchyard web-2": 1,
    # One that waits for signals, the sentinel, the pusher, the monitor, and two that run lanes.
    "switchyard workers": 6,
    "switchyard supervisor": 1,
    "switchyard terminals": 1,
    "switchyard watch": 1,
}
MANY = 64


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Run a stack in which a program that hangs is restarted after a few seconds."""
    data_dir = tmp_path_factory.mktemp("stack") / "data"
    running = Running(data_dir, DJANGO_SETTINGS_MODULE="tests.stack.settings")
    try:
        running.start()
        yield running
    finally:
        running.destroy()


def count_processes(stack: Running) -> dict[str, int]:
    """Count the processes of Python by what they do. Programs of the system are left out."""
    found: Counter[str] = Counter()
    for process in stack.everything():
        with suppress(psutil.Error):
            line = " ".join(process.cmdline())
            kinds = [kind for kind in PROCESSES if kind in line]
            if kinds or process.name().startswith("python"):
                found["".join(kinds) or line] += 1
    return dict(found)


def get(stack: Running, path: str) -> bytes:
    with urllib.request.urlopen(f"{stack.base_url}{path}", timeout=30) as answer:  # noqa: S310
        return bytes(answer.read())


def test_an_idle_stack_has_exactly_these_processes(stack: Running) -> None:
    wait_for(lambda: len(stack.group(stack.pids()["workers"])) == 6, "all workers")

    assert count_processes(stack) == PROCESSES


def test_the_programs_share_the_memory_of_up(stack: Running) -> None:
    """A program that was started anew would share only its libraries."""
    rollup = Path(f"/proc/{stack.pids()['supervisor']}/smaps_rollup").read_text()
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in rollup.splitlines()[1:]}

    shared = kilobytes["Shared_Clean"] + kilobytes["Shared_Dirty"]
    assert shared > kilobytes["Rss"] / 2


def test_pages_come_from_the_build_in_the_repository(stack: Running) -> None:
    manifest = json.loads((ROOT / "static" / "dist" / "manifest.json").read_text())
    script = manifest["src/main.ts"]["file"]

    page = get(stack, "/sign-in/").decode()
    links = re.findall(r'src="([^"]+\.js)"', page)

    [link] = [link for link in links if Path(script).stem in link]
    assert get(stack, link) == (ROOT / "static" / "dist" / script).read_bytes()


def connections_of(stack: Running, name: str) -> int:
    found = psutil.Process(stack.pids()[name]).net_connections("tcp")
    here = [c for c in found if c.status == psutil.CONN_ESTABLISHED]
    return sum(c.laddr.port == stack.port for c in here)


def test_connections_are_spread_over_the_web_processes(stack: Running) -> None:
    with ExitStack() as opened:

        def both_have_some() -> bool:
            for _ in range(MANY):
                address = ("127.0.0.1", stack.port)
                opened.enter_context(socket.create_connection(address, timeout=30))
            return min(connections_of(stack, name) for name in ("web", "web-2")) > MANY // 8

        wait_for(both_have_some, "connections in both processes")


def count_requests(stack: Running) -> int:
    """Return how many requests for health the metrics count."""
    text = get(stack, "/metrics").decode()
    found = re.search(
        r'django_http_responses_total_by_status_view_method_total\{method="GET",'
        r'status="200",view="health"\} (\S+)',
        text,
    )
    return int(float(found[1])) if found else 0


def test_every_web_process_reports_the_metrics_of_all(stack: Running) -> None:
    counted = count_requests(stack)
    for asked in range(1, MANY + 1):
        assert get(stack, "/api/v1/health/")

        assert count_requests(stack) >= counted + asked


def test_a_web_process_that_hangs_delays_no_other_and_is_replaced(stack: Running) -> None:
    old = stack.kill("web-2", signal.SIGSTOP)

    stack.wait_until_replaced("web-2", old)

    assert "web-2: no sign of life" in stack.said()
    assert not psutil.pid_exists(old)
