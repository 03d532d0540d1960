"""PocketTTS measured: its steps and its loop on every runtime, the mistakes of a port, and the trials that it took."""
