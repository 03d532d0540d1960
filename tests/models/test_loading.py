import pytest
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import build, narrow_config
from kokoro_nb.models.loading import POSITION_IDS, LoadingError, load_state


@pytest.fixture
def blank():
    """Return the narrowest model, whose weights mean nothing."""
    return build(narrow_config(36))


@pytest.fixture
def state(blank):
    return {key: tensor.clone() + 1 for key, tensor in blank.state_dict().items()}


def test_only_instance_norm_may_be_absent_and_only_position_ids_superfluous(blank, state):
    norms = [key for key in state if key.split(".")[-2] == "norm"]
    assert len(norms) == 2 * 70
    untouched = {key: blank.state_dict()[key].clone() for key in norms}
    load_state(
        blank, {key: tensor for key, tensor in state.items() if key not in norms} | {POSITION_IDS: None}, "w.pth"
    )
    loaded = blank.state_dict()
    assert all(torch.equal(loaded[key], untouched[key]) for key in norms)
    assert all(torch.equal(loaded[key], state[key]) for key in set(state) - set(norms))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"text_encoder.lstm": None}, r"missing text_encoder\.lstm\..* and 5 more; use the weights and"),
        (
            {"decoder.strange": torch.ones(1), "bert_encoder.bias": None},
            r"missing bert_encoder\.bias; unexpected decoder\.strange; use",
        ),
        ({"bert_encoder.bias": torch.ones(3)}, r"in w\.pth has the shape \(3,\), the model needs \(20,\)"),
        ({"bert_encoder.bias": torch.full((20,), torch.nan)}, r"'bert_encoder\.bias' in w\.pth holds NaN or infinity"),
    ],
)
def test_what_does_not_fit_is_named(blank, state, changed, words):
    gone = tuple(key for key, tensor in changed.items() if tensor is None)
    state = {key: tensor for key, tensor in state.items() if not gone or not key.startswith(gone)}
    state |= {key: tensor for key, tensor in changed.items() if tensor is not None}
    with pytest.raises(InputError, match=words):
        load_state(blank, state, "w.pth")


def test_the_report_names_what_became_of_every_key(blank, state):
    gone = ("text_encoder.lstm.weight_ih_l0", "decoder.encode.norm1.norm.weight")
    for key in gone:
        del state[key]
    state |= {"decoder.strange": torch.ones(1), POSITION_IDS: torch.ones(1), "bert_encoder.bias": torch.ones(3)}
    state["predictor.lstm.bias_hh_l0"][0] = float("nan")
    state["predictor.lstm.weight_hh_l0"] = state["predictor.lstm.weight_hh_l0"].half()
    before = {key: tensor.clone() for key, tensor in blank.state_dict().items()}
    with pytest.raises(LoadingError, match=r"missing text_encoder\.lstm\.weight_ih_l0; unexpected") as caught:
        load_state(blank, state, "w.pth")
    report = caught.value.report
    assert (report.missing, report.constant) == (gone[:1], gone[1:])
    assert (report.unexpected, report.superfluous) == (("decoder.strange",), (POSITION_IDS,))
    assert report.wrong_shape == {"bert_encoder.bias": ((3,), (20,))}
    assert report.not_finite == ("predictor.lstm.bias_hh_l0",)
    assert report.dtypes == ("float16", "float32")
    assert len(report.used) == len(state) - 2
    outcomes = {row["keys"]: row["which"] for row in report.rows()}
    assert outcomes["of another shape"] == "bert_encoder.bias (3,), not (20,)"
    assert outcomes["missing"] == gone[0]
    assert all(torch.equal(tensor, before[key]) for key, tensor in blank.state_dict().items()), "nothing half-loaded"


def test_a_filter_of_zeros_stays_zero(blank, state):
    name = "decoder.encode.conv1"
    state[f"{name}.weight_v"][[1, 4]] = 0
    report = load_state(blank, state, "w.pth")
    assert report.zero_filters == {name: 2}
    features = torch.ones(1, blank.decoder.encode.conv1.in_channels, 5)
    given = blank.decoder.encode.conv1(features)
    bias = state[f"{name}.bias"]
    assert torch.isfinite(given).all()
    assert torch.equal(given[0, [1, 4]], bias[[1, 4], None].expand(2, 5))
    unmended = build(narrow_config(36))
    unmended.load_state_dict(state)  # the control: what torch makes of it
    assert torch.isnan(unmended.decoder.encode.conv1(features)[0, [1, 4]]).all()
