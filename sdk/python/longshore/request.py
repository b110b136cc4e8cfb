"""The question."""

from wit_world.imports import request as _host


def now() -> float:
    """When it is asked, in seconds since 1970. The only time there is."""
    return _host.now()
