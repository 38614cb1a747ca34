"""Terminals for people: one host process holds the shells, web processes pass the bytes on.

`host` is that process and `screen` one shell in it; `wire` is what both sides speak over a Unix
socket; `calling` is the web's side; `desk` opens, finds, shares and closes; `place` is the sandbox;
`records` are the rows, and how those of a dead host come to say so.
"""
