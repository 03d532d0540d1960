"""ExecuTorch programs: instructions judged one by one, delegates named as what cannot be seen into."""

from dataclasses import replace

import pytest
import torch

import kokoro_nb as nb
from kokoro_nb.inspection.formats import read_program
from kokoro_nb.inspection.formats.pte_file import PteFile
from tests.backends.small import Of, Past
from tests.corpus.forms import portable_pte

pytest.importorskip("executorch")


def test_a_kernel_that_gives_a_list_is_judged(tmp_path):
    def parts(x):
        first, second = x.chunk(2, dim=1)
        return first * second.sin()

    report = nb.inspect(portable_pte(Of(parts), {"x": torch.randn(2, 8)}, tmp_path / "parts.pte"))
    assert report.verdict == "pass"
    assert "aten::split_with_sizes_copy.out" in {one.operator for one in report.judgements}


@pytest.mark.parametrize(("kind", "verdict"), [("argmax", "pass"), ("argmin", "fail")])
def test_a_choice_among_equals_that_are_computed_twice_accuses_no_healthy_file(tmp_path, kind, verdict):
    weight, inputs = torch.randn(8, 6), {"x": torch.randn(4, 7, 8)}

    def chosen(name):
        return Of(lambda x: getattr(torch.cat([3 * x @ weight / 3, x @ weight], -1), name)(-1))

    path = portable_pte(chosen(kind), inputs, tmp_path / "chosen.pte")
    assert nb.inspect(path, against=(chosen("argmax"), inputs)).verdict == verdict


def test_a_delegate_is_judged_by_what_it_gives_and_its_nodes_are_compared(pte, voice):
    report = nb.inspect(pte(delegate=True), against=voice)
    assert (report.verdict, report.findings) == ("pass", ())
    assert "XnnpackBackend" in {one.operator for one in report.judgements}
    assert any("are delegates, whose inside no tracer shows" in note for note in report.notes)
    nodes = read_program(pte(delegate=True)).compared().nodes
    assert {"XNNConv2d", "aten::cumsum.out"} <= {one.operator for one in nodes}
    assert any("/" in one.key for one in nodes)


def test_a_delegate_without_a_graph_is_named_with_its_reason_and_the_rest_is_judged(pte, monkeypatch):
    monkeypatch.setattr("kokoro_nb.inspection.formats.xnnpack_graph.XnnDelegate.name", "AnotherBackend")
    report = nb.inspect(pte(delegate=True))
    assert report.findings == ()
    assert report.verdict == "unknown"
    reasons = {one.operator: one.reason for one in report.unjudged}
    assert reasons == {"XnnpackBackend": "a delegate (XnnpackBackend) computes it, and shows its results alone"}
    judged = [one for one in report.judgements if one.verdict == "pass"]
    assert judged[-1].operator == "aten::cumsum.out"


@pytest.mark.parametrize("factor", [1 + 1e-4, float("nan")])
def test_a_wrong_kernel_is_named(pte, monkeypatch, factor):
    program = read_program(pte())
    real = PteFile.run

    def spoilt(self, inputs):
        run = real(self, inputs)
        return replace(run, captured={**run.captured, "4:sin": run.captured["4:sin"] * factor})

    monkeypatch.setattr(PteFile, "run", spoilt)
    made = program.made()
    report = program.report(made, program.examined(made.arrays))
    assert (report.first.key, report.first.operator, report.first.blame) == ("forward_0_4", "aten::sin.out", "runtime")


@pytest.mark.parametrize(
    ("start", "kept", "named"),
    [
        pytest.param(0.0, 1.0, "", id="the buffer's"),
        pytest.param(1.5, 1.0, "(aten::cat.out)", id="zeros in its place"),
        pytest.param(0.0, 0.5, "(aten::mul.out)", id="another new value, which only a later call shows"),
    ],
)
def test_a_state_is_compared_with_the_buffer_at_its_start_and_as_an_output(start, kept, named, tmp_path):
    from executorch.exir import to_edge

    path, inputs = tmp_path / "past.pte", {"x": torch.randn(1, 3, 5)}
    path.write_bytes(to_edge(torch.export.export(Past((1, 3, 2), start, kept), (), inputs)).to_executorch().buffer)
    assert nb.inspect(path).verdict == "pass"
    report = nb.inspect(path, against=(Past((1, 3, 2), start), inputs))
    assert report.verdict == ("fail" if named else "pass")
    assert not named or named in report.findings[0].statement
