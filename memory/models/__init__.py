"""The tables of memory, one noun per module."""

from memory.models.chunk import MemoryChunk, MemoryVector
from memory.models.embedding import EmbeddingChoice
from memory.models.entry import MemoryEntry
from memory.models.version import MemoryVersion

__all__ = ["EmbeddingChoice", "MemoryChunk", "MemoryEntry", "MemoryVector", "MemoryVersion"]
