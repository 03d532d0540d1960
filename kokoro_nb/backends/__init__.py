"""One small protocol, one module per runtime."""
