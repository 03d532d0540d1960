"""Scripts that run in the interpreter where a client is installed, and import nothing of this package.

Each takes the path of a job, JSON with `folder` and `requests`, and that of a folder, and writes the audio of request i
there as ``i.f32``, float32; the one for kokoro.js, in JavaScript, takes the folder of its packages too. A request has
`symbols`, `voice`, `number` of the voice and `speed`. What the client does to silence is switched off.
"""
