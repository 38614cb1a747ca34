"""Measurements of Switchyard, one file per question, compared with other systems where possible."""
