"""Scripts that run in the interpreter where a client is installed, and import nothing of this package.

Each takes the path of a job, JSON with `folder`, `settings` and `requests`, and the path of a NumPy file, and writes
the audio of request i there as ``i``. A request has `symbols`, `voice`, `number` of the voice, `speed` and `default`,
whether the client's own settings for silence stay.
"""
