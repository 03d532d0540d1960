"""One small module in every format, made once."""

import pytest
import torch


class Voice(torch.nn.Module):
    """A convolution, a norm, a sine, a linear layer and a running sum."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.linear = torch.nn.Conv1d(4, 6, 3, padding=1), torch.nn.Linear(10, 5)
        self.norm = torch.nn.InstanceNorm1d(6, affine=True)

    def forward(self, x):
        return torch.nn.functional.leaky_relu(self.linear(torch.sin(self.norm(self.conv(x))))).cumsum(-1)


@pytest.fixture(scope="session")
def voice():
    """Return the module."""
    return Voice().eval()


@pytest.fixture(scope="session")
def exported(voice):
    """Return its exported program."""
    return torch.export.export(voice, (torch.randn(1, 4, 10),))


@pytest.fixture(scope="session")
def pt2(exported, tmp_path_factory):
    """Return it as `torch.export.save` writes it."""
    path = tmp_path_factory.mktemp("pt2") / "voice.pt2"
    torch.export.save(exported, path)
    return path


@pytest.fixture(scope="session")
def pte(exported, tmp_path_factory):
    """Return a function that writes it for ExecuTorch, with or without XNNPACK, and returns the path."""
    folder = tmp_path_factory.mktemp("pte")

    def write(delegate=False):
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
        from executorch.exir import to_edge_transform_and_lower

        path = folder / f"voice_{delegate}.pte"
        if not path.exists():
            partitioner = [XnnpackPartitioner()] if delegate else []
            edge = to_edge_transform_and_lower(exported, partitioner=partitioner)
            path.write_bytes(edge.to_executorch().buffer)
        return path

    return write


@pytest.fixture(scope="session")
def mlpackage(tmp_path_factory):
    """Return a function that converts a module to a float16 package and returns its path."""

    def write(module, x, name):
        import coremltools as ct

        program = torch.export.export(module, (x,)).run_decompositions({})
        path = tmp_path_factory.mktemp("coreml") / f"{name}.mlpackage"
        model = ct.convert(
            program,
            convert_to="mlprogram",
            minimum_deployment_target=ct.target.iOS17,
            compute_precision=ct.precision.FLOAT16,
            skip_model_load=True,
        )
        model.save(str(path))
        return path

    return write
