"""Signals as columns of offerings."""

from typing import Optional

from wit_world.imports import joined as _host

_NAN = float("nan")


def column(signal: str) -> list[Optional[float]]:
    """For each offering the first that the table has of type/zone/capacity-type, type/zone, type, zone, region.

    ``None`` where it has none of them. The unit is that of the signal.
    """
    return [None if value != value else value for value in _host.column(signal, _NAN)]


def column_or(signal: str, otherwise: float) -> list[float]:
    """The same with a number for what is not known: faster."""
    return _host.column(signal, float(otherwise))
