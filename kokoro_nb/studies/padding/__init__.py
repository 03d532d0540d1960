"""09: what padding changes, where it begins, and what exact padding costs."""
