"""Commands that outlive the process that started them.

A keeper process runs each command and writes a record of it on disk, which any process can follow.
"""
