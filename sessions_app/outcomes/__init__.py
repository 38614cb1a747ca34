"""Outcomes: the goal of a session, its grader and the returns of unfinished answers."""
