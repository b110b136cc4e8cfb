#!/usr/bin/env python3
"""Makes network.tsv and prices.tsv again: what no call of EC2 answers.

Names of instance types come from moto's table of DescribeInstanceTypes answers (PyPI, Apache-2.0) and from further lists
of names (JSON objects by name). Values are what Karpenter's AWS provider 1.15 computes with, asked through
`oracle-aws types`: for every name it is given a description under that name and answers with the branch interfaces, the
addresses of Windows nodes, the network bandwidth and the on-demand price that it has on record.

    pip download --no-deps moto==5.2.5
    ./make_tables.py --oracle ORACLE moto-5.2.5-py3-none-any.whl [MORE_NAMES.json ...]
"""
import argparse, datetime, gzip, json, pathlib, subprocess, tempfile, zipfile

args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
args.add_argument("--oracle", required=True)
args.add_argument("moto", help="moto's wheel")
args.add_argument("names", nargs="*", help="JSON objects whose keys are names of types")
a = args.parse_args()
here = pathlib.Path(__file__).parent
types = json.loads(gzip.decompress(zipfile.ZipFile(a.moto).read("moto/ec2/resources/instance_types.json.gz")))
names = set(types).union(*(json.loads(pathlib.Path(f).read_text()) for f in a.names))
plain = types["m5.large"]
described = {name: types.get(name, dict(plain, InstanceType=name)) for name in names}
REGIONS = ["us-east-1", "us-gov-east-1", "us-gov-west-1", "cn-north-1"]


def ask(region, family):
    zone = region + "a"
    world = {"region": region, "zones": {zone: "az1"}, "nodeClass": {
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "tables"},
        "spec": {"role": "tables", "amiSelectorTerms": [{"alias": family + "@latest"}],
                 "subnetSelectorTerms": [{"tags": {"a": "b"}}], "securityGroupSelectorTerms": [{"tags": {"a": "b"}}]}}}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as w, tempfile.NamedTemporaryFile("w", suffix=".json") as t:
        json.dump(world, w), w.flush()
        json.dump(described, t), t.flush()
        answer = subprocess.run([a.oracle, "types", "-f", w.name, "-instance-types", t.name, "-offerings"],
                                check=True, capture_output=True).stdout
    return {t["name"]: t for t in json.loads(answer)}


linux, windows = ask("us-east-1", "bottlerocket"), ask("us-east-1", "windows2022")
head = f"""# Made by make_tables.py on {datetime.date.today()} from Karpenter's AWS provider 1.15.1 and {pathlib.Path(a.moto).name}.
"""


def text(value):
    return "-" if value is None else f"{value:.10g}" if isinstance(value, float) else str(value)


def write(name, columns, rows):
    lines = ["\t".join([t] + [text(v) for v in row]) for t, row in sorted(rows.items()) if any(v not in (None, "0") for v in row)]
    (here / name).write_text(head + "# " + columns + "\n" + "\n".join(lines) + "\n")


write("network.tsv", "type, branch interfaces, addresses of a Windows node, Mbps; - is unknown", {
    t: [linux[t]["capacity"].get("vpc.amazonaws.com/pod-eni", "0"),
        windows[t]["capacity"].get("vpc.amazonaws.com/PrivateIPv4Address"),
        (linux[t]["requirements"]["karpenter.k8s.aws/instance-network-bandwidth"].get("values") or [None])[0]] for t in linux})
prices = {t: [] for t in linux}
for region in REGIONS:
    answer = linux if region == "us-east-1" else ask(region, "bottlerocket")
    for t in prices:
        price = [o["price"] for o in answer[t].get("offerings", []) if o["capacityType"] == "on-demand" and "price" in o]
        prices[t].append(float(price[0]) if price else None)
write("prices.tsv", "type, USD per hour on demand in " + ", ".join(REGIONS[:3]) + ", CNY in cn-north-1; - is unknown", prices)
