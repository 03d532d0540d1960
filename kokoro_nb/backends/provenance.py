"""The records of where nodes come from, which every pass of an exporter hands on."""


def share_provenance() -> None:
    """Have copies of a node's history, ``meta["from_node"]``, share its records.

    torch copies them whole in every pass over a graph, so that the n-th pass copies n generations. Nothing in torch
    changes a record once it is made; lists of them are copied as before.
    """
    from torch.fx.traceback import NodeSource

    NodeSource.__deepcopy__ = lambda record, _memo: record  # type: ignore[attr-defined]
