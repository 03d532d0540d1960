"""Faults of a constant: the operator is right, and the weight that it reads is not."""

from kokoro_nb.faults.planting_site import FaultSite

WEIGHT = "weight"


def has_weight(site: FaultSite) -> bool:
    """Return whether the operator alone reads a float weight."""
    return site.stored(WEIGHT) is not None and site.constant(WEIGHT).is_floating_point()


def has_square_weight(site: FaultSite) -> bool:
    """Return whether the first two axes of that weight can be exchanged, and are not the same."""
    if not has_weight(site) or site.constant(WEIGHT).ndim < 2:
        return False
    rows, columns = site.constant(WEIGHT).shape[:2]
    return bool(rows == columns > 1)


def has_kernel(site: FaultSite) -> bool:
    """Return whether that weight has an axis of two elements or more after the first."""
    return has_weight(site) and any(size > 1 for size in site.constant(WEIGHT).shape[1:])


def transposed_weight(site: FaultSite) -> None:
    """Exchange the first two axes of the weight."""
    site.store(WEIGHT, site.constant(WEIGHT).transpose(0, 1).contiguous())


def reversed_weight(site: FaultSite) -> None:
    """Reverse the last axis of the weight that has two elements or more: a correlation becomes a convolution."""
    weight = site.constant(WEIGHT)
    axis = max(axis for axis in range(1, weight.ndim) if weight.shape[axis] > 1)
    site.store(WEIGHT, weight.flip(axis))


def perturbed_weight(site: FaultSite) -> None:
    """Add the weight's largest absolute value to one of its elements."""
    weight = site.constant(WEIGHT).clone()
    weight.view(-1)[site.random.randrange(weight.numel())] += weight.abs().max()
    site.store(WEIGHT, weight)


def half_weight(site: FaultSite) -> None:
    """Round the weight to float16."""
    weight = site.constant(WEIGHT)
    site.store(WEIGHT, weight.half().to(weight.dtype))


def zeroed_weight(site: FaultSite) -> None:
    """Make the weights of one output zero."""
    weight = site.constant(WEIGHT).clone()
    weight[site.random.randrange(weight.shape[0])] = 0
    site.store(WEIGHT, weight)
