"""The tests of this plugin, with the settings and fixtures of Switchyard's own tests."""
