"""Findings and tables -> text. Never prints."""
