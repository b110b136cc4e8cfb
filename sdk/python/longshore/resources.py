"""Resources of offerings, in cores, bytes or devices; 0 for what a machine has not."""

from wit_world.imports import resources as _host


def names() -> list[str]:
    """All resources that any offering has, sorted: ``cpu``, ``memory``, ``nvidia.com/gpu``."""
    return _host.names()


def capacity(name: str) -> list[float]:
    """What the machine of each offering has: cores, bytes or devices."""
    return _host.capacity(name)


def allocatable(name: str) -> list[float]:
    """What pods can have of it: cores, bytes or devices."""
    return _host.allocatable(name)
