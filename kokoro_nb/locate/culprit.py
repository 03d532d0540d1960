"""An operator that is wrong: how far, by which mechanism, and the known defect that it is."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.called_operators import arguments_by_name
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.segment import result_nodes
from kokoro_nb.defects import DEFECTS
from kokoro_nb.errors import InputError
from kokoro_nb.findings import Verdict
from kokoro_nb.traces.statistics import describe, share_of_peak
from kokoro_nb.traces.trace import Operator, Tap

Kind = Literal["nonfinite", "divergence"]
_Rounded = Literal["one-pass variance", "overflow of the dtype", "too few bits", "accumulated phase"]
_Kept = Literal["padding leaking through statistics", "wrong at an edge", "stale memory", "lost state", "frozen length"]
_Changed = Literal["changed constant", "changed layout or shift", "changed scale", "operator lowered as another"]
_Other = Literal["branch cut of atan2", "division by zero", "baked-in random numbers", "another shape or dtype"]
Name = Literal[_Rounded, _Kept, _Changed, _Other, "quantisation range", "not supported", "operators joined", "unknown"]
NAMES: tuple[Name, ...] = get_args(Name)


@dataclass(frozen=True)
class Mechanism:
    """What happened in an operator, as far as the evidence goes.

    Attributes
    ----------
    name : str
        One of `NAMES`.
    statement : str
        What happened here, in a few words.
    evidence : tuple of str
        Observations that speak for it.
    defect : str or None
        Name of the known defect (`kokoro_nb.defects`), where operator and tool are those of the defect.
    threads : tuple of str
        Public threads about it, ``owner/repository#number``.
    against : tuple of str
        Observations that speak against it.
    explained : float
        Share of the operator's own error that is gone where what the statement says is computed, 0 to 1; NaN where it
        cannot be computed.
    """

    name: Name
    statement: str
    evidence: tuple[str, ...] = ()
    defect: str | None = None
    threads: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    explained: float = float("nan")

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise InputError(f"'{self.name}' is no mechanism; use one of {', '.join(NAMES)}.")

    def __str__(self) -> str:
        return f"{self.statement} ({'; '.join(self.evidence)})" if self.evidence else self.statement

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, as of a table or JSON."""
        row: dict[str, Any] = {"name": self.name, "statement": self.statement}
        row |= {"evidence": list(self.evidence), "against": list(self.against)}
        row |= {"explained (of the operator's error)": self.explained}
        return row | {"known defect": self.defect, "threads": list(self.threads)}


UNKNOWN = Mechanism("unknown", "no known mechanism explains it")
ROUNDED = Mechanism("too few bits", "a result rounded to 16 bits")


def likeliest(mechanisms: tuple[Mechanism, ...]) -> Mechanism:
    """Return the first of those that are ordered by evidence which explains most of the error, or `UNKNOWN`."""
    return next((one for one in mechanisms if not one.explained < 0.5), UNKNOWN)


