"""Scripts that run in the interpreter where a client is installed, and import nothing of this package.

Each takes the path of a job, JSON with `folder` and `requests`, and the path of a NumPy file, and writes the audio of
request i there as ``i``; the one for kokoro.js, in JavaScript, says in its first lines what it takes. A request has
`symbols`, `voice`, `number` of the voice, `speed` and `default`, whether the client's own treatment of silence stays.
"""
