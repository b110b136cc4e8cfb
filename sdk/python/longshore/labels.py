"""Labels of offerings: what an instance type pins to one value, zone and capacity type."""

from wit_world.imports import labels as _host


def keys() -> list[str]:
    """All keys that any offering has, sorted."""
    return _host.keys()


def values(key: str) -> list[str]:
    """Table: the values of a label; the empty string for none."""
    return _host.values(key)


def rows(key: str) -> list[int]:
    """Index into ``values(key)``, for each offering."""
    return _host.rows(key)


def column(key: str) -> list[str]:
    """The value that each offering has; the empty string for none."""
    table = _host.values(key)
    return [table[row] for row in _host.rows(key)]
