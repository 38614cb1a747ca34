"""The operator is told what works here, what does not, and what runs."""

from __future__ import annotations

from io import StringIO

from django.core.management import call_command

from tests.tools_app.sandbox.conftest import run
from tools_app.sandbox import host
from tools_app.sandbox.container import engine


def said() -> list[str]:
    output = StringIO()
    call_command("sandboxes", stdout=output)
    return output.getvalue().splitlines()


def test_what_works_and_what_runs_is_told(local, container, folder, data_dir):
    run(container, "true")
    terminal = local.open_terminal()

    lines = said()
    terminal.close()

    assert lines == [
        "local, network none: works",
        "local, network full: works",
        "container, network none: works",
        "container, network full: works",
        "2 running",
        f"  {folder.session_id}  local  terminal",
        f"  {folder.session_id}  container  commands",
    ]
    # The trials left no files of their own.
    assert [path.name for path in (data_dir / "sessions").glob("*/*")] == [str(folder.session_id)]


def test_what_is_missing_is_told_with_its_remedy(data_dir, monkeypatch):
    monkeypatch.setattr(host, "PLACES", "/nowhere")
    monkeypatch.setattr(engine, "PLACES", "/nowhere")
    monkeypatch.setattr(engine, "_usual", list)

    lines = said()

    assert "apt install bubblewrap" in lines[0]
    assert "make containers" in lines[2]
    assert lines[-1] == "0 running"
