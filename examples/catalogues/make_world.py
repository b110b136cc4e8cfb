#!/usr/bin/env python3
"""Makes aws-us-east-1.json.gz: a world for `longshore plan --provider aws` and `longshore types --provider aws`.

Instance types (only the fields that Longshore reads) and the zones that offer them come from moto (PyPI, Apache-2.0), zone
ids from moto's list of zones; each account has its own mapping. On-demand prices are Longshore's recorded ones. Spot prices
are NOT real: a fixed share of the on-demand price per type and zone, 28 % to 62 %, drawn from a hash. Mac types are left out.

    pip download --no-deps moto==5.2.5 && ./make_world.py moto-5.2.5-py3-none-any.whl
"""
import collections, gzip, hashlib, json, pathlib, re, sys, zipfile

REGION = "us-east-1"
here = pathlib.Path(__file__).parent
moto = zipfile.ZipFile(sys.argv[1])
read = lambda name: json.loads(gzip.decompress(moto.read(f"moto/ec2/resources/{name}.json.gz")))
zones = dict(re.findall(rf'region_name="{REGION}", name="([^"]+)", zone_id="([^"]+)"',
                        moto.read("moto/ec2/models/availability_zones_and_regions.py").decode()))
offered = collections.defaultdict(set)
for o in read(f"instance_type_offerings/availability-zone/{REGION}"):
    offered[o["InstanceType"]].add(o["Location"])
types = {name: t for name, t in read("instance_types").items() if name in offered and not name.startswith("mac")}
prices = {line.split("\t")[0]: line.split("\t")[1] for line in
          (here / "../../host/ec2/data/prices.tsv").read_text().splitlines() if not line.startswith("#")}

KEEP = {"InstanceType": 1, "BareMetal": 1, "Hypervisor": 1, "SupportedUsageClasses": 1, "NitroEnclavesSupport": 1,
        "ProcessorInfo": 1, "MemoryInfo": 1, "GpuInfo": {"Gpus": {"Name": 1, "Manufacturer": 1, "Count": 1, "MemoryInfo": 1}},
        "NeuronInfo": {"NeuronDevices": {"Name": 1, "Count": 1, "CoreInfo": 1}},
        "InferenceAcceleratorInfo": {"Accelerators": {"Name": 1, "Manufacturer": 1, "Count": 1}},
        "VCpuInfo": {"DefaultVCpus": 1}, "InstanceStorageInfo": {"TotalSizeInGB": 1, "NvmeSupport": 1},
        "EbsInfo": {"EbsOptimizedSupport": 1, "EbsOptimizedInfo": {"MaximumBandwidthInMbps": 1}},
        "NetworkInfo": {"EnaSupport": 1, "EncryptionInTransitSupported": 1, "MaximumNetworkInterfaces": 1,
                        "DefaultNetworkCardIndex": 1, "Ipv4AddressesPerInterface": 1, "EfaInfo": 1,
                        "NetworkCards": {"NetworkCardIndex": 1, "MaximumNetworkInterfaces": 1}},
        "PlacementGroupInfo": 1}


def slim(value, keep):
    if keep == 1:
        return value
    if isinstance(value, list):
        return [slim(v, keep) for v in value]
    return {k: slim(value[k], of) for k, of in keep.items() if k in value}


def spot(name, zone):
    h = int.from_bytes(hashlib.sha256(f"{name}/{zone}".encode()).digest()[:4], "big")
    return round(float(prices[name]) * (0.28 + 0.34 * h / 2**32), 5)


text = lambda value: json.dumps(value, separators=(",", ":"))
lines = lambda items: "{\n" + ",\n".join(f'"{k}":{text(v)}' for k, v in items) + "\n}"
priced = lambda t: prices.get(t, "-") != "-" and "spot" in types[t]["SupportedUsageClasses"]
world = (
    f'{{"region":"{REGION}",\n"zones":{text(zones)},\n"offeredIn":'
    + lines((t, sorted(offered[t])) for t in sorted(types) if offered[t] != set(zones))
    + ',\n"prices":{"spot":' + lines((t, {z: spot(t, z) for z in sorted(offered[t])}) for t in sorted(types) if priced(t))
    + '},\n"instanceTypes":[\n' + ",\n".join(text(slim(types[t], KEEP)) for t in sorted(types)) + "\n]}\n")
(here / f"aws-{REGION}.json.gz").write_bytes(gzip.compress(world.encode(), mtime=0))
