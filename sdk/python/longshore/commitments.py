"""Amounts that are prepaid, finite and shared: reservations, savings plans, bulk discounts.

``wit/world.wit`` of the policy exports ``longshore:policy/commitments@0.1.0``, and the end of ``policy.py`` is::

    Plugin, Scorer, Commitments = commitments.export(Prepaid)
"""

from dataclasses import dataclass, field
from typing import Any, Iterable, Protocol, Type

from wit_world import exports
from wit_world.exports import commitments as _contract

from . import Scorer, _export, _or_error

__all__ = ["Commitments", "Pool", "export"]


@dataclass
class Pool:
    """A prepaid amount and the offerings that draw on it."""

    name: str
    """What reports call it; unique in an answer."""
    remaining: float
    """What is left, in the pool's own unit (instances, vCPUs, USD per hour): finite, 0 or more."""
    offerings: list[int] = field(default_factory=list)
    """Rows of offerings, each once. Of several pools for an offering the first of the answer that has enough counts."""
    amounts: list[float] = field(default_factory=list)
    """What one node of each takes, in the pool's unit: finite, above 0. A node draws wholly or not at all."""
    costs: list[float] = field(default_factory=list)
    """The effective cost of a node that draws, in USD per hour: finite, 0 or more."""

    def draw(self, offering: int, amount: float, cost: float) -> None:
        """Adds an offering by its row: a node takes ``amount`` in the pool's unit and costs ``cost`` USD per hour."""
        self.offerings.append(offering)
        self.amounts.append(amount)
        self.costs.append(cost)


class Commitments(Scorer, Protocol):
    """Says what offerings cost, and what is prepaid."""

    def pools(self) -> Iterable[Pool]:
        """The pools of this catalogue; asked right after ``score``. An exception is the policy's error."""


def export(policy: Type[Commitments]) -> tuple[type, type, type]:
    """The three classes that the tool looks for: ``Plugin, Scorer, Commitments = commitments.export(MyPolicy)``."""
    running: list[Any] = []
    plugin, scorer = _export(policy, running)

    class Pools(exports.Commitments):
        def pools(self) -> list[_contract.Pool]:
            return _or_error(lambda: [_raw(pool) for pool in running[0].pools()])

    Pools.__name__ = "Commitments"
    return plugin, scorer, Pools


def _raw(pool: Pool) -> _contract.Pool:
    # What is no number would be a trap without a word.
    amounts = [float(amount) for amount in pool.amounts]
    costs = [float(cost) for cost in pool.costs]
    return _contract.Pool(pool.name, float(pool.remaining), list(pool.offerings), amounts, costs)
