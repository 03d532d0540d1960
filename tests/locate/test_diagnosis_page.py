"""The first screen says what is wrong, why and what cures it."""

import torch

from kokoro_nb.locate import diagnose
from kokoro_nb.locate.diagnosis import card

POINTS = {"y": torch.tensor([[0.0, 0, 1, 2, -1, 0, 0, 0]]), "x": torch.tensor([[-1.0, -2, 3, 4, 5, -3, -4, 1]])}


class Angle(torch.nn.Module):
    def forward(self, y, x):
        return torch.atan2(y, x) * 2


def test_the_card_of_a_sick_export_and_of_a_healthy_one():
    found = diagnose(Angle(), POINTS, "onnxruntime", remedies=True)
    text = repr(card(found))
    for said in (
        "culprit: :atan2 (aten.atan2.default · test_diagnosis_page.py:",
        "mechanism: branch cut of atan2",
        "known defect: onnx_atan2_branch_cut",
        "remedy: :atan2 is written in another form",
        "output: 'output' is off by 2 of its peak (allowed are ",
    ):
        assert said in text
    assert "next step" not in text
    healthy = repr(card(diagnose(Angle(), {"y": POINTS["x"], "x": POINTS["x"].abs()}, "onnxruntime")))
    assert healthy.startswith("PASS: No operator is wrong on onnxruntime")
    assert "culprit" not in healthy
