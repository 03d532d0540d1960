"""Claims that the published architecture settles, whatever its weights: sizes, counts, operators, shares of compute.

It is built here at full size, with the values that its classes begin with.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from kokoro.model import KModel
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from kokoro_nb.models import model_cuts
from kokoro_nb.models.architecture import SAMPLE_RATE, STYLE, build, full_config
from kokoro_nb.models.case import Case
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.speaking import DurationStage
from kokoro_nb.studies.old_claims import reported_claims as reported
from kokoro_nb.studies.old_claims.reported_claims import Answer
from kokoro_nb.studies.two_stage_npu.npu_audit import NpuAudit
from kokoro_nb.studies.two_stage_npu.npu_fit import uncut_audit

NAMED = ("Loop", "If", "SplitToSequence", "ConcatFromSequence")  # what the note names as blocking
FRAMES = 24  # of the decoder whose work is counted; it is in proportion to them
MIB = 2**20


def architecture_answers(kokoro: Kokoro, case: Case) -> tuple[Answer, ...]:
    """Answer A2, D1, D2, D3 and E1.

    Parameters
    ----------
    kokoro : Kokoro
        Its operators are audited: how many there are does not depend on widths.
    case : Case
        Its numbers of tokens and frames weigh the two stages.
    """
    full = build(full_config())
    audit = uncut_audit(kokoro, kokoro.default_voice, 0)
    return (_decoder_size(full), _blocking(audit), _share(full, case), _hop(case), _parameters(full))


def _decoder_size(full: KModel) -> Answer:
    weights = sum(one.numel() for one in _folded(full.decoder)) * 4 / MIB
    apart = abs(weights / reported.PTE_MB - 1)
    return Answer(
        "A2",
        f"{weights:.2f} MiB of float32 weights, weight norm folded; full architecture",
        "confirmed" if apart < 0.01 else "refuted",
        f"The weights alone are within {100 * apart:.2f} % of it; its MB are MiB.",
        {"MiB": weights, "apart": apart},
    )


def _folded(module: nn.Module) -> list[torch.Tensor]:
    """Return the parameters that are stored once weight norm is folded into one tensor for each layer."""
    return [one for name, one in module.named_parameters() if not name.endswith(("weight_g", "original0"))]


def _blocking(audit: NpuAudit) -> Answer:
    found = [node.op for node in audit.of("blocking")]
    named = sum(op in NAMED for op in found)
    others = sorted({op for op in found if op not in NAMED})
    whole = named == reported.BLOCKING and not others
    return Answer(
        "D1",
        f"{len(audit.nodes):,} nodes, of which {len(found)} block: {named} of the kinds that the note names, and "
        f"{', '.join(others) or 'no others'}",
        "confirmed" if whole else "refuted",
        "The same nodes." if whole else f"The kinds are right; {len(found) - named} nodes more work on sequences.",
        {"nodes": len(audit.nodes), "blocking": len(found), "named": named},
    )


def flops(full: KModel, tokens: int, frames: int) -> dict[str, float]:
    """Return the floating-point operations of both stages, those of products and convolutions.

    Parameters
    ----------
    full : kokoro.model.KModel
    tokens, frames : int
        Of an utterance.
    """
    with torch.device("meta"), torch.no_grad():  # shapes alone
        model = build(full_config())
        ids, style, one = torch.zeros(1, tokens, dtype=torch.long), torch.zeros(1, 2 * STYLE), torch.ones(1)
        duration = _counted(lambda: DurationStage(model)(ids, torch.full((1,), tokens), style, one))
        wide = torch.zeros(1, full.predictor.lstm.input_size, frames)
        prosody = _counted(lambda: model_cuts.prosody(model.predictor, wide, torch.zeros(1, STYLE)))
    with torch.no_grad():
        features = full.text_encoder.embedding.embedding_dim
        curve = torch.zeros(1, 2 * FRAMES)
        given = (torch.zeros(1, features, FRAMES), curve, curve, torch.zeros(1, STYLE))
        decoder = _counted(lambda: full.decoder(*given)) * frames / FRAMES
    return {"duration": duration, "acoustic": prosody + decoder}


def _counted(call: Callable[[], Any]) -> float:
    with FlopCounterMode(display=False) as counter:
        call()
    return float(counter.get_total_flops())


def _share(full: KModel, case: Case) -> Answer:
    tokens, frames = case.tensors["ids"].shape[1], case.frames
    work = flops(full, tokens, frames)
    share = 100 * work["duration"] / sum(work.values())
    low, high = reported.DURATION_SHARE
    return Answer(
        "D2",
        f"{share:.1f} % of {sum(work.values()) / 1e9:.0f} GFLOP: {tokens} tokens, {frames} frames; full architecture",
        "confirmed" if low <= share <= high else "refuted",
        "The share grows with the tokens for a frame, that is with the speed of speech.",
        {"share": share},
    )


def _hop(case: Case) -> Answer:
    hop = case.tensors["audio"].numel() / case.frames
    seconds = {frames: frames * hop / SAMPLE_RATE for frames in reported.BUCKETS}
    return Answer(
        "D3",
        f"{hop:g} samples for each frame; " + ", ".join(f"{n} frames are {s:g} s" for n, s in seconds.items()),
        "confirmed" if hop == reported.HOP else "refuted",
        "A frame is 25 ms: buckets that are sized by another hop hold more than twice what they say.",
        {"hop": hop, **{f"{n} frames": s for n, s in seconds.items()}},
    )


def _parameters(full: KModel) -> Answer:
    counts = {name: sum(one.numel() for one in part.parameters()) / 1e6 for name, part in full.named_children()}
    total = sum(counts.values())
    apart = np.max([abs(counts[name] - said) for name, said in reported.PARTS_M.items()])
    return Answer(
        "E1",
        f"{total:.1f} M: " + ", ".join(f"{name} {count:.1f}" for name, count in counts.items()),
        "confirmed" if abs(total / reported.PARAMETERS_M - 1) < 0.05 and apart < 1 else "refuted",
        "BERT has few parameters, which its layers share; most are the decoder's.",
        {"total": total, **counts},
    )
