"""The tables of the memory app."""

from memory.models.chunk import EmbeddingChoice, MemoryChunk, MemoryVector
from memory.models.document import MemoryEntry, MemoryVersion

__all__ = ["EmbeddingChoice", "MemoryChunk", "MemoryEntry", "MemoryVector", "MemoryVersion"]
