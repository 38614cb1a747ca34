"""A plugin for Switchyard: agents read a SQL database, with bounds and without writing to it."""
