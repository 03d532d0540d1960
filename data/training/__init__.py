"""Making the project's own small weights."""
