"""The zoo as data: healthy files of every form, on which every node has to be judged, and none accused."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kokoro_nb.studies.diagnosis_corpus import healthy_programs as programs
from kokoro_nb.studies.inspection_corpus import file_writers as writers
from kokoro_nb.studies.inspection_corpus import written_graphs as graphs

Writer = Callable[[Any, Any, Path], Path]


@dataclass(frozen=True)
class ZooFile:
    """One file.

    Attributes
    ----------
    writer : callable
        Takes a module, inputs by name and a folder, writes the file and returns its path.
    program : callable or None
        Takes a seed, and returns a module and inputs by name; None where the writer needs none.
    """

    writer: Writer
    program: Callable[[int], tuple[Any, Any]] | None = None

    @property
    def name(self) -> str:
        """Program and writer."""
        return f"{self.program.__name__}-{self.writer.__name__}" if self.program else self.writer.__name__

    def written(self, folder: Path, seed: int = 0) -> tuple[Path, dict[str, Any] | None]:
        """Write it, and return its path and the inputs of the module; None where there is none."""
        module, inputs = self.program(seed) if self.program else (None, None)
        path = self.writer(module, inputs, folder)
        if inputs is None:
            return path, None
        unnamed = path.suffix == ".pte"  # which knows its inputs by their place alone
        return path, {f"input_{k}" if unnamed else name: x.numpy() for k, (name, x) in enumerate(inputs.items())}


_PLACES: tuple[tuple[Writer, tuple[Callable[[int], tuple[Any, Any]], ...]], ...] = (
    (
        writers.dynamo_onnx,
        (
            programs.whisper_encoder,
            programs.wav2vec2,
            programs.hifigan,
            programs.speaker_encoder,
            programs.vocos_like,
            programs.bigvgan_like,
            programs.deepfilter_like,
            programs.attention,
            programs.conformer_convolution,
            programs.harmonic_source,
        ),
    ),
    (
        writers.legacy_onnx,
        (
            programs.whisper_encoder,
            programs.hifigan,
            programs.bidirectional_encoder,
            programs.attention,
            programs.adaptive_block,
        ),
    ),
    (
        writers.float16_onnx,
        (programs.whisper_encoder, programs.attention, programs.conformer_convolution, programs.hifigan_like),
    ),
    (writers.optimised_onnx, (programs.whisper_encoder, programs.attention, programs.hifigan_like)),
    (writers.dynamic_onnx, (programs.whisper_encoder, programs.attention, programs.speaker_encoder)),
    (writers.qdq_onnx, (programs.hifigan_like, programs.conformer_convolution, programs.attention)),
    (writers.qoperator_onnx, (programs.hifigan_like, programs.conformer_convolution, programs.attention)),
    (writers.four_bit_onnx, (programs.whisper_encoder, programs.attention)),
    (writers.pt2, (programs.attention, programs.hifigan_like, programs.adaptive_block)),
    (writers.portable_pte, (programs.hifigan_like, programs.adaptive_block)),
    (
        writers.xnnpack_pte,
        (programs.hifigan_like, programs.conformer_convolution, programs.attention, programs.whisper_encoder),
    ),
    (writers.quantised_pte, (programs.hifigan_like, programs.conformer_convolution)),
    (writers.float32_mlpackage, (programs.hifigan_like, programs.whisper_encoder, programs.adaptive_block)),
    (writers.float16_mlpackage, (programs.hifigan_like, programs.adaptive_block)),
    (writers.quantised_mlpackage, (programs.attention,)),
    (writers.one_file_mlmodel, (programs.hifigan_like,)),
)
ZOO: tuple[ZooFile, ...] = (
    *(ZooFile(writer, program) for writer, all_of_them in _PLACES for program in all_of_them),
    *(ZooFile(one) for one in (graphs.loop_onnx, graphs.branch_onnx, graphs.function_onnx, graphs.bfloat16_onnx)),
)
