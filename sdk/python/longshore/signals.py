"""Named tables of numbers that the host fetches, stamped with their time."""

from dataclasses import dataclass
from typing import Optional

from wit_world.imports import signals as _host


@dataclass(frozen=True)
class Signal:
    """A table."""

    time: float
    """When it was fetched, in seconds since 1970; 0 for a file that is given to ``plan``."""
    values: dict[str, float]
    """Its numbers by key, in the unit of the signal."""


def get(name: str) -> Optional[Signal]:
    """The table of that name; ``None`` if the host has none, or the policy may not read it."""
    time = _host.time(name)
    if time != time:
        return None
    return Signal(time, dict(zip(_host.keys(name), _host.values(name))))
