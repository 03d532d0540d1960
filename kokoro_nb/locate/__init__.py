"""Localisation: which operators of an export are wrong by themselves."""
