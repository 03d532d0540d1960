"""Measuring tensors, and what was found."""
