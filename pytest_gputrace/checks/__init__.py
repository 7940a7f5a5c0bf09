"""Trace files -> findings. Never imports what makes or names them on disk beyond the legacy name's form."""
