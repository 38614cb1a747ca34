"""Pages of memory: the tree, documents, search, import and export."""
