"""Judging implementations of these instructions: a program for each form, and what is expected."""
