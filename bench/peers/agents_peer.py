"""Measures a turn of the OpenAI Agents SDK with a session that SQLAlchemy stores in PostgreSQL.

The measured turn is one `Runner.run`, which reads the session, asks the model and stores both
messages. A session with a limit reads only its newest 200 items. The model answers at once and
tracing is off.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from agents.extensions.memory import SQLAlchemySession
from agents.memory import SessionSettings
from agents.usage import Usage
from openai.types.responses import ResponseOutputMessage, ResponseOutputText
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from agents import Agent, Model, ModelResponse, Runner, set_tracing_disabled

# At the end of the path: a package of this repository has the name of one of the peer.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from bench.peers.database import create_database
from bench.rounds import PAUSE_SECONDS, Figures, serve

LIMIT = 200


class InstantModel(Model):
    """Answers at once."""

    async def get_response(self, *_: Any, **__: Any) -> ModelResponse:
        text = ResponseOutputText(text="Thinking is done.", type="output_text", annotations=[])
        message = ResponseOutputMessage(
            id="1", content=[text], role="assistant", status="completed", type="message"
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


class Agents:
    """An agent and the sessions that wait for their measured turn."""

    def __init__(self, runner: asyncio.Runner, engine: AsyncEngine) -> None:
        self._runner, self._engine = runner, engine
        self._agent = Agent(name="Bench", model=InstantModel())
        self._waiting: dict[tuple[int, bool], list[SQLAlchemySession]] = {}

    def prepare(self, messages: int, count: int) -> None:
        """Create sessions with this many items, half of them with a limit."""
        for limited in (False, True):
            made = [self._runner.run(self._make(messages, limited)) for _ in range(count)]
            self._waiting.setdefault((messages, limited), []).extend(made)

    async def _make(self, messages: int, limited: bool) -> SQLAlchemySession:
        settings = SessionSettings(limit=LIMIT if limited else None)
        session = SQLAlchemySession(
            str(uuid4()), engine=self._engine, create_tables=True, session_settings=settings
        )
        items: list[Any] = [
            {
                "role": "user" if nth % 2 == 0 else "assistant",
                "content": f"message {nth} with some words in it",
            }
            for nth in range(messages)
        ]
        await session.add_items(items)
        return session

    def turn(self, messages: int, count: int) -> Figures:
        return {
            name: [self._runner.run(self._take_turn(messages, limited)) for _ in range(count)]
            for name, limited in (("turn", False), (f"turn limit {LIMIT}", True))
        }

    async def _take_turn(self, messages: int, limited: bool) -> float:
        session = self._waiting[messages, limited].pop()
        await asyncio.sleep(PAUSE_SECONDS)
        began = time.perf_counter()
        await Runner.run(self._agent, "hello", session=session)
        return (time.perf_counter() - began) * 1000


def main() -> None:
    set_tracing_disabled(True)
    engine = create_async_engine(create_database("agents", driver="+asyncpg"))
    with asyncio.Runner() as runner:
        peer = Agents(runner, engine)
        serve({"prepare": peer.prepare, "turn": peer.turn})
        runner.run(engine.dispose())


if __name__ == "__main__":
    main()
