"""Torch's export to ONNX without a search whose result is known before; the file is the same to the byte.

After the export onnxscript tries each of its rewriting rules at each node. For a rule whose pattern has several outputs
it lists the whole graph each time, to combine the node with every other, before it looks at the node itself: for a
decoder of 1,900 nodes that is half of the export, and it grows with the square of the nodes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch


@contextmanager
def quick_rewriting() -> Iterator[None]:
    """Have onnxscript look at a node's operator before it combines the node with others; for the whole process."""
    from onnxscript.rewriter._basics import MatchResult
    from onnxscript.rewriter._matcher import SimplePatternMatcher

    combine = SimplePatternMatcher.match

    def match(matcher: Any, model: Any, graph: Any, node: Any, **options: Any) -> Any:
        first, *others = matcher.pattern.output_nodes
        if others and not (first.op.matches(node.op_type) and first.domain.matches(node.domain)):
            return MatchResult().fail("The operator is another one.", node)
        return combine(matcher, model, graph, node, **options)

    with patch.object(SimplePatternMatcher, "match", match):
        yield
