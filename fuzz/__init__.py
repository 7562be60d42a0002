"""Campaigns, and everything that a person types."""
