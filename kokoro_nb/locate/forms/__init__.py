"""Operators written in other forms, a module for each family: what a runtime gets wrong, from what it gets right."""
