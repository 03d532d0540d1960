"""What a user does, a function for each, shared by Python and the command line; each imports what it needs.

The verbs that are whole modules (`diagnose`, `load_model`, `capture`, `patched`, `survey`, `plant`, `repair`) are
defined there; `kokoro_nb` names all of them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kokoro_nb.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from kokoro_nb.backends.base import Artifact, Failure
    from kokoro_nb.benchmarks.suite import BenchmarkTable
    from kokoro_nb.delivery.clients.client_contract import Dtype
    from kokoro_nb.delivery.clients.client_delivery import ClientDelivery
    from kokoro_nb.delivery.contract import Contract
    from kokoro_nb.listening.transcript import Transcript
    from kokoro_nb.models.kokoro import Kokoro
    from kokoro_nb.traces.trace import Trace


def export(
    module: Any, inputs: Mapping[str, Any], backend: str = "onnxruntime", folder: str | Path | None = None
) -> "Artifact | Failure":
    """Export a module to a backend, or return what it was exported to before.

    Parameters
    ----------
    module : torch.nn.Module
        In evaluation mode; patched as it is to be exported.
    inputs : mapping
        Name of a parameter of its forward -> example tensor.
    backend : str
        A key of `BACKENDS`.
    folder : path, optional
        Where artefacts are saved; ``artefacts`` in the cache by default.

    Returns
    -------
    Artifact or Failure
        The failure carries the rung of the export ladder and the exact error.

    Raises
    ------
    InputError
        If the backend is unknown or not installed, or the inputs do not fit the module.
    """
    from kokoro_nb.backends import backend as named

    runtime = named(backend)
    absent = runtime.available()
    if absent:
        raise InputError(f"{backend} cannot export here: {absent}")
    return runtime.export(module, inputs, folder)


def trace(
    module: Any,
    inputs: Mapping[str, Any],
    backend: str = "eager",
    taps: Any = "all",
    keep: Literal["stats", "full"] = "full",
    folder: str | Path | None = None,
) -> "Trace":
    """Run a module on a backend and capture the results of its operators.

    Parameters
    ----------
    module : torch.nn.Module or Exported
        Patched as it is to be exported.
    inputs : mapping
        Name of a parameter of its forward -> tensor.
    backend : str
        A key of `BACKENDS`.
    taps : str, sequence of str or callable
        ``"all"``, names of operators, or a predicate on an `Operator`.
    keep : str
        ``full``: whole tensors; ``stats``: their statistics alone.
    folder : path, optional
        Where artefacts are saved.

    Returns
    -------
    Trace
        What could not be captured is named in its `missing`.

    Raises
    ------
    InputError
        If the backend cannot run here, or the module cannot be exported to it.
    """
    from kokoro_nb.backends import backend as named
    from kokoro_nb.backends.base import Failure, running
    from kokoro_nb.backends.exported import as_exported
    from kokoro_nb.locate.investigation import traced

    runtime = running(named(backend))
    exported = as_exported(module, inputs, backend)
    if isinstance(exported, Failure):
        raise InputError(f"There is nothing to trace: {exported}")
    return traced(runtime, exported, inputs, taps, keep, folder)


def compare(reference: Any, candidate: Any, sr: int | None = None) -> Any:
    """Compare a candidate with a reference: tensors, signals, records, or folders of executed notebooks.

    Parameters
    ----------
    reference, candidate : array or path
        Arrays of one shape; with `sr` they are audio. Paths: two WAV files, two JSON files of
        ``kokoro-nb diagnose`` or ``inspect``, or two folders of runs.
    sr : int, optional
        Sampling rate in Hz: the arrays are signals, to be compared as such.

    Returns
    -------
    Parity, Comparison, RecordDifference or Difference
        Of tensors: finite share, largest error, its share of the peak. Of audio: every metric with its unit. Of
        records: the versions and operators that differ, and what is to blame. Of runs: which checks changed,
        regressions first.

    Raises
    ------
    InputError
        If the two have different shapes or sampling rates, or are of different kinds.
    """
    paths = [isinstance(one, str | Path) for one in (reference, candidate)]
    if all(paths):
        return _compare_paths(Path(reference), Path(candidate))
    if any(paths):
        raise InputError("A file cannot be compared with an array; give two paths or two arrays.")
    if sr is not None:
        from kokoro_nb.listening.comparison import compare_audio

        return compare_audio(reference, candidate, sr)
    from kokoro_nb.traces.statistics import compare as compare_tensors

    return compare_tensors(reference, candidate)


def _compare_paths(reference: Path, candidate: Path) -> Any:
    if reference.is_dir() or candidate.is_dir():
        from kokoro_nb.reporting.differences import compare_runs

        return compare_runs(reference, candidate)
    kinds = {path.suffix.lower() for path in (reference, candidate)}
    if kinds == {".json"}:
        from kokoro_nb.reporting.differences import compare_records

        return compare_records(reference, candidate)
    if kinds == {".wav"}:
        from kokoro_nb.listening.waveform import read_wav

        (first, rate), (second, other) = read_wav(reference), read_wav(candidate)
        if rate != other:
            raise InputError(f"{reference} has {rate} Hz and {candidate} {other} Hz; resample one of them.")
        return compare(first, second, rate)
    raise InputError(f"{reference} and {candidate} cannot be compared; give two folders, two .wav or two .json files.")


def transcribe(audio: "np.ndarray", sr: int = 24000, model: Any = "mini", words: bool = False) -> "Transcript":
    """Return what openai-whisper hears, with the figures by which it may be believed.

    Parameters
    ----------
    audio : numpy.ndarray, shape (samples,), float
        Full scale 1.
    sr : int
        Sampling rate in Hz.
    model : str, path or whisper.model.Whisper
        ``mini`` (bundled, a vocabulary of a few hundred words), one of whisper's names, a checkpoint, or one loaded.
    words : bool
        Whether to time each word.

    Raises
    ------
    InputError
        If the model cannot be had, or the audio is not finite.
    """
    from kokoro_nb.listening.recogniser import load_whisper
    from kokoro_nb.listening.transcript import transcribe as hear

    return hear(load_whisper(model) if isinstance(model, str | Path) else model, audio, sr, words)


def deliver(
    kokoro: "Kokoro",
    client: str,
    folder: str | Path,
    voices: Sequence[str] = (),
    dtype: "Dtype" = "float32",
    force: bool = False,
    **options: Any,
) -> "Contract | ClientDelivery":
    """Write a complete, checksummed folder that a program loads and speaks with, whole or not at all.

    Parameters
    ----------
    kokoro : Kokoro
        What `load_model` returned.
    client : str
        The program, of `kokoro_nb.delivery.clients.known_clients.CLIENTS`, with or without a version
        (``kokoro-onnx==0.5``), or ``say`` for the two exported stages that `say` speaks with.
    folder : path
        Absent or empty, unless `force` is given.
    voices : sequence of str
        Names; the first is the default of the delivery.
    dtype : {"float32", "float16", "int8"}
        How the weights are stored; the arithmetic stays float32, but for ``fluidaudio`` and ``kokoro-coreml``, whose
        programs compute in it. Not for ``say``.
    force : bool
        Replace what is in the folder, whole.
    **options
        For ``say`` further fields of `kokoro_nb.delivery.export.Delivery`: ``backend``, ``host``, ``at_har``,
        ``tokens``, ``seconds``, ``any_length``, ``g2p``, ``fast``. For the others ``noise``, ``words`` and ``room``:
        see `kokoro_nb.delivery.clients.client_delivery.deliver_to`.

    Raises
    ------
    InputError
        If the client, a voice, the dtype or a size is not valid, the folder is not empty, or a program cannot be
        exported.
    """
    from kokoro_nb.delivery.clients.client_delivery import deliver_to, require_free
    from kokoro_nb.delivery.export import Delivery
    from kokoro_nb.delivery.export import deliver as write

    if client != "say":
        return deliver_to(kokoro, client, folder, voices, dtype, force, **options)
    if dtype != "float32":
        raise InputError(f"The programs of 'say' are float32, not {dtype}; leave the dtype out.")
    require_free(Path(folder), force)
    return write(kokoro, Delivery(**{"backend": "onnxruntime", **options}, voices=tuple(voices) or ("",)), folder)


def bench(suites: Sequence[str] = (), **options: Any) -> "dict[str, list[BenchmarkTable]]":
    """Measure time, memory and error of exports, as ratios within this run.

    Parameters
    ----------
    suites : sequence of str
        Of `kokoro_nb.benchmarks.SUITES`; ``decoders``, ``text-to-audio`` and ``profiles`` by default.
    **options
        Fields of `kokoro_nb.benchmarks.suite.BenchmarkOptions`: ``weights``, ``lengths`` (s), ``backends`` ...

    Returns
    -------
    dict
        Suite -> its tables, each with a caption, rows, and why a program is not among them.

    Raises
    ------
    InputError
        If a suite, a backend, a length or the weights are unknown.
    """
    from kokoro_nb.benchmarks import DEFAULT_SUITES
    from kokoro_nb.benchmarks.suite import BenchmarkOptions, run

    try:
        chosen = BenchmarkOptions(**options)
    except TypeError as error:
        raise InputError(f"An option of bench is not known ({error}); see BenchmarkOptions.") from error
    return run(suites or DEFAULT_SUITES, chosen)[1]


def say(text: str, delivery: str | Path, voice: str = "", speed: float = 1.0, seed: int = 0) -> "np.ndarray":
    """Speak a text with the programs of a delivered folder alone.

    Parameters
    ----------
    text : str
        Of any length.
    delivery : path
        What `deliver` wrote for the client ``say``.
    voice : str
        One of its voices; the first by default.
    speed : float
        2 is twice as fast.
    seed : int
        Of the source's noise.

    Returns
    -------
    numpy.ndarray, shape (samples,), float32
        Audio at the contract's sampling rate (24 kHz), full scale 1.
    """
    from kokoro_nb.delivery.pipeline import TwoStages

    return TwoStages(delivery).speak(text, voice, speed, seed)
