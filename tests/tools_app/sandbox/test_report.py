"""Tests of the `sandboxes` command, which lists what works on this machine and what runs."""

from __future__ import annotations

from io import StringIO

from django.core.management import call_command

from tests.tools_app.sandbox.conftest import run
from tools_app.sandbox import cgroup, host
from tools_app.sandbox.container import engine

SLOWED = (
    "limited to 200 MB per second by a control group, except for writes that the kernel delays"
    if cgroup.group_ability().is_old
    else "limited to 200 MB per second by a control group"
)


def run_report() -> list[str]:
    output = StringIO()
    call_command("sandboxes", stdout=output)
    return output.getvalue().splitlines()


def test_the_report_lists_what_works_and_what_runs(local, container, folder, data_dir):
    run(container, "true")
    terminal = local.open_terminal()

    lines = run_report()
    terminal.close()

    assert lines == [
        "local, network none: works",
        "local, network full: works",
        "container, network none: works",
        "container, network full: works",
        "local, memory: limited by a control group",
        "local and container, disk: one file limited by the kernel, all files measured",
        f"local, speed of the disk: {SLOWED}",
        "local, paths of this machine: hidden",
        "2 running",
        f"  {folder.session_id}  local  terminal",
        f"  {folder.session_id}  container  commands",
    ]
    # The trial runs left no files.
    assert [path.name for path in (data_dir / "sessions").glob("*/*")] == [str(folder.session_id)]


def test_the_report_says_how_to_install_what_is_missing(data_dir, monkeypatch):
    monkeypatch.setattr(host, "PLACES", "/nowhere")
    monkeypatch.setattr(engine, "PLACES", "/nowhere")
    monkeypatch.setattr(engine, "_usual", list)

    lines = run_report()

    assert "apt install bubblewrap" in lines[0]
    assert "make containers" in lines[2]
    assert lines[-1] == "0 running"
