"""Kokoro as programs of static shape that an application ships: what is in the folder, and how speech is made of it.

Two stages: what is computed before the number of frames is known, with room for so many tokens, and pitch, energy and
decoder, with room for so many frames, once for each bucket. Each program takes the true length as an input and is exact
for it (`kokoro_nb.models.padding`); what lies between them is NumPy.

- `export.deliver` writes such a folder, with PyTorch; `contract.read_contract` says what is in it.
- `pipeline.TwoStages` speaks from it, and imports no torch.
- `golden` records what lies between the programs, for an integrator in any language to check against.
- `clients` writes folders for programs in the field, with contracts of their own: kokoro-onnx, sherpa-onnx, kokoro.js.
- `hub` hands a program to Qualcomm AI Hub.
"""
