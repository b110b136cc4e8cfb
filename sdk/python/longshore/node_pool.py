"""The NodePool that nodes are wanted for."""

from wit_world.imports import node_pool as _host


def name() -> str:
    """Its name. A policy that asks is asked once for each NodePool."""
    return _host.name()


def labels() -> dict[str, str]:
    """Labels of its nodes, by key."""
    return dict(_host.labels())


def annotations() -> dict[str, str]:
    """Annotations of its nodes, by key."""
    return dict(_host.annotations())


def weight() -> int:
    """Its weight; 0 without one."""
    return _host.weight()
