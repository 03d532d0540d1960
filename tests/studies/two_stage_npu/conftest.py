"""A small delivery of two stages."""

import pytest

from kokoro_nb.delivery.export import Delivery, deliver
from kokoro_nb.delivery.pipeline import TwoStages


@pytest.fixture(scope="package")
def speaker(shallow, tmp_path_factory):
    place = tmp_path_factory.mktemp("delivered") / "shallow"
    deliver(shallow, Delivery("onnxruntime", tokens=12, seconds=(1.5,)), place)
    return TwoStages(place)
