"""The catalogue as columns: row i is the same offering (instance type, zone, capacity type) in each.

A column costs a call and a copy, so pull what you need.
"""

from wit_world.imports import offerings as _host


def edition() -> str:
    """Sixteen digits made of all static columns: keep what you derive from them as long as it is the same."""
    return _host.edition()


def count() -> int:
    """How many offerings there are."""
    return _host.count()


def instance_type_names() -> list[str]:
    """Table: names of instance types, ``m7g.large``. Static."""
    return _host.instance_type_names()


def instance_types() -> list[int]:
    """Index into ``instance_type_names()``. Rows of one type are contiguous. Static."""
    return _host.instance_types()


def zone_names() -> list[str]:
    """Table: zones, ``us-east-1a``. Static."""
    return _host.zone_names()


def zones() -> list[int]:
    """Index into ``zone_names()``. Static."""
    return _host.zones()


def capacity_type_names() -> list[str]:
    """Table: ``on-demand``, ``spot``, ``reserved``; more may come. Static."""
    return _host.capacity_type_names()


def capacity_types() -> list[int]:
    """Index into ``capacity_type_names()``. Static."""
    return _host.capacity_types()


def architecture_names() -> list[str]:
    """Table: ``amd64``, ``arm64``. Static."""
    return _host.architecture_names()


def architectures() -> list[int]:
    """Index into ``architecture_names()``. Static."""
    return _host.architectures()


def reservation_names() -> list[str]:
    """Table: reservations by id; the empty string stands for none. Static."""
    return _host.reservation_names()


def reservations() -> list[int]:
    """Index into ``reservation_names()``. Static."""
    return _host.reservations()


def cpu_millicores() -> list[int]:
    """What the machine has, in thousandths of a core. Static."""
    return _host.cpu_millicores()


def memory_mib() -> list[int]:
    """What the machine has, in MiB. Static."""
    return _host.memory_mib()


def prices() -> list[float]:
    """List price in USD per hour. Start from ``chain.costs()``, not from this."""
    return _host.prices()


def available() -> bytes:
    """1 if the cloud says that it can be had now, else 0."""
    return _host.available()


def reservation_counts() -> list[int]:
    """For offerings of a reservation, how many instances are left in it; otherwise 0."""
    return _host.reservation_counts()
