"""The exports of the corpora as data: what each is made of, and what a diagnosis of it has to say."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kokoro_nb.backends.base import Backend
from kokoro_nb.locate.mechanism import Name
from kokoro_nb.studies.diagnosis_corpus import healthy_programs as healthy
from kokoro_nb.studies.diagnosis_corpus import sick_files as files
from kokoro_nb.studies.diagnosis_corpus import sick_ports as ports
from kokoro_nb.studies.diagnosis_corpus import sick_programs as sick
from kokoro_nb.studies.diagnosis_corpus.stale_kernel import STALE_KERNEL

Maker = Callable[[int], tuple[Any, ...]]
FileMaker = Callable[[Any, Mapping[str, Any], Path], Path]


@dataclass(frozen=True)
class KnownHealthy:
    """An export of which nothing may be said to be wrong.

    Attributes
    ----------
    program : callable
        Takes a seed, and returns a module and inputs by name.
    backend : str
        On which it runs.
    """

    program: Maker
    backend: str

    @property
    def name(self) -> str:
        """Program and backend."""
        return f"{self.program.__name__}-{self.backend}"


@dataclass(frozen=True)
class KnownSick:
    """An export that is sick by a defect that was released or reported.

    Attributes
    ----------
    program : callable
        Takes a seed, and returns a module and inputs by name, and what the module was rewritten from, if it was.
    backend : str or Backend
        On which it runs.
    culprits : tuple of str
        Operators that are at fault: the first of the ranking has to be one of them.
    mechanism : str
        What happened there: one of `kokoro_nb.locate.mechanism.NAMES`.
    known : str
        The known defect (`kokoro_nb.defects`), or the public thread about it.
    remedy : str
        Kind of what cures it: see `kokoro_nb.locate.remedy`; empty where nothing in the package does.
    file : callable or None
        Writes the file that is sick; None where the backend's own export is.
    also : tuple of str
        Patterns of operators that the runtime gets wrong besides, by a known defect: they may be accused, after the
        first. No other may.
    """

    program: Maker
    backend: str | Backend
    culprits: tuple[str, ...]
    mechanism: Name
    known: str
    remedy: str = "other form"
    file: FileMaker | None = None
    also: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Program and backend, or the converter that made the file."""
        return f"{self.program.__name__}-{self.file.__name__ if self.file else self.on}"

    @property
    def on(self) -> str:
        """Name of the backend."""
        return self.backend if isinstance(self.backend, str) else self.backend.name


ONNX, TVM, PORTABLE, XNNPACK, MIL = (
    "onnxruntime",
    "tvm-unfused",
    "executorch-portable",
    "executorch-xnnpack",
    "coreml-reference-float32",
)
HALF, STRICT = "coreml-reference", "coreml-reference-strict"
PHASE = (":unsqueeze", ":div", ":mul", ":cumsum", ":mul#2")  # each of them has to be in float32
CODEC = ("first:conv1d", *(f"blocks.{place}:conv1d" for place in range(4)), "last:conv1d")
# a static range cuts what a convolution reads and gives: it shows in what made it, and in what reads it
CALIBRATED = (*CODEC, ":leaky_relu", ":add", ":add#2", ":add#3", ":add#4", ":tanh")
_NORM = "decoder.generator.noise_res.0.adain1.0.norm:instance_norm"

