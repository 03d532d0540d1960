"""What is measured in one run, in sections, and what a stored result shows as tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from kokoro_nb.backends.base import quietly
from kokoro_nb.benchmarks import decoders, graph_patches, omissions, precisions, speaking, word_errors
from kokoro_nb.benchmarks.decoders import BACKENDS, ROUNDS, Decoders, frames_of
from kokoro_nb.benchmarks.families import shares
from kokoro_nb.benchmarks.interleaved import LIMIT
from kokoro_nb.benchmarks.profiles import Profile, profile
from kokoro_nb.benchmarks.startup import MODULES, Kept, imports, kept
from kokoro_nb.benchmarks.word_errors import COUNT
from kokoro_nb.delivery.export import TOKENS
from kokoro_nb.errors import InputError

Part = Literal[
    "exports", "floor", "families", "changes", "fewer", "precisions", "hearing", "looking", "locating", "waiting"
]
PARTS: tuple[Part, ...] = get_args(Part)
LOOKED = ("eager", "onnxruntime", "coreml-reference")  # backends that show their operators
QUICK = ("onnxruntime",)  # to compile
SHOWN = 10  # layers
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Asked:
    """What is to be measured.

    Attributes
    ----------
    parts : sequence of str
        ``exports``: time and memory of the decoder and of text to audio on every backend. ``floor``: how far each is
        from what the machine can do. ``families``: where each spends its time. ``changes``: what other patches bring.
        ``fewer``: what can be left out, and how soon a first part is there.
        ``precisions``: what numbers of fewer bits bring, on ONNX Runtime and in eager. ``hearing``: what Whisper makes
        of them. ``looking``: what a trace of all operators costs. ``locating``: what finding a wrong operator costs,
        against the size of the program. ``waiting``: what imports take, and exports that are made again or found again.
    weights : str
        See `models.kokoro.load_model`.
    lengths : sequence of float
        Seconds of audio; all but exports and floor take the first.
    backends : sequence of str
        Keys of `BACKENDS`; by default `decoders.BACKENDS`, `changes.BACKENDS` for changes, `LOOKED` for looking and
        `QUICK` for fewer and locating.
    rounds, limit
        See `timing.in_turn`.
    seed : int
        Of random weights and of the source's noise.
    phrases : int
        How many are heard in each precision.
    tokens : int
        Room of the first of the two stages.
    modules : sequence of str
        Whose imports are waited for.
    folder : path, optional
        Where the decoders' artefacts are kept.
    """

    parts: Sequence[Part] = ("exports", "floor", "families")
    weights: str = "mini"
    lengths: Sequence[float] = (1.0, 3.0)
    backends: Sequence[str] | None = None
    rounds: int = ROUNDS
    limit: float = LIMIT
    seed: int = 0
    phrases: int = COUNT
    tokens: int = TOKENS
    modules: Sequence[str] = MODULES
    folder: str | Path | None = field(default=None, compare=False)


def run(asked: Asked) -> tuple[str, dict[str, Any]]:
    """Measure what is asked for.

    Returns
    -------
    str, dict
        Label of the weights; the sections of a result, ready for `store.record`: ``decoders`` and ``speaking``, each a
        list with an entry for each length, and one for each other part, by its name.

    Raises
    ------
    InputError
        If a part, a backend, a length or the weights are unknown.
    """
    unknown = ", ".join(part for part in asked.parts if part not in PARTS)
    if unknown or not asked.parts or not asked.lengths:
        raise InputError(f"'{unknown or 'nothing'}' cannot be measured; ask for {', '.join(PARTS)} of some seconds.")
    for length in asked.lengths:
        frames_of(length)
    from kokoro_nb.models.kokoro import load_model

    with quietly():
        kokoro = load_model(asked.weights, asked.seed)
    sections: dict[str, Any] = {}
    if {"exports", "floor", "families"} & set(asked.parts):
        sections |= _decoders(kokoro, asked)
    if "exports" in asked.parts:
        sections["speaking"] = list(_speaking(kokoro, asked))
    if "changes" in asked.parts:
        sections["changes"] = _changes(kokoro, asked)
    if "fewer" in asked.parts:
        sections["fewer"] = _fewer(kokoro, asked)
    if "precisions" in asked.parts:
        sections["precisions"] = _precisions(kokoro, asked)
    if "hearing" in asked.parts:
        rows = word_errors.measure(kokoro, count=asked.phrases, seed=asked.seed, folder=asked.folder)
        sections["hearing"] = [row.as_dict() for row in rows]
    if "looking" in asked.parts:
        sections["looking"] = _looking(kokoro, asked)
    if "locating" in asked.parts:
        sections["locating"] = {name: _locating(name, asked) for name in asked.backends or QUICK}
    if "waiting" in asked.parts:
        sections["waiting"] = _waiting(kokoro, asked)
    return kokoro.weights.label, sections


def profiles(measured: Decoders) -> tuple[dict[str, Profile], dict[str, str]]:
    """Return where each timed program spends its time, and why of some it is not known."""
    told = {name: profile(program, measured.inputs) for name, program in measured.programs.items()}
    known = {name: each for name, each in told.items() if isinstance(each, Profile)}
    return known, {name: each for name, each in told.items() if isinstance(each, str)}


def _decoders(kokoro: Any, asked: Asked) -> dict[str, Any]:
    backends, slow = asked.backends or BACKENDS, dict[str, float]()
    timing = {"exports", "floor"} & set(asked.parts)
    sections: dict[str, Any] = {"decoders": []} if timing else {}
    for place, length in enumerate(asked.lengths if timing else asked.lengths[:1]):
        given = (kokoro, length, backends, asked.rounds if timing else 1, asked.seed, asked.limit)
        measured = decoders.measure(*given, "exports" in asked.parts, slow, asked.folder)
        slow |= {row.program: row.real_time for row in measured.rows}
        if timing:
            sections["decoders"].append(measured.as_dict())
        if place == 0 and "families" in asked.parts:
            known, skipped = profiles(measured)
            told = {name: each.as_dict() for name, each in known.items()}
            sections["families"] = {"length": length, "profiles": told, "skipped": {**measured.skipped, **skipped}}
    return sections


def _speaking(kokoro: Any, asked: Asked) -> Iterator[dict[str, Any]]:
    slow: dict[str, float] = {}
    for length in asked.lengths:
        given = (kokoro, length, asked.backends or BACKENDS, asked.rounds, asked.seed, asked.limit)
        measured = speaking.measure(*given, slow=slow, tokens=asked.tokens)
        slow |= {row.program: row.real_time for row in measured.rows}
        yield measured.as_dict()


def _changes(kokoro: Any, asked: Asked) -> dict[str, Any]:
    length, names = asked.lengths[0], asked.backends or graph_patches.BACKENDS
    given = (kokoro, length, names, asked.rounds, asked.seed, asked.limit)
    rows, skipped = graph_patches.measure(*given, folder=asked.folder)
    return {"length": length, "rows": [row.as_dict() for row in rows], "skipped": skipped}


def _fewer(kokoro: Any, asked: Asked) -> dict[str, Any]:
    length, names = asked.lengths[0], asked.backends or QUICK
    rows, skipped = omissions.measure(kokoro, length, names, asked.rounds, asked.seed, asked.limit, folder=asked.folder)
    return {"length": length, "rows": [row.as_dict() for row in rows], "skipped": skipped}


def _precisions(kokoro: Any, asked: Asked) -> dict[str, Any]:
    given = (precisions.PRECISIONS, asked.rounds, asked.seed, asked.limit, asked.folder)
    rows, layers = precisions.measure(kokoro, asked.lengths[0], *given)
    worst = [row.as_dict() for row in layers[: -SHOWN - 1 : -1]]
    return {"length": asked.lengths[0], "rows": [row.as_dict() for row in rows], "layers": worst}


def _looking(kokoro: Any, asked: Asked) -> Rows:
    from kokoro_nb.benchmarks.trace_overhead import trace_cost

    inputs = decoders.decoder_inputs(kokoro, frames_of(asked.lengths[0]), asked.seed)
    exported = decoders.exported_decoder(kokoro, inputs)
    rows = trace_cost(exported, inputs, asked.backends or LOOKED, asked.rounds, asked.folder)
    return [row.as_dict() for row in rows]


def _locating(name: str, asked: Asked) -> Rows:
    from kokoro_nb.benchmarks.localisation_cost import measure

    return [row.as_dict() for row in measure(name, seed=asked.seed)]


def _waiting(kokoro: Any, asked: Asked) -> dict[str, Any]:
    inputs = decoders.decoder_inputs(kokoro, frames_of(asked.lengths[0]), asked.seed)
    exports = list(kept(decoders.exported_decoder(kokoro, inputs), inputs, asked.backends or BACKENDS))
    return {
        "length": asked.lengths[0],
        "imports": [row.as_dict() for row in imports(asked.modules, asked.rounds)],
        "exports": [row.as_dict() for row in exports if isinstance(row, Kept)],
        "skipped": dict(row for row in exports if not isinstance(row, Kept)),
    }


def tables(result: Mapping[str, Any], parts: Sequence[Part] = PARTS) -> Iterator[tuple[str, Rows]]:
    """Yield caption and rows of each table of a result, as it was measured or as it was stored."""
    if "exports" in parts:
        for section, what in (("decoders", "Decoder from har"), ("speaking", "Text to audio")):
            for part in result.get(section, []):
                if part["rows"]:
                    length = part["rows"][0].get("room", part["rows"][0]["length"])
                    yield f"{what}, {length:g} s", [*map(_timed, part["rows"]), *_skipped(part["skipped"])]
    if "floor" in parts:
        for part in result.get("decoders", []):
            yield _floor_caption(part), [_over_floor(row, part) for row in part["rows"]]
            kinds = part["work"]["families"].items()
            yield f"Work of the decoder from har, {part['length']:g} s", [{"family": k, **v} for k, v in kinds]
    if "families" in parts and "families" in result:
        part = result["families"]
        rows = [_families(name, each) for name, each in part["profiles"].items()]
        yield (
            f"Share of the time in each family (%), decoder, {part['length']:g} s",
            [*rows, *_skipped(part["skipped"])],
        )
    if "changes" in parts and "changes" in result:
        part = result["changes"]
        yield f"Decoder from har, {part['length']:g} s, with other patches", [*part["rows"], *_skipped(part["skipped"])]
    if "fewer" in parts and "fewer" in result:
        part = result["fewer"]
        yield f"Decoder, {part['length']:g} s, with less to do", [*part["rows"], *_skipped(part["skipped"])]
    if "precisions" in parts and "precisions" in result:
        part = result["precisions"]
        yield f"Decoder from har, {part['length']:g} s, in other precisions", list(part["rows"])
        yield "Convolutions that bear int8 least", list(part["layers"])
    if "hearing" in parts and result.get("hearing"):
        yield "What Whisper makes of other precisions, decoder from har", list(result["hearing"])
    if "looking" in parts and result.get("looking"):
        yield "What looking into every operator costs", list(result["looking"])
    if "locating" in parts:
        for name, rows in result.get("locating", {}).items():
            yield f"What finding a wrong operator costs on {name}", list(rows)
    if "waiting" in parts and "waiting" in result:
        part = result["waiting"]
        yield "What the imports of a notebook take, package by package", list(part["imports"])
        caption = f"Exports of the decoder, {part['length']:g} s, made and found again"
        yield caption, [*part["exports"], *_skipped(part["skipped"])]


def _timed(row: Mapping[str, Any]) -> dict[str, Any]:
    ratio, memory = row["ratio"], row.get("memory", {})
    told = {"program": row["program"], "run (s)": float(row["seconds"]["median"])}
    told |= {"real-time factor": float(row["real_time_factor"]), "x eager": float(ratio["median"])}
    told |= {"from": float(ratio["low"]), "to": float(ratio["high"]), "rounds": ratio["rounds"]}
    if "error" in row:
        told |= {"error (of peak)": float(row["error"]), "size (MB)": row["size"] / 1e6}
    return told | {f"memory {name} (MB)": each for name, each in memory.items()}


def _floor_caption(part: Mapping[str, Any]) -> str:
    roofs, work = part["ceilings"], part["work"]
    told = f"Decoder from har, {part['length']:g} s: {work['flops'] / 1e9:.3g} GFLOP, "
    told += f"{work['least_bytes'] / 1e6:.3g} MB at least, {work['moved_bytes'] / 1e6:.3g} MB operator by operator; "
    return told + f"{roofs['gflops']:.3g} GFLOP/s and {roofs['gbytes']:.3g} GB/s on {roofs['threads']} threads"


def _over_floor(row: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    seconds, floors = float(row["seconds"]["median"]), part["floor_seconds"]
    told = {"program": row["program"], "run (s)": seconds, "x floor": seconds / floors["least"]}
    return {**told, "x floor, operators apart": seconds / floors["separate"]}


def _families(name: str, about: Mapping[str, Any]) -> dict[str, Any]:
    told = {kind: 100 * share for kind, share in shares(about["seconds"]).items()}
    return {"program": name, "told of": about["total"] / about["wall"], **told}


def _skipped(reasons: Mapping[str, str]) -> Rows:
    return [{"program": name, "skipped": reason} for name, reason in reasons.items()]
