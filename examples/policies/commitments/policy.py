"""prepaid: so many cores on demand are paid for already."""

import longshore
from longshore import chain, commitments, offerings


class Prepaid:
    about = longshore.About(
        name="prepaid",
        version="0.1.0",
        summary="Cores on demand that are paid for cost nothing more.",
        settings_schema={
            "type": "object",
            "properties": {"cores": {"description": "Left; default 8.", "type": "number", "minimum": 0}},
        },
    )

    def __init__(self, settings: dict) -> None:
        self.cores = settings.get("cores", 8)

    def score(self) -> list[float]:
        return chain.costs()

    def pools(self) -> list[commitments.Pool]:
        cores = commitments.Pool("cores", self.cores)
        names, kinds = offerings.capacity_type_names(), offerings.capacity_types()
        for row, millicores in enumerate(offerings.cpu_millicores()):
            if names[kinds[row]] == "on-demand":
                cores.draw(row, millicores / 1000, 0)
        return [cores]


Plugin, Scorer, Commitments = commitments.export(Prepaid)
