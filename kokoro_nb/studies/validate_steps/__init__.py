"""13: the pipeline on a runtime, step by step."""
