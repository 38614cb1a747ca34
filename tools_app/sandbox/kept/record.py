"""What is known of a kept command: a folder of small files that outlives every process.

`order` says what to run, `claim` who keeps it, `output` what it said, `stop` that somebody wants it
to end, `ended` how it ended. Each but the output comes into being whole, and only once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from pydantic import BaseModel, ConfigDict

from tools_app.sandbox.base import EndedBy
from tools_app.sandbox.kept.order import Order
from tools_app.sandbox.leftovers import identity_of


class Ending(BaseModel):
    """How a kept command ended, or why it could not begin."""

    model_config = ConfigDict(frozen=True)

    exit_code: int | None = None
    ended_by: EndedBy = "itself"
    output: str = ""
    #: Who asked for its end said this.
    reason: str = ""
    #: The code of the fault that kept it from running or from being seen, and its words.
    fault: str = ""
    detail: str = ""
    #: What is charged for: a container's id; empty for a command on this machine.
    container: str = ""
    #: By this machine's clock.
    began_at: float = 0.0
    ended_at: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Record:
    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def output(self) -> Path:
        return self.folder / "output"

    @property
    def log(self) -> Path:
        """What the keeper itself complained of."""
        return self.folder / "keeper.log"

    # ── Written by who wants the command ─────────────────────────────────────────────────────

    def give_order(self, order: Order) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._write_once("order", order.model_dump_json().encode())

    def ask_to_stop(self, reason: str) -> None:
        """Whoever claims the command from now on finds this and does not begin."""
        self._write_once("stop", reason.encode())

    # ── Written by its keeper ────────────────────────────────────────────────────────────────

    def claim(self) -> bool:
        """Become its only keeper. False: it has or had one, and is never begun again."""
        return self._write_once("claim", identity_of(os.getpid()).encode())

    def end(self, ending: Ending) -> None:
        self._write_once("ended", ending.model_dump_json().encode())

    @contextmanager
    def journal(self) -> Iterator[Callable[[str], None]]:
        """Writes what the command says where everybody reads it at once."""
        with self.output.open("ab", buffering=0) as file:

            def write(text: str) -> None:
                data = memoryview(text.encode())
                while data:
                    data = data[file.write(data) or 0 :]

            yield write

    # ── Read by everybody ────────────────────────────────────────────────────────────────────

    def order(self) -> Order:
        return Order.model_validate_json((self.folder / "order").read_bytes())

    def keeper(self) -> str:
        """The process that keeps it, or kept it; empty when nobody has begun."""
        return self._read("claim").decode()

    def stop_reason(self) -> str | None:
        path = self.folder / "stop"
        return self._read("stop").decode() if path.exists() else None

    def ending(self) -> Ending | None:
        told = self._read("ended")
        return Ending.model_validate_json(told) if told else None

    def _read(self, name: str) -> bytes:
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return b""

    def _write_once(self, name: str, content: bytes) -> bool:
        """Put a whole file in place unless there is one, whoever else tries at the same time."""
        beside = self.folder / f".{name}.{token_hex(6)}"
        with beside.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(beside, self.folder / name)
        except FileExistsError:
            return False
        finally:
            beside.unlink()
        return True


def records_in(folder: Path) -> list[Record]:
    """Every command that was ever ordered here."""
    try:
        found = sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    return [Record(folder=one) for one in found if one.is_dir()]
