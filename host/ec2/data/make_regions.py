#!/usr/bin/env python3
"""Makes regions.tsv: what is offered where in AWS's commercial regions, for plans without a world of one's own.

Zones, and the types that each offers, come from moto (PyPI, Apache-2.0). It has them by name and by ID; the two are matched by
what they offer. Each account has its own mapping, and that of a dump comes from its nodes. Types without an on-demand price on record (see
prices.tsv) and Mac types are left out: nothing is planned with them. No public package has on-demand prices of every region,
so FACTORS estimates them: how much dearer general-purpose types are than in us-east-1, rounded by hand from AWS's public
on-demand page. What is estimated is marked wherever a price is shown.

    pip download --no-deps moto==5.2.5 && ./make_regions.py moto-5.2.5-py3-none-any.whl
"""
import datetime, gzip, json, pathlib, sys, zipfile

FACTORS = {
    "us-east-1": 1.00, "us-east-2": 1.00, "us-west-1": 1.17, "us-west-2": 1.00, "ca-central-1": 1.11, "ca-west-1": 1.11,
    "sa-east-1": 1.59, "eu-west-1": 1.11, "eu-west-2": 1.16, "eu-west-3": 1.17, "eu-central-1": 1.20, "eu-central-2": 1.32,
    "eu-north-1": 1.06, "eu-south-1": 1.17, "eu-south-2": 1.11, "ap-northeast-1": 1.29, "ap-northeast-2": 1.23,
    "ap-northeast-3": 1.29, "ap-southeast-1": 1.25, "ap-southeast-2": 1.25, "ap-southeast-3": 1.25, "ap-southeast-4": 1.25,
    "ap-southeast-5": 1.02, "ap-south-1": 1.05, "ap-south-2": 1.05, "ap-east-1": 1.38, "me-south-1": 1.23,
    "me-central-1": 1.23, "il-central-1": 1.17, "af-south-1": 1.32,
}

here = pathlib.Path(__file__).parent
moto = zipfile.ZipFile(sys.argv[1])
folder = "moto/ec2/resources/instance_type_offerings/availability-zone/"
regions = sorted(n.removeprefix(folder).removesuffix(".json.gz") for n in moto.namelist() if n.startswith(folder) and n.endswith(".gz"))
regions = [region for region in regions if not region.startswith(("cn-", "us-gov-"))]


def offers(by, region):
    found = {}
    for row in json.loads(gzip.decompress(moto.read(f"moto/ec2/resources/instance_type_offerings/{by}/{region}.json.gz"))):
        found.setdefault(row["Location"], set()).add(row["InstanceType"])
    return found


def ids_of(names, ids):
    """The IDs of zones: what has a name and what has an ID offer the same types. The best match comes first."""
    match = {}
    for _, name, number in sorted((len(names[n] ^ ids[i]), n, i) for n in names for i in ids):
        if name not in match and number not in match.values():
            match[name] = number
    return match


priced = {row[0] for row in (line.split("\t") for line in (here / "prices.tsv").read_text().splitlines() if not line.startswith("#"))
          if row[1] != "-"}
offered, heads = {}, []
for region in regions:
    names = offers("availability-zone", region)
    ids = ids_of(names, offers("availability-zone-id", region))
    zones = sorted(ids)
    heads.append("\t".join(["region", region, f"{FACTORS[region]:.2f}"] + [f"{zone}={ids[zone]}" for zone in zones]))
    for at, zone in enumerate(zones):
        for name in names[zone]:
            if name in priced and not name.startswith("mac"):
                masks = offered.setdefault(name, {})
                masks[region] = masks.get(region, 0) | 1 << at
head = f"""# Made by make_regions.py on {datetime.date.today()} from {pathlib.Path(sys.argv[1]).name} and prices.tsv.
# A region, its prices over those of us-east-1 (an estimate), and its zones with the IDs that they have in one account.
# Then a line for each type: for each region, in the order above, the zones that offer it, as a set of bits in hex; - is none.
"""
lines = ["\t".join([name] + [f"{masks[r]:x}" if r in masks else "-" for r in regions]) for name, masks in sorted(offered.items())]
(here / "regions.tsv").write_text(head + "\n".join(heads + lines) + "\n")
