"""Tests of plugins: the loader, the cookbook, `startplugin` and the example in the repository."""
