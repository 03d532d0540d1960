"""Sick and healthy exports, with what `diagnose` has to say of each."""
