"""How large is Switchyard when idle, how soon is it healthy, and what does it install?

It starts `make run` twice on one data directory, and reports on the second start: the time and the
processor time until it is healthy, then the memory of each process after a while without work.
Memory is the proportional set size, which counts a page that n processes share as 1/n in each.
`--install 1` also installs a clone of the current commit, with `bin/setup run`, and prints its size.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
WELCOME = "Ctrl-C stops everything."
MEGABYTE = 1024 * 1024


def environment(data_dir: Path, port: int) -> dict[str, str]:
    unwanted = {"DATABASE_URL", "REDIS_URL", "SWITCHYARD_STACK", "PYTHONDONTWRITEBYTECODE"}
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    return {**kept, "DATA_DIR": str(data_dir), "PORT": str(port)}


@contextmanager
def running(data_dir: Path, port: int) -> Iterator[tuple[psutil.Process, float]]:
    """Run `make run` until the block ends, and yield it with the seconds until it was healthy."""
    said, began = data_dir.with_name("said"), time.monotonic()
    with said.open("w") as output:
        process = subprocess.Popen(
            ["make", "run"],  # noqa: S607
            cwd=ROOT,
            env=environment(data_dir, port),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        while WELCOME not in said.read_text():
            if process.poll() is not None:
                sys.exit(said.read_text())
            time.sleep(0.02)
        yield psutil.Process(process.pid), time.monotonic() - began
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=60)


def family(root: psutil.Process) -> list[psutil.Process]:
    return [root, *root.children(recursive=True)]


def processor_seconds(root: psutil.Process) -> float:
    """Return the processor time of all processes, with the children that have ended."""
    total = 0.0
    for process in family(root):
        with suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def proportional_megabytes(process: psutil.Process) -> float:
    rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    return int(rollup.partition("\nPss:")[2].split()[0]) / 1024


def kind_of(process: psutil.Process) -> str:
    """Return what a process is, by its name or its command line."""
    line = [word for word in process.cmdline() if word]
    if process.name() == "postgres":
        return "PostgreSQL"
    return " ".join(line)[-40:] if line else process.name()


def print_memory(root: psutil.Process) -> None:
    kinds: dict[str, list[float]] = defaultdict(list)
    for process in family(root):
        with suppress(psutil.Error, OSError):
            kinds[kind_of(process)].append(proportional_megabytes(process))
    for kind, sizes in sorted(kinds.items(), key=lambda item: -sum(item[1])):
        print(f"{sum(sizes):8.1f} MB  {len(sizes):3} x {kind}")
    print(f"{sum(map(sum, kinds.values())):8.1f} MB  in total")


def size_of(folder: Path) -> float:
    """Return the megabytes that a folder takes on the disk; a linked file counts once."""
    seen, total = set(), 0
    for path in folder.rglob("*"):
        status = path.lstat()
        if status.st_ino not in seen:
            seen.add(status.st_ino)
            total += status.st_blocks * 512
    return total / MEGABYTE


def print_install(folder: Path) -> None:
    """Install a clone as `make run` would, and print its size."""
    clone = folder / "clone"
    command = ["git", "clone", "-q", str(ROOT), str(clone)]
    subprocess.run(command, check=True)  # noqa: S603
    began = time.monotonic()
    subprocess.run([clone / "bin" / "setup", "run"], cwd=clone, check=True)  # noqa: S603
    print(f"bin/setup run took {time.monotonic() - began:.0f} s")
    packages = next((clone / ".venv" / "lib").glob("python*/site-packages"))
    largest = sorted(((size_of(path), path.name) for path in packages.glob("*/")), reverse=True)
    for size, name in largest[:10]:
        print(f"{size:8.1f} MB  {name}")
    print(f"{size_of(clone / '.venv'):8.1f} MB  .venv in total")
    print(f"{size_of(clone / 'frontend'):8.1f} MB  frontend")


def main() -> None:
    parser = ArgumentParser(
        description=__doc__, formatter_class=RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--port", type=int, default=18_000, help="default: %(default)s")
    parser.add_argument("--idle", type=int, default=20, help="seconds, default: %(default)s")
    parser.add_argument("--starts", type=int, default=3, help="after the first, default: 3")
    parser.add_argument("--install", type=int, default=0, help="also measure an installation")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="switchyard-start-"))
    folder.chmod(0o755)
    try:
        for nth in range(options.starts + 1):
            with running(folder / "data", options.port) as (root, seconds):
                which = f"start {nth + 1}" if nth else "first start"
                spent = processor_seconds(root)
                print(f"{which}: healthy after {seconds:.1f} s, {spent:.1f} s of processor time")
                if nth == options.starts:
                    time.sleep(options.idle)
                    print_memory(root)
        if options.install:
            print_install(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
