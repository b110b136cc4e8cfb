"""Write Longshore policies in Python.

A policy is a class with :class:`Scorer`, exported at the end of ``policy.py``::

    Plugin, Scorer = longshore.export(SpotSurcharge)

Modules of this package are the interfaces of the contract. Import those that ``wit/world.wit`` of the policy imports:
``from longshore import chain, offerings``.
"""

import json
from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping, Protocol, Sequence, Type

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports import plugin as _plugin

__all__ = ["About", "Scorer", "SignalUse", "export"]


@dataclass(frozen=True)
class SignalUse:
    """A signal that a policy reads."""

    name: str
    """Its name, as ``[signals.NAME]`` of the operator's file has it."""
    required: bool = False
    """Whether the policy is of no use without it."""
    max_age: float = 0.0
    """Seconds; older numbers are too old for it. 0 for any age."""


@dataclass(frozen=True)
class About:
    """What a policy says about itself."""

    name: str
    """Lower case letters, digits and ``-``."""
    version: str
    """Semantic version: ``0.1.0``."""
    summary: str
    """One sentence for people."""
    signals: Sequence[SignalUse] = ()
    """The signals that it reads. It sees no others."""
    settings_schema: Mapping[str, Any] = field(default_factory=dict)
    """JSON Schema of its settings; the host checks them against it. Empty for none."""


class Scorer(Protocol):
    """Says what offerings cost."""

    about: About
    """Name, version and summary."""

    def __init__(self, settings: dict[str, Any]) -> None:
        """Takes the settings of the operator's file. An exception refuses them."""

    def score(self) -> Iterable[float]:
        """The effective cost of every offering in USD per hour, in the order of the rows.

        0 or more, ``math.inf`` to exclude an offering; not all may be infinite. An exception is the policy's error.
        """


def export(policy: Type[Scorer]) -> tuple[type, type]:
    """The two classes that the tool looks for: ``Plugin, Scorer = longshore.export(MyPolicy)``.

    A policy that knows of prepaid amounts is exported by :func:`longshore.commitments.export`.
    """
    return _export(policy, [])


def _export(policy: Type[Scorer], running: list[Any]) -> tuple[type, type]:
    """As :func:`export`; ``running`` gets the policy once it has its settings."""

    class Plugin(exports.Plugin):
        def describe(self) -> _plugin.Description:
            about = policy.about
            schema = json.dumps(about.settings_schema) if about.settings_schema else ""
            signals = [_plugin.SignalUse(of.name, of.required, float(of.max_age)) for of in about.signals]
            return _plugin.Description(about.name, about.version, about.summary, signals, schema, [])

        def configure(self, settings: str) -> None:
            running[:] = [_or_error(lambda: policy(json.loads(settings)))]

    class Score(exports.Scorer):
        def score(self) -> list[float]:
            # What is no list of numbers would be a trap without a word.
            return _or_error(lambda: [float(cost) for cost in running[0].score()])

    Plugin.__name__, Score.__name__ = "Plugin", "Scorer"
    return Plugin, Score


def _or_error(ask):
    # Any other exception than Err is a trap, and its text is lost.
    try:
        return ask()
    except Err:
        raise
    except Exception as error:
        raise Err(f"{type(error).__name__}: {error}") from None
