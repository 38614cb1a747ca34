"""Tests that `make dev` applies edits: of a view, a template, a worker's code and a style.

The tests check that each edit takes effect, not how soon, as a busy machine may take long.
`pytest -s tests/stack/test_dev.py` prints the seconds.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from core.env import ROOT
from tests.stack.client import Client
from tests.stack.running import Running, free_port, wait_for

pytestmark = pytest.mark.stack

VIEW = """

from django.http import HttpResponse

urlpatterns.insert(0, path("edited/", lambda request: HttpResponse("first edition")))
"""
WORKER = """

_wake_many = wake_many


def wake_many(payloads):
    open("edition", "w").write("first edition")
    _wake_many(payloads)
"""


def copy_code(target: Path) -> None:
    """Copy the code that is edited; installed packages are shared."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in files.splitlines():
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target / name)
    with suppress(FileExistsError):
        (target / "frontend" / "node_modules").symlink_to(ROOT / "frontend" / "node_modules")
    with (target / "config" / "urls.py").open("a") as urls:
        urls.write(VIEW)
    with (target / "orchestrator" / "worker.py").open("a") as worker:
        worker.write(WORKER)


@pytest.fixture(scope="module")
def dev() -> Iterator[Running]:
    """Run the stack of `make dev` on a copy of the code."""
    folder = Path(tempfile.mkdtemp(prefix="switchyard-dev-"))
    folder.chmod(0o755)
    vite_port = str(free_port())
    stack = Running(
        folder / "data", DJANGO_SETTINGS_MODULE="config.settings.dev", VITE_PORT=vite_port
    )
    stack.root = folder / "code"
    copy_code(stack.root)
    try:
        stack.start()
        yield stack
    finally:
        stack.destroy()
        shutil.rmtree(folder, ignore_errors=True)


def fetch(url: str) -> str:
    request = urllib.request.Request(url, headers={"Accept": "text/css,*/*"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            return str(answer.read().decode())
    except OSError:  # The server is being restarted.
        return ""


def edit(stack: Running, name: str, old: str, new: str, seen: Callable[[], bool]) -> None:
    """Change a file and wait until the change takes effect."""
    path = stack.root / name
    text = path.read_text()
    assert old in text, f"{name} has no {old!r}."
    began = time.monotonic()
    path.write_text(text.replace(old, new))
    wait_for(seen, f"the edit of {name}")
    print(f"{name}: live after {time.monotonic() - began:.2f} s")  # noqa: T201


def test_an_edited_view_takes_effect(dev: Running) -> None:
    url = f"{dev.base_url}/edited/"
    assert fetch(url) == "first edition"

    edit(dev, "config/urls.py", "first edition", "second", lambda: fetch(url) == "second")


def test_an_edited_template_takes_effect(dev: Running) -> None:
    url = f"{dev.base_url}/sign-in/"

    edit(dev, "templates/base.html", "· Switchyard<", "· Edited<", lambda: "Edited" in fetch(url))


def test_an_edited_style_takes_effect(dev: Running) -> None:
    url = f"http://127.0.0.1:{dev.env['VITE_PORT']}/static/dist/src/styles/main.css"
    wait_for(lambda: fetch(url), "the styles")
    style = (dev.root / "frontend" / "src" / "styles" / "main.css").read_text()

    edit(
        dev,
        "frontend/src/styles/main.css",
        style,
        f"{style}\n.edited {{ color: rebeccapurple }}\n",
        lambda: ".edited" in fetch(url),
    )


def test_edited_code_of_a_worker_takes_effect(dev: Running) -> None:
    wait_for(dev.is_healthy, "health")
    client, edition = Client(dev), dev.root / "edition"

    def says(text: str) -> bool:
        with suppress(OSError, urllib.error.HTTPError):
            body = {"agent": "Concierge", "session_key": os.urandom(4).hex(), "message": "hello"}
            client.call("runtime/", body)
            time.sleep(0.1)
        return edition.exists() and edition.read_text() == text

    wait_for(lambda: says("first edition"), "the first wake-up")

    edit(dev, "orchestrator/worker.py", "first edition", "second", lambda: says("second"))


def test_broken_code_is_reported_and_the_next_edit_repairs_it(dev: Running) -> None:
    url = f"{dev.base_url}/edited/"
    path = dev.root / "config" / "urls.py"
    text = path.read_text()

    path.write_text(text + "\n)\n")
    wait_for(lambda: "SyntaxError" in dev.said(), "the traceback in the terminal")
    path.write_text(text.replace("second", "third"))

    wait_for(lambda: fetch(url) == "third", "the view after the mistake was mended")


def test_ctrl_c_ends_everything(dev: Running) -> None:
    dev.destroy()

    dev.wait_until_gone()
