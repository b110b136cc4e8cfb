"""A policy in Python: adds a surcharge to the price of spot offerings."""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.plugin import Description
from wit_world.imports import chain, offerings

SCHEMA = {
    "type": "object",
    "properties": {
        "percent": {"description": "Of the price; default 15.", "type": "number", "minimum": 0}
    },
}

# What the price of a spot offering is multiplied by.
factor = 1.15


class Plugin(exports.Plugin):
    def describe(self) -> Description:
        """Asked once per load."""
        return Description(
            name="spot-surcharge",
            version="0.1.0",
            summary="Adds a surcharge to the price of spot offerings.",
            signals=[],
            settings_schema=json.dumps(SCHEMA),
            annotations=[],
        )

    def configure(self, settings: str) -> None:
        """Takes the settings, a JSON object. The host has held them against the schema."""
        global factor
        factor = 1 + json.loads(settings).get("percent", 15) / 100


class Scorer(exports.Scorer):
    def score(self) -> list[float]:
        """Answers the effective cost of every offering, in USD per hour."""
        costs, types = chain.costs(), offerings.capacity_types()
        factors = [factor if name == "spot" else 1 for name in offerings.capacity_type_names()]
        if len(costs) != len(types):
            # Any other exception is a trap, and its text is lost.
            raise Err("costs and capacity types differ in number")
        return [cost * factors[kind] for cost, kind in zip(costs, types)]
