"""{{name}}: adds a surcharge to the cost of spot offerings."""

import longshore
from longshore import chain, offerings


class SpotSurcharge:
    about = longshore.About(
        name="{{name}}",
        version="0.1.0",
        summary="Adds a surcharge to the cost of spot offerings.",
        settings_schema={
            "type": "object",
            "properties": {
                "percent": {"description": "Of the cost; default 15.", "type": "number", "minimum": 0}
            },
        },
    )

    def __init__(self, settings: dict) -> None:
        # What the cost of a spot offering is multiplied by.
        self.factor = 1 + settings.get("percent", 15) / 100

    def score(self) -> list[float]:
        factors = [self.factor if name == "spot" else 1 for name in offerings.capacity_type_names()]
        kinds = offerings.capacity_types()
        return [cost * factors[kind] for cost, kind in zip(chain.costs(), kinds)]


Plugin, Scorer = longshore.export(SpotSurcharge)
