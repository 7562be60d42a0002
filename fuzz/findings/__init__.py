"""Verdicts, families, and stored findings, which are probed and run again."""
