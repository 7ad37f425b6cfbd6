"""Processes that are killed, interrupted or refused by the system at every call that writes."""
