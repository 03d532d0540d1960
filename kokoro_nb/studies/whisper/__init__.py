"""05: which audible faults a transcript shows, and which it does not."""
