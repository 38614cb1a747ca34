"""The harness: the bounded loop of model calls and tool calls that makes up a run."""
