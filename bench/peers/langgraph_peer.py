"""Measures a turn of LangGraph: a graph with one model node and its PostgreSQL checkpointer.

A thread is filled with one update of its state. The measured turn is one `invoke`, which returns
when its checkpoints are written: `async` (the default) writes them while the next node runs, `sync`
before it, and `exit` only at the end, so that a crash loses the message. The model answers at once.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import START, MessagesState, StateGraph

# At the end of the path: a package of this repository has the name of one of the peer.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from bench.peers.database import create_database
from bench.rounds import PAUSE_SECONDS, Figures, serve

DURABILITIES = ("async", "sync", "exit")


class InstantModel(BaseChatModel):
    """Answers at once."""

    @property
    def _llm_type(self) -> str:
        return "instant"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("Thinking is done."))])


MODEL = InstantModel()


def answer(state: MessagesState) -> dict[str, Any]:
    return {"messages": [MODEL.invoke(state["messages"])]}


class LangGraph:
    """A compiled graph and the threads that wait for their measured turn."""

    def __init__(self, saver: PostgresSaver) -> None:
        saver.setup()
        graph = StateGraph(MessagesState)
        graph.add_node("model", answer)
        graph.add_edge(START, "model")
        self._graph = graph.compile(checkpointer=saver)
        self._waiting: dict[int, list[dict[str, Any]]] = {}

    def prepare(self, messages: int, count: int) -> None:
        """Create threads with this many messages, a set for each durability."""
        history = [
            (HumanMessage if nth % 2 == 0 else AIMessage)(f"message {nth} with some words in it")
            for nth in range(messages)
        ]
        for _ in range(count * len(DURABILITIES)):
            thread = {"configurable": {"thread_id": str(uuid4())}}
            self._graph.update_state(thread, {"messages": history}, as_node="model")
            self._waiting.setdefault(messages, []).append(thread)

    def turn(self, messages: int, count: int) -> Figures:
        return {
            f"turn {durability}": [self._take_turn(messages, durability) for _ in range(count)]
            for durability in DURABILITIES
        }

    def _take_turn(self, messages: int, durability: Any) -> float:
        thread = self._waiting[messages].pop()
        time.sleep(PAUSE_SECONDS)
        began = time.perf_counter()
        self._graph.invoke({"messages": [HumanMessage("hello")]}, thread, durability=durability)
        return (time.perf_counter() - began) * 1000


def main() -> None:
    with PostgresSaver.from_conn_string(create_database("langgraph")) as saver:
        peer = LangGraph(saver)
        serve({"prepare": peer.prepare, "turn": peer.turn})


if __name__ == "__main__":
    main()
