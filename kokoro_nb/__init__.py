"""Find out why a speech model that works in PyTorch goes silent, noisy or NaN once it is exported."""
