"""Core ML's program format, MIL: a saved file read and executed operator by operator on any machine."""
