"""03: what a probe of slices would have reported."""
