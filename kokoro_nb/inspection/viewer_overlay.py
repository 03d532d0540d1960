"""Node data for Model Explorer and an attachment for Netron, under the ids that both know the nodes by."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.inspection.inspection_facts import InspectionFacts
from kokoro_nb.inspection.node_judgement import NodeJudgement
from kokoro_nb.markup import number
from kokoro_nb.storage import atomic

GREEN, RED, PURPLE, GREY = "#2e7d32", "#c62828", "#6a1b9a", "#9e9e9e"
LAST = 1e308  # above the last threshold Model Explorer colours nothing


def write_overlay(report: InspectionFacts, folder: Path) -> tuple[Path, ...]:
    """Write the files and return their paths."""
    columns = {
        "local_error": ("local error / rounding", _ratio),
        "inherited_error": ("inherited error, of the peak", lambda one: one.inherited),
    }
    paths = []
    folder.mkdir(parents=True, exist_ok=True)
    for name, (title, figure) in columns.items():
        graphs = _graphs(report)
        data = {graph: node_data(judgements, title, figure) for graph, judgements in graphs.items()}
        paths.append(_write(folder / f"{name}.json", data))
    paths.append(_write(folder / "blame.json", _blame(report)))
    paths.append(_write(folder / "netron.json", netron(report)))
    return tuple(paths)


def _graphs(report: InspectionFacts) -> dict[str, dict[str, NodeJudgement]]:
    """Return the nodes by their ids in each graph: the body of a loop is a graph of its own, a branch is not.

    A function is a graph of its own, too: its nodes, and the calls of it, show what is worst in any call.
    """
    found: dict[str, dict[str, NodeJudgement]] = {report.graph: {}}
    for judgement in report.judgements:
        for graph, key in _places(report, judgement.key):
            held = found.setdefault(graph, {})
            if key not in held or _size(judgement) > _size(held[key]):
                held[key] = judgement
    for run in report.bodies:
        places = _places(report, run.key)
        if len(places) > 1:
            continue  # inside of a function, of whose bodies viewers show nothing
        ((graph, key),) = places
        place = f"{key}/{run.attribute}"
        if run.attribute == "body":
            found[place] = {one.key: one for _, one in run.worst}
        else:
            found[graph] |= {f"{place}/{one.key}": one for _, one in run.worst}
    return found


def _places(report: InspectionFacts, key: str) -> tuple[tuple[str, str], ...]:
    return report.places.get(key, ((report.graph, key),))


def _size(judgement: NodeJudgement) -> float:
    ratio = _ratio(judgement)
    return -1.0 if ratio is None else float("inf") if np.isnan(ratio) else ratio


def _write(path: Path, content: Any) -> Path:
    with atomic(path) as draft:
        draft.write_text(json.dumps(content, allow_nan=False), encoding="utf-8")
    return path


def _ratio(judgement: NodeJudgement) -> float | None:
    return judgement.worst.ratio if judgement.worst else None


def node_data(
    judgements: Mapping[str, NodeJudgement], title: str, figure: Callable[[NodeJudgement], float | None]
) -> dict[str, Any]:
    """Return one column of Model Explorer: a figure for each node, or in words why there is none."""
    results: dict[str, Any] = {}
    for key, judgement in judgements.items():
        value = figure(judgement)
        if value is None:
            results[key] = {"value": judgement.reason or "not known", "bgColor": GREY}
        elif not np.isfinite(value):
            results[key] = {"value": "finite and not finite differ", "bgColor": PURPLE}
        else:
            results[key] = {"value": float(value)}
    limit = 1.0 if figure is _ratio else 1e-3
    return {
        "name": title,
        "thresholds": [{"value": limit, "bgColor": GREEN}, {"value": LAST, "bgColor": RED}],
        "results": results,
    }


def _blame(report: InspectionFacts) -> dict[str, Any]:
    results: dict[str, dict[str, Any]] = {report.graph: {}}
    for one in report.findings:
        for graph, key in _places(report, one.key) if one.key else ():
            held = results.setdefault(graph, {})
            held.setdefault(key, {"value": f"{one.blame}: {one.statement}", "bgColor": RED})
    return {graph: {"name": "blame", "results": held} for graph, held in results.items()}


def netron(report: InspectionFacts) -> dict[str, Any]:
    """Return the attachment: the figures of each value that a node gives; Netron knows unnamed nodes by those alone."""
    metrics, metadata = [], []
    for judgement in report.judgements:
        for one in judgement.outputs:
            about = {"kind": "value", "target": one.name}
            metrics.append({**about, "name": "local error / rounding", "value": number(one.ratio)})
            metrics.append({**about, "name": "finite", "value": f"{one.finite:.4%}"})
    found = {finding.index: finding for finding in report.findings}
    for judgement in report.judgements:
        if judgement.index in found and judgement.outputs:
            about = {"kind": "value", "target": judgement.outputs[0].name}
            metadata.append({**about, "name": "finding", "value": found[judgement.index].statement})
    return {"signature": "netron:attachment", "metrics": metrics, "metadata": metadata}
