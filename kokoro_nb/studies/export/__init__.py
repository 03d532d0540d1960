"""02: the export ladder, with a figure on every rung."""