SICK: tuple[KnownSick, ...] = (
    KnownSick(
        sick.nearly_constant_decoder,
        TVM,
        (_NORM,),
        "one-pass variance",
        "tvm_instance_norm",
        "patch",
        also=("*:instance_norm",),  # each of them takes its variance in one pass, and loses a few digits by it
    ),
    KnownSick(sick.offset_channels, TVM, ("norm:instance_norm",), "one-pass variance", "tvm_instance_norm", "patch"),
    KnownSick(sick.repeated_norm, STALE_KERNEL, ("norm:instance_norm",), "stale memory", "pytorch/executorch#17503"),
    KnownSick(sick.remainder_source, MIL, (":remainder",), "operator lowered as another", "coremltools_remainder"),
    KnownSick(sick.phase_of_an_offset, ONNX, (":atan2",), "branch cut of atan2", "onnx_atan2_branch_cut"),
    KnownSick(sick.phase_of_a_whisper, MIL, (":atan2",), "operator lowered as another", "coremltools_atan2"),
    KnownSick(
        sick.phase_of_silence, ONNX, (":atan2",), "division by zero", "pytorch/pytorch#162570", file=files.legacy_onnx
    ),
    KnownSick(sick.tanh_gelu, XNNPACK, (":gelu",), "operator lowered as another", "xnnpack_tanh_gelu"),
    KnownSick(sick.tanh_gelu, MIL, (":gelu",), "operator lowered as another", "apple/coremltools#2863"),
    KnownSick(sick.snake, MIL, (":reciprocal",), "operator lowered as another", "coremltools_reciprocal"),
    KnownSick(sick.quiet_frames, MIL, (":rsqrt",), "operator lowered as another", "coremltools_rsqrt"),
    KnownSick(sick.running_phase, HALF, PHASE, "accumulated phase", "hexgrad/kokoro#353", "float32 operators"),
    KnownSick(
        sick.loud_norm,
        STRICT,
        ("norm:instance_norm",),
        "overflow of the dtype",
        "ml-explore/mlx#4228",
        "float32 operators",
    ),
    KnownSick(sick.drawn_noise, TVM, (":randn",), "baked-in random numbers", "tvm_baked_noise"),
    KnownSick(sick.frame_table, ONNX, (":div",), "operator lowered as another", "onnx_floor_division"),
    KnownSick(sick.stop_head, ONNX, (":log_sigmoid",), "operator lowered as another", "onnx_log_sigmoid"),
    KnownSick(
        sick.pitch_features, ONNX, (":div",), "changed constant", "microsoft/onnxruntime", file=files.float16_onnx
    ),
    KnownSick(
        sick.codec_with_a_pause,
        ONNX,
        CODEC,
        "quantisation range",
        "GaijinEntertainment/daScript#4063",
        "float32 operators",
        files.int8_onnx,
    ),
    KnownSick(
        sick.pooled_lstm, ONNX, (":div",), "frozen length", "idiap/coqui-ai-TTS#315", "setting", files.frozen_onnx
    ),
    KnownSick(
        sick.loud_codec,
        ONNX,
        CALIBRATED,
        "quantisation range",
        "microsoft/onnxruntime#12854",
        "setting",
        files.calibrated_onnx,
    ),
    KnownSick(
        ports.backward_lstm, ONNX, ("lstm:lstm",), "padding leaking through statistics", "soniqo/speech-swift#173"
    ),
    KnownSick(
        ports.padded_norm, ONNX, ("norm:instance_norm",), "padding leaking through statistics", "pytorch/pytorch#81985"
    ),
    KnownSick(
        ports.static_bucket,
        ONNX,
        ("decoder.encode.norm1.norm:mean",),
        "padding leaking through statistics",
        "pytorch/pytorch#81985",
        also=("decoder.generator:atan2",),  # onnx_atan2_branch_cut, which padding meets more often
    ),
    KnownSick(ports.unweighted_istft, ONNX, ("inverse:select",), "changed scale", "FluidInference/FluidAudio#852"),
    KnownSick(
        ports.left_padded_transpose, ONNX, ("1:conv_transpose1d",), "changed layout or shift", "Blaizzy/mlx-audio#859"
    ),
    KnownSick(ports.counted_padding, ONNX, (":add#3",), "changed constant", "kyutai-labs/pocket-tts"),
)

_PLACES: tuple[tuple[Maker, tuple[str, ...]], ...] = (
    (healthy.whisper_encoder, (ONNX, MIL)),
    (healthy.wav2vec2, (ONNX,)),
    (healthy.hifigan, (ONNX, XNNPACK)),
    (healthy.speaker_encoder, (ONNX,)),
    (healthy.bidirectional_encoder, (ONNX, MIL)),
    (healthy.vocos_like, (ONNX, TVM)),
    (healthy.bigvgan_like, (ONNX, PORTABLE)),
    (healthy.deepfilter_like, (ONNX,)),
    (healthy.attention, (ONNX, TVM, XNNPACK)),
    (healthy.conformer_convolution, (ONNX, TVM)),
    (healthy.wide_convolutions, (ONNX, TVM, XNNPACK)),
    (healthy.wide_products, (ONNX, TVM)),
    (healthy.long_group_norm, (ONNX, TVM)),
    (healthy.harmonic_source, (ONNX, XNNPACK, TVM)),
    (healthy.log_mel, (ONNX, PORTABLE)),
    (healthy.adaptive_block, (ONNX, PORTABLE, MIL)),
    (healthy.hifigan_like, (ONNX, MIL)),
    (healthy.kokoro_narrow, (ONNX, TVM)),
    (healthy.kokoro_mini, (ONNX,)),
    (healthy.pocket_flow_step, (ONNX,)),
    (healthy.pocket_language_step, (ONNX,)),
    (healthy.pocket_conditioning_step, (ONNX,)),
    (healthy.pocket_mimi_step, (ONNX,)),
)
HEALTHY: tuple[KnownHealthy, ...] = tuple(
    KnownHealthy(program, backend) for program, backends in _PLACES for backend in backends
)
