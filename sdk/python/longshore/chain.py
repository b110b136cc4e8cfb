"""What the policies before this one say of offerings."""

from wit_world.imports import chain as _host


def costs() -> list[float]:
    """What each offering costs by the policy before this one, in USD per hour; the list price for the first.

    Infinite where it is excluded, which it stays whatever is answered.
    """
    return _host.costs()
