"""Many traces -> one timeline: every rank and every profiler on one axis of time."""
