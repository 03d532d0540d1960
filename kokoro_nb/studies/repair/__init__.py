"""14: the smallest set of patches that a backend needs."""