@dataclass(frozen=True)
class Culprit:
    """One operator that is wrong.

    Attributes
    ----------
    kind : str
        ``nonfinite`` or ``divergence``.
    verdict : str
        ``fail``: this operator is wrong; ``unknown``: which of several it is is not known.
    backend : str
        Whose run it was.
    tap : Tap
        The operator, with what was captured of it.
    candidates : tuple of str
        Operators of which one is wrong: the tap alone, or with those that were not captured before it.
    channels : str
        Where it is wrong, in words.
    local_error, inherited_error : float or None
        Largest difference, of the peak of what is right: by the operator itself on its own inputs, and by what it was
        given, against the reference. None where it was not measured.
    ratio : float or None
        The local error, as a multiple of the rounding-error bound.
    upstream : tuple of str
        What it was computed from, as far as captured.
    reaches_output : bool or None
        Whether the outputs of the run are wrong as well; None where that was not looked at.
    mechanisms : tuple of Mechanism
        What the evidence speaks for, the best supported first.
    reason : str
        Why the verdict is ``unknown``.
    effect : float or None
        Share of the output's error that is gone when this operator alone gives what is right; where the output is not
        finite, share of its non-finite elements that become finite. None where it was not measured.
    alone : float or None
        Error of the output, of its peak, when this operator alone is wrong; NaN where that makes it non-finite.
    source : str
        Line of the model's code that calls the operator, ``vocoder.py:12``; empty where it is not known.
    seen_in : str
        The captured operator whose result shows it, where its own was not captured; empty where it was.
    """

    kind: Kind
    verdict: Verdict
    backend: str
    tap: Tap
    candidates: tuple[str, ...] = ()
    channels: str = ""
    local_error: float | None = None
    inherited_error: float | None = None
    ratio: float | None = None
    upstream: tuple[str, ...] = ()
    reaches_output: bool | None = None
    mechanisms: tuple[Mechanism, ...] = ()
    reason: str = ""
    effect: float | None = None
    alone: float | None = None
    source: str = ""
    seen_in: str = ""

    @property
    def name(self) -> str:
        """Name of the operator."""
        return self.tap.name

    @property
    def captured(self) -> str:
        """The captured operator whose result shows it."""
        return self.seen_in or self.name

    @property
    def mechanism(self) -> Mechanism:
        """The likeliest mechanism; ``unknown`` where the evidence speaks for none."""
        return likeliest(self.mechanisms)

    @property
    def statement(self) -> str:
        """The finding in one sentence."""
        what = "not finite" if self.kind == "nonfinite" else "wrong"
        unseen = len(self.candidates) - 1
        others = f", or one of {unseen + 1} of which it is the last that was captured," if unseen else ""
        where = f": {self.channels}" if self.channels else ""
        masked = "; the output does not show it" if self.reaches_output is False else ""
        return f"On {self.backend} {self.name}{others} is the first operator that is {what}{where}{masked}."

    @property
    def figures(self) -> tuple[str, ...]:
        """What was measured of it, in words: its effect on the output, and its local and inherited error."""
        found = []
        if self.local_error is not None:
            local = "not finite" if np.isnan(self.local_error) else share_of_peak(self.local_error)
            inherited = "not measured" if self.inherited_error is None else share_of_peak(self.inherited_error)
            found.append(f"local error {local}, inherited error {inherited}")
        if self.effect is not None and not self.effect <= 0:
            found.append(f"effect: {100 * self.effect:.3g} % of the output's error is gone when it alone is right")
        elif self.alone is not None:
            alone = "not finite" if np.isnan(self.alone) else f"off by {share_of_peak(self.alone, 'its')}"
            found.append(f"effect: when it alone is wrong, the output is {alone}")
        return tuple(found)

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as plain values, as of a table or JSON."""
        row: dict[str, Any] = {"kind": self.kind, "verdict": self.verdict, "backend": self.backend}
        row |= {"tap": self.tap.name, "op": self.tap.op, "module path": self.tap.module_path}
        row |= {"candidates": list(self.candidates), "channels": self.channels}
        row |= {"local error (of peak)": self.local_error, "inherited error (of peak)": self.inherited_error}
        row |= {"local error / rounding": self.ratio, "reaches the output": self.reaches_output}
        row |= {"effect (of the output's error)": self.effect, "figures": list(self.figures), "source": self.source}
        return row | {"mechanism": self.mechanism.as_dict(), "mechanisms": [one.name for one in self.mechanisms]}


def wrong_at(tap: Tap, backend: str, mechanisms: tuple[Mechanism, ...], **about: Any) -> Culprit:
    """Return an operator that is wrong, and that the outputs show, as a culprit; `about` goes before."""
    known = {"candidates": (tap.name,), "upstream": tap.operator.inputs, "reaches_output": True}
    return Culprit("divergence", "fail", backend, tap, mechanisms=mechanisms, **{**known, **about})


def unseen_at(operator: Operator, backend: str, mechanism: Mechanism, text: str) -> Culprit:
    """Return an operator that is wrong, and whose result was not captured, as a culprit; `text` says where or how."""
    return wrong_at(Tap(operator, describe(np.empty(0))), backend, (mechanism,), channels=text)


OF_THE_FILE = ("changed constant", "frozen length", "quantisation range")  # no defect of a tool by themselves


def known_defect(failure: Failure | None, culprits: Sequence[Culprit] = ()) -> dict[str, Any] | None:
    """Return the known defect whose message a failed export shows, else that of the first culprit that is one.

    Its name, title and threads; None if there is none.
    """
    named = [one.mechanism.defect for one in culprits if one.mechanism.defect][:1]
    found = [one for one in DEFECTS if one.name in named]
    if failure is not None:
        stated = [one for one in DEFECTS if one.error and failure.backend.startswith(one.backends)]
        found = [one for one in stated if re.search(one.error, failure.message)]
    return next(({"name": one.name, "title": one.title, "threads": list(one.threads)} for one in found), None)


def with_known_defect(culprit: Culprit, exported: Exported, failure: Failure | None = None) -> Culprit:
    """Return a culprit whose mechanisms name the known defects that they are cases of.

    Where the evidence speaks for no mechanism, a defect that is about the operator alone is named all the same.

    Parameters
    ----------
    culprit : Culprit
        The operator.
    exported : Exported
        The program, in which the operator is called with its arguments.
    failure : Failure, optional
        With which the export stopped at this operator.
    """
    if exported.named_by is not None:
        return culprit  # what was changed on purpose is no defect of the runtime
    op = culprit.tap.operator.kind
    node = result_nodes(exported).get(culprit.name)
    arguments = {} if node is None else arguments_by_name(node.target, node.args, node.kwargs)
    arguments |= {"rounding_mode": "floor"} if op == "floor_divide" else {}
    said = "" if failure is None else f"{failure.error}: {failure.message}\n{failure.cause}"
    about = [one for one in DEFECTS if op in one.operators and culprit.backend.startswith(one.backends)]
    known = [one for one in about if one.concerns(arguments) and re.search(one.error, said)]
    known = [one for one in known if bool(one.error) == (failure is not None)]  # of a failure its error alone
    found = []
    for mechanism in culprit.mechanisms:
        may = () if mechanism.name in OF_THE_FILE else ("", mechanism.name)
        linked = next((one for one in known if one.mechanism in may), None)
        found.append(mechanism if linked is None else replace(mechanism, defect=linked.name, threads=linked.threads))
    alone = next((one for one in known if not one.mechanism), None)
    if culprit.mechanism.name == "unknown" and alone is not None:
        text = f"{alone.title}: {alone.cause}"
        words = "a known defect of this operator"
        found.insert(0, Mechanism("operator lowered as another", words, (text,), alone.name, alone.threads))
    return replace(culprit, mechanisms=tuple(found))
