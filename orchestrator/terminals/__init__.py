"""Terminals for people: one host process holds the shells, and web processes relay the bytes."""
