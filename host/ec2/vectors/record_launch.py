#!/usr/bin/env python3
"""Records what Karpenter's AWS provider does at launches: `oracle-aws launch` on the cases below.

    ./record_launch.py --oracle ORACLE        writes launch.jsonl.gz

A line is a case: its world, NodeClaim and flags, what Karpenter picked (capacity type, and instance types by template, from
its CreateFleet request), its CreateLaunchTemplate and CreateFleet requests, the kind of error, and which offerings of the
types that the NodeClaim names can no longer be launched into. Instance types are ../data/instance_types.json.gz. A case
that Karpenter refuses has its error. `../tests/launch.rs` compares templates, `../../aws/src/provider/launching` the rest.
"""
import argparse, gzip, json, pathlib, subprocess, tempfile

args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
args.add_argument("--oracle", required=True)
args.add_argument("--all", action="store_true", help="ask again for cases that have not changed since they were recorded")
a = args.parse_args()
here = pathlib.Path(__file__).parent
types = here.parent / "data" / "instance_types.json.gz"

ARCH = "kubernetes.io/arch"
def ami(id, *rules, arch="amd64"):
    rules = [{"key": ARCH, "operator": "In", "values": [arch]}] + [{"key": k, "operator": o} for k, o in rules]
    return {"id": id, "requirements": rules}
GPU, ACC = "karpenter.k8s.aws/instance-gpu-count", "karpenter.k8s.aws/instance-accelerator-count"
PLAIN = [ami("ami-amd64"), ami("ami-arm64", arch="arm64")]
VARIANTS = [ami("ami-std", (GPU, "DoesNotExist"), (ACC, "DoesNotExist")), ami("ami-gpu", (GPU, "Exists")),
            ami("ami-neuron", (ACC, "Exists")), ami("ami-arm", (GPU, "DoesNotExist"), arch="arm64")]
def cr(id, type="m5.large", zone="us-east-1a", kind="default", **more):
    return {"id": id, "availabilityZone": zone, "instanceType": type, "instanceMatchCriteria": "targeted",
            "ownerID": "012345678901", "reservationType": kind, "state": "active", **more}
EFA = {"vpc.amazonaws.com/efa": "1"}

def case(name, types=("m5.large",), capacity=("on-demand",), spec=None, status=None, claim=None, world=None, cluster=None,
         flags=(), requests=None, requirements=(), annotations=None, prices=None, refuse=None, fleet_error=None, min_types=None):
    w = {"region": "us-east-1", "zones": {"us-east-1a": "use1-az1", "us-east-1b": "use1-az2"},
         "cluster": {"name": "demo", "endpoint": "https://demo.eks.example", "caBundle": "Y2EtYnVuZGxl",
                     "cidr": "10.100.0.0/16", "kubeDNSIP": "10.100.0.10", **(cluster or {})}}
    full = {"role": "nodes", "amiSelectorTerms": [{"alias": "al2023@latest"}], "subnetSelectorTerms": [{"id": "subnet-1"}],
            "securityGroupSelectorTerms": [{"id": "sg-1"}], **(spec or {})}
    if full.get("instanceProfile"): del full["role"]
    w["nodeClass"] = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
                      "spec": {k: v for k, v in full.items() if v is not None},
                      "status": {"instanceProfile": "demo_1", "securityGroups": [{"id": "sg-1"}, {"id": "sg-2", "name": "two"}],
                                 "amis": PLAIN, **(status or {})}}
    w["nodeClaim"] = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                      "metadata": {"name": "default-x", "labels": {"karpenter.sh/nodepool": "default"},
                                   "annotations": annotations or {}},
                      "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                               "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": list(capacity)},
                                                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": list(types)},
                                                *requirements],
                               "resources": {"requests": {"cpu": "1", **(requests or {})}}, **(claim or {})}}
    w["prices"] = {"onDemand": {t: 1.0 + i / 10 for i, t in enumerate(types)},
                   "spot": {t: {z: 0.5 + i / 10 for z in w["zones"]} for i, t in enumerate(types)}}
    if min_types: w["nodeClaim"]["spec"]["requirements"][1]["minValues"] = min_types
    if prices: w["prices"].update(prices)
    if refuse: w["refuse"] = refuse
    if fleet_error: w["fleetError"] = fleet_error
    w.update(world or {})
    return {"case": name, "flags": list(flags), "world": w}

def ebs(**of): return {"deviceName": of.pop("name", "/dev/xvda"), **({"rootVolume": True} if of.pop("root", False) else {}), "ebs": of}
def alias(of, **more): return {"amiSelectorTerms": [{"alias": of}], **more}
CUSTOM = {"amiFamily": "Custom", "amiSelectorTerms": [{"id": "ami-amd64"}]}
V6 = {"kubeDNSIP": "fd00::a", "cidr": "fd00::/108"}
NICS = [{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}, {"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only"},
        {"networkCardIndex": 1, "deviceIndex": 0, "interfaceType": "interface"}, {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"}]
group = lambda strategy, **more: {"placementGroups": [{"GroupId": "pg-1", "GroupName": "one", "Strategy": strategy, "State": "available", **more}]}
reserved = lambda *all: {"status": {"capacityReservations": list(all)}, "capacity": ("reserved", "on-demand"),
                         "world": {"freeReservations": {one["id"]: 2 for one in all}}}

CASES = [
    case("plain"),
    case("spot, two architectures", ("m5.large", "m6g.large"), ("spot", "on-demand")),
    case("sizes with different pods", ("m5.large", "m5.xlarge", "m5.2xlarge", "c5.large")),
    case("one maxPods for all sizes", ("m5.large", "m5.xlarge"), spec={"kubelet": {"maxPods": 20}}),
    case("pods per core", ("m5.large", "m5.xlarge"), spec={"kubelet": {"podsPerCore": 4}}),
    case("al2", spec=alias("al2@latest")),
    case("al2, sizes", ("m5.large", "m5.xlarge"), spec=alias("al2@latest")),
    case("bottlerocket", spec=alias("bottlerocket@latest")),
    case("bottlerocket, RAID0", ("m5d.large",), spec=alias("bottlerocket@v1.40.0", instanceStorePolicy="RAID0")),
    case("windows2022", ("m5.large", "m5.xlarge"), spec=alias("windows2022@latest")),
    case("windows2019, user data", spec=alias("windows2019@latest", userData="Write-Host hello")),
    case("custom", spec={**CUSTOM, "userData": "#!/bin/sh\necho hello\n"}),
    case("custom without user data, sizes", ("m5.large", "m5.xlarge"), spec=CUSTOM),
    case("al2023, user data", spec={"userData": "#!/bin/bash\necho hello\n"}),
    case("custom over an alias", spec={"amiFamily": "Custom"}),
    case("disks", spec={"blockDeviceMappings": [
        ebs(root=True, volumeSize="20G", volumeType="gp3", iops=3000, throughput=250, encrypted=True, kmsKeyID="key-1", deleteOnTermination=True),
        ebs(name="/dev/xvdb", snapshotID="snap-1", volumeInitializationRate=100), {"deviceName": "/dev/xvdc"},
        ebs(name="/dev/xvdd", volumeSize="2Ti", volumeType="io2", iops=64000, deleteOnTermination=False, encrypted=False)]}),
    case("disks, sizes rounded", spec={"blockDeviceMappings": [ebs(name=f"/dev/sd{c}", volumeSize=s) for c, s in
                                                               zip("abcdef", ["1G", "100G", "1T", "1Ti", "59000Gi", "1Gi"])]}),
    case("disks of bottlerocket", spec=alias("bottlerocket@latest", blockDeviceMappings=[ebs(name="/dev/xvdb", volumeSize="50Gi")])),
    case("metadata", spec={"metadataOptions": {"httpEndpoint": "disabled", "httpProtocolIPv6": "enabled", "httpPutResponseHopLimit": 3,
                                               "httpTokens": "optional"}}),
    case("monitoring", spec={"detailedMonitoring": True}),
    case("monitoring off", spec={"detailedMonitoring": False}),
    case("public address", spec={"associatePublicIPAddress": True}),
    case("no public address", spec={"associatePublicIPAddress": False}),
    case("prefixes", spec={"ipPrefixCount": 2}),
    case("no prefixes", spec={"ipPrefixCount": 0}),
    case("ipv6", cluster=V6),
    case("ipv6, prefixes", cluster=V6, spec={"ipPrefixCount": 1}),
    case("ipv6 by kubelet's DNS", spec={"kubelet": {"clusterDNS": ["fd00::b"]}}),
    case("no DNS address", cluster={"kubeDNSIP": ""}),
    case("connection tracking", spec={"connectionTracking": {"tcpEstablishedTimeout": 600, "udpTimeout": 40}}),
    case("connection tracking, all", spec={"connectionTracking": {"tcpEstablishedTimeout": 600, "udpTimeout": 40, "udpStreamTimeout": 90}}),
    case("interfaces", ("p5.48xlarge",), spec={"networkInterfaces": NICS}, requests={"nvidia.com/gpu": "1"}),
    case("interfaces, everything", ("p5.48xlarge",), cluster=V6, requests={"nvidia.com/gpu": "1", **EFA},
         spec={"networkInterfaces": NICS, "ipPrefixCount": 1, "associatePublicIPAddress": False, "connectionTracking": {"udpTimeout": 40}}),
    case("interfaces, ipv4 everything", ("p5.48xlarge",), requests={"nvidia.com/gpu": "1"},
         spec={"networkInterfaces": NICS, "ipPrefixCount": 1, "associatePublicIPAddress": True, "connectionTracking": {"udpTimeout": 40}}),
    case("interfaces, one", spec={"networkInterfaces": NICS[:1], "associatePublicIPAddress": True}),
    case("efa", ("p5.48xlarge",), requests={"nvidia.com/gpu": "1", **EFA}),
    case("efa, one interface", ("c5n.18xlarge",), requests=EFA, spec={"associatePublicIPAddress": True}),
    case("efa, types with one, two, four", ("c5n.18xlarge", "c7gn.16xlarge", "hpc7g.16xlarge", "p4d.24xlarge", "trn1.32xlarge"), requests=EFA),
    case("efa, ipv6, prefixes, tracking", ("p4d.24xlarge",), cluster=V6, requests={"nvidia.com/gpu": "1", **EFA},
         spec={"ipPrefixCount": 1, "associatePublicIPAddress": False, "connectionTracking": {"tcpEstablishedTimeout": 600}}),
    case("efa, ipv4 prefixes, public address", ("p4d.24xlarge",), requests={"nvidia.com/gpu": "1", **EFA},
         spec={"ipPrefixCount": 1, "associatePublicIPAddress": True}),
    case("efa by a resource driver", ("c5n.18xlarge",), annotations={"karpenter.sh/requested-dra-drivers": "dra.net"}),
    case("efa by other drivers", ("c5n.18xlarge",), annotations={"karpenter.sh/requested-dra-drivers": "gpu.nvidia.com"}),
    case("efa not asked for", ("c5n.18xlarge",)),
    case("images by accelerator", ("g5.xlarge", "inf2.xlarge"), status={"amis": VARIANTS}),
    case("images without accelerator", ("m5.large", "m6g.large"), status={"amis": VARIANTS}),
    case("the first image that fits", ("m5.large",), status={"amis": [ami("ami-new"), ami("ami-old"), *PLAIN]}),
    case("no image for a type", ("m5.large", "m6g.large"), status={"amis": PLAIN[:1]}),
    case("no image for any type", ("m6g.large",), status={"amis": PLAIN[:1]}),
    case("dedicated", requirements=[{"key": "karpenter.k8s.aws/instance-tenancy", "operator": "In", "values": ["dedicated"]}]),
    case("either tenancy", requirements=[{"key": "karpenter.k8s.aws/instance-tenancy", "operator": "In", "values": ["dedicated", "default"]}]),
    case("placement group", spec={"placementGroupSelector": {"name": "one"}}, world=group("cluster")),
    case("placement group, spread, dedicated", spec={"placementGroupSelector": {"id": "pg-1"}}, world=group("spread"),
         requirements=[{"key": "karpenter.k8s.aws/instance-tenancy", "operator": "In", "values": ["dedicated"]}]),
    case("placement group with partitions", spec={"placementGroupSelector": {"name": "one"}}, world=group("partition", PartitionCount=3)),
    case("partition", spec={"placementGroupSelector": {"name": "one"}}, world=group("partition", PartitionCount=3),
         requirements=[{"key": "karpenter.k8s.aws/placement-group-partition", "operator": "In", "values": ["3", "2"]}]),
    case("nested virtualization", ("m8i.large", "m5.large"), spec={"cpuOptions": {"nestedVirtualization": "enabled"}}),
    case("nested virtualization off", spec={"cpuOptions": {"nestedVirtualization": "disabled"}}),
    case("enclaves", ("m5.xlarge",), spec={"enclaveOptions": {"enabled": True}}),
    case("no enclaves", spec={"enclaveOptions": {"enabled": False}}),
    case("context and tags", ("m5.large",), ("spot",), spec={"context": "abc", "tags": {"team": "blue", "Name": "x", "a": ""}}),
    case("taints and labels", claim={"taints": [{"key": "dedicated", "value": "blue", "effect": "NoSchedule"}],
                                     "startupTaints": [{"key": "boot", "effect": "NoExecute"}]},
         requirements=[{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1a"]}]),
    case("instance profile", spec={"instanceProfile": "mine"}, status={"instanceProfile": "mine"}),
    case("RAID0", ("m5d.large",), spec={"instanceStorePolicy": "RAID0"}),
    case("isolated region", world={"region": "us-iso-east-1", "zones": {"us-iso-east-1a": "usi1-az1"}, "prices": {
        "onDemand": {"m5.large": 1.0}}}),
    case("expressions", ("m5.large", "m5.xlarge", "c5.large", "m5.4xlarge"), flags=["--aws-feature-gates", "NodeClassCEL=true"],
         spec={"kubelet": {"maxPods": "min(max_pods, 110)", "kubeReserved": {"cpu": "vcpus * 7", "memory": "max_pods * 11 + 255"},
                           "systemReserved": {"memory": "100Mi", "ephemeral-storage": "vcpus", "pid": "max_pods * 10"}}}),
    case("reservation", **reserved(cr("cr-1"))),
    case("interruptible reservation", **reserved(cr("cr-1", interruptible=True))),
    case("capacity block", ("p5.48xlarge",), requests={"nvidia.com/gpu": "1"}, **reserved(cr("cr-1", "p5.48xlarge", kind="capacity-block", endTime="2030-01-01T00:00:00Z"))),
    case("capacity block with efa", ("p5.48xlarge",), requests={"nvidia.com/gpu": "1", **EFA},
         **reserved(cr("cr-1", "p5.48xlarge", kind="capacity-block", endTime="2030-01-01T00:00:00Z"))),
    case("two reservations", ("m5.large", "m5.xlarge"), **reserved(cr("cr-1"), cr("cr-2", "m5.xlarge"), cr("cr-3", zone="us-east-1b"))),
    case("two reservations of a type and zone", ("m5.large",), **reserved(cr("cr-1"), cr("cr-2"))),
    case("gate ReservedCapacity off", flags=["--feature-gates", "ReservedCapacity=false"]),
    case("gate ReservedCapacity off, spot", capacity=("spot",), flags=["--feature-gates", "ReservedCapacity=false"]),
]

def need(key, operator, *values, **more): return {"key": key, "operator": operator, **({"values": list(values)} if values else {}), **more}
def short(code, message="no", type=None, zone=None):
    return {"code": code, "message": message, **({"instanceType": type} if type else {}), **({"zone": zone} if zone else {})}
ZONE, ZONE_ID, CT = "topology.kubernetes.io/zone", "topology.k8s.aws/zone-id", "karpenter.sh/capacity-type"
FAMILY, CPU = "karpenter.k8s.aws/instance-family", "karpenter.k8s.aws/instance-cpu"
SUBNETS = {"subnets": [{"id": "subnet-1", "zone": "us-east-1a", "zoneID": "use1-az1"}, {"id": "subnet-2", "zone": "us-east-1a", "zoneID": "use1-az1"},
                       {"id": "subnet-3", "zone": "us-east-1b", "zoneID": "use1-az2"}, {"id": "subnet-4", "zone": "us-east-1b", "zoneID": "use1-az2"}]}
BOTH, TWO = ("spot", "on-demand"), ("m5.large", "c5.large")
OVERLAY = {"karpenter.sh/price-overlay-applied": "true"}
RELAXED = {"karpenter.sh/nodeclaim-min-values-relaxed": "true"}
BEST = ["--min-values-policy", "BestEffort"]
def spot(**of): return {"spot": {t.replace("_", "."): dict(zip(("us-east-1a", "us-east-1b"), z)) for t, z in of.items()}}
# Named by price: of equal prices Karpenter's cut is not fixed.
with gzip.open(types) as file: every = json.load(file)
every = every.get("InstanceTypes") if isinstance(every, dict) and "InstanceTypes" in every else every if isinstance(every, list) else list(every.values())
MANY = sorted(t["InstanceType"] for t in every if t["InstanceType"].split(".")[0] in
              ("m5", "m6i", "c5", "c6i", "r5", "r6i", "m6g", "c6g", "r6g", "m7i", "c7i") and not t.get("BareMetal"))[:90]
block = lambda id, type="p5.48xlarge", **more: cr(id, type, kind="capacity-block", endTime="2030-01-01T00:00:00Z", **more)

CASES += [
    # What is chosen.
    case("spot cheaper than on-demand", TWO, BOTH),
    case("some spot dearer than the cheapest on-demand", TWO, BOTH, prices=spot(m5_large=(0.5, 1.2), c5_large=(1.05, 0.9))),
    case("all spot dearer than on-demand", TWO, BOTH, prices=spot(m5_large=(2, 2), c5_large=(2, 2))),
    case("spot as dear as on-demand", TWO, BOTH, prices=spot(m5_large=(1.0, 1.0), c5_large=(1.1, 1.1))),
    case("dear spot with minValues", TWO, BOTH, prices=spot(m5_large=(2, 2), c5_large=(2.5, 2.5)), min_types=2),
    case("spot without a price", TWO, BOTH, prices=spot(m5_large=(0.5,))),
    case("on-demand without a price", TWO, prices={"onDemand": {"c5.large": 1.0}}),
    case("special types beside plain ones", ("g5.xlarge", "inf2.xlarge", "m5.metal", "m5.large", "m5.xlarge")),
    case("special types alone", ("g5.xlarge", "inf2.xlarge")),
    case("metal beside others", ("m5.metal", "m5.24xlarge")),
    case("metal of a size beside others", ("m7i.metal-24xl", "m5.24xlarge")),
    case("special and plain types, both reserved", ("g5.xlarge", "m5.large"), **reserved(cr("cr-1", "g5.xlarge"), cr("cr-2"))),
    case("efa interfaces without a GPU", ("c6in.32xlarge", "m5.24xlarge")),
    case("metal alone", ("m5.metal", "c5.metal")),
    case("special types with minValues", ("g5.xlarge", "inf2.xlarge", "m5.metal", "m5.large"), min_types=3),
    case("special types, minValues of another label", ("g5.xlarge", "m5.large"), requirements=[need(CPU, "Exists", minValues=1)]),
    case("many types, on-demand", MANY),
    case("many types, spot", MANY, ("spot",)),
    case("many types, either", MANY, BOTH),
    case("many types, minValues kept", MANY, min_types=50),
    case("minValues of families kept", MANY, requirements=[need(FAMILY, "Exists", minValues=3)]),
    case("minValues of families cut off", MANY, requirements=[need(FAMILY, "Exists", minValues=11)]),
    case("minValues of families cut off, best effort", MANY, requirements=[need(FAMILY, "Exists", minValues=11)], flags=BEST),
    case("minValues of a type without capacity", TWO, min_types=2, world={"unavailable": [
        {"instanceType": "c5.large", "zone": z, "capacityType": "on-demand"} for z in ("us-east-1a", "us-east-1b")]}),
    case("minValues of a type without capacity, best effort", TWO, min_types=2, flags=BEST, world={"unavailable": [
        {"instanceType": "c5.large", "zone": z, "capacityType": "on-demand"} for z in ("us-east-1a", "us-east-1b")]}),
    case("minValues of zones", TWO, requirements=[need(ZONE, "In", "us-east-1a", "us-east-1b", minValues=2)]),
    case("minValues of capacity types", TWO, BOTH, requirements=[need(CT, "Exists", minValues=2)]),
    case("minValues of zones, one required", TWO, requirements=[need(ZONE, "In", "us-east-1a", minValues=2)]),
    case("minValues relaxed", TWO, annotations=RELAXED, spec={"context": "abc"}),
    case("minValues not relaxed", TWO, annotations={**RELAXED, next(iter(RELAXED)): "false"}, spec={"context": "abc"}),
    case("special types, minValues relaxed", ("g5.xlarge", "m5.large"), annotations=RELAXED),
    case("a zone", TWO, requirements=[need(ZONE, "In", "us-east-1b")]),
    case("not a zone", TWO, requirements=[need(ZONE, "NotIn", "us-east-1b")]),
    case("a zone by its ID", TWO, requirements=[need(ZONE_ID, "In", "use1-az2")]),
    case("a zone without a subnet", status={"subnets": SUBNETS["subnets"][:2]}),
    case("only a zone without a subnet", status={"subnets": SUBNETS["subnets"][:2]}, requirements=[need(ZONE, "In", "us-east-1b")]),
    case("types in one zone each", TWO, world={"offeredIn": {"m5.large": ["us-east-1a"], "c5.large": ["us-east-1b"]}}),
    case("the widest subnet", TWO, BOTH, status=SUBNETS, world={"freeAddresses": {"subnet-1": 10, "subnet-2": 200, "subnet-3": 50, "subnet-4": 49}}),
    case("subnets as wide as each other", TWO, status=SUBNETS, world={"freeAddresses": {"subnet-1": 10, "subnet-2": 10, "subnet-3": 0, "subnet-4": 0}}),
    case("numbers of CPUs", ("m5.large", "m5.xlarge", "m5.2xlarge", "m5.4xlarge"), requirements=[need(CPU, "Gt", "2"), need(CPU, "Lt", "16")]),
    case("types that are not wanted", ("m5.large", "c5.large", "m6g.large"), requirements=[need(FAMILY, "NotIn", "m5"), need(ARCH, "In", "amd64")]),
    case("a label that types have not", ("m5.large", "g5.xlarge"), requirements=[need(GPU, "DoesNotExist")]),
    case("a label of one's own", requirements=[need("example.com/team", "In", "blue"), need("karpenter.sh/nodepool", "In", "default")]),
    case("requests that a type is too small for", ("m5.large", "m5.xlarge"), requests={"cpu": "3", "memory": "10Gi"}),
    case("requests that every type is too small for", requests={"cpu": "64"}),
    case("a resource that no type has", requests={"example.com/thing": "1"}),
    case("pods", ("m5.large", "m5.xlarge"), requests={"pods": "40"}),
    case("storage", requests={"ephemeral-storage": "15Gi"}),
    case("a network for pods", ("m5.large", "t3.large"), requests={"vpc.amazonaws.com/pod-eni": "1"}),
    case("dedicated spot", TWO, ("spot",), requirements=[need("karpenter.k8s.aws/instance-tenancy", "In", "dedicated")]),
    case("a neuron device", ("inf2.xlarge", "trn1.2xlarge"), requests={"aws.amazon.com/neuron": "1"}),
    case("tags that Karpenter sets too", spec={"tags": {"team": "blue", "cost": "1"}}, capacity=("spot",)),
    case("without a NodePool", claim={}, annotations={"a": "b"}),
    case("AMIs by family, windows", spec=alias("windows2025@latest")),
    case("efa, spot", ("c5n.18xlarge", "p4d.24xlarge"), ("spot",), requests=EFA),
    case("instance store, bottlerocket, kubelet", ("m5d.xlarge", "m5d.2xlarge"), spec=alias("bottlerocket@latest", instanceStorePolicy="RAID0",
         kubelet={"maxPods": 50, "systemReserved": {"cpu": "100m"}, "evictionHard": {"memory.available": "5%"}})),
    # What had no capacity before.
    case("spot short in a zone", TWO, BOTH, world={"unavailable": [{"instanceType": "m5.large", "zone": "us-east-1a", "capacityType": "spot"}]}),
    case("spot short everywhere", TWO, BOTH, world={"unavailable": [
        {"instanceType": t, "zone": z, "capacityType": "spot"} for t in TWO for z in ("us-east-1a", "us-east-1b")]}),
    case("all short", world={"unavailable": [
        {"instanceType": "m5.large", "zone": z, "capacityType": "on-demand"} for z in ("us-east-1a", "us-east-1b")]}),
    # Prices that an overlay has changed.
    case("overlay, on-demand", TWO, annotations=OVERLAY),
    case("overlay, spot", TWO, BOTH, annotations=OVERLAY),
    case("overlay, said with another word", TWO, annotations={next(iter(OVERLAY)): "false"}),
    case("overlay, reservation", annotations=OVERLAY, **reserved(cr("cr-1"))),
    case("overlay, interruptible reservation", annotations=OVERLAY, **reserved(cr("cr-1", interruptible=True))),
    case("overlay, capacity block", ("p5.48xlarge",), annotations=OVERLAY, **reserved(block("cr-1"))),
    # Reservations.
    case("a full reservation", **{**reserved(cr("cr-1")), "world": {"freeReservations": {"cr-1": 0}}}),
    case("a full reservation and nothing else", **{**reserved(cr("cr-1")), "world": {"freeReservations": {"cr-1": 0}}, "capacity": ("reserved",)}),
    case("reserved, spot, on-demand", TWO, **{**reserved(cr("cr-1", "c5.large")), "capacity": ("reserved", "spot", "on-demand")}),
    case("the reservation with more left", **{**reserved(cr("cr-1"), cr("cr-2")), "world": {"freeReservations": {"cr-1": 1, "cr-2": 4}}}),
    case("reservations of all kinds", ("m5.large", "m5.xlarge", "c5.large"),
         **reserved(cr("cr-1"), cr("cr-2", "m5.xlarge", interruptible=True), block("cr-3", "c5.large"))),
    case("an interruptible reservation of a cheaper type", ("m5.large", "m5.xlarge"), **reserved(cr("cr-1", "m5.xlarge"), cr("cr-2", interruptible=True))),
    case("a block of a cheaper type", ("m5.large", "m5.xlarge"), **reserved(cr("cr-1", "m5.xlarge"), block("cr-2", "m5.large"))),
    case("kinds of one price", **reserved(cr("cr-1", interruptible=True), cr("cr-2", zone="us-east-1b"), block("cr-3", "m5.large", zone="us-east-1b"))),
    case("two blocks", ("p5.48xlarge", "p4d.24xlarge"), **reserved(block("cr-1"), block("cr-2", "p4d.24xlarge"))),
    case("two blocks of a type", ("p5.48xlarge",), **reserved(block("cr-1"), block("cr-2", zone="us-east-1b"))),
    case("a full block beside on-demand", ("p5.48xlarge",), **{**reserved(block("cr-1")), "world": {"freeReservations": {"cr-1": 0}}}),
    case("reservation by its ID", requirements=[need("karpenter.k8s.aws/capacity-reservation-id", "In", "cr-2")], **reserved(cr("cr-1"), cr("cr-2", zone="us-east-1b"))),
    case("reservation of a kind", ("m5.large", "m5.xlarge"), requirements=[need("karpenter.k8s.aws/capacity-reservation-interruptible", "In", "true")],
         **reserved(cr("cr-1"), cr("cr-2", "m5.xlarge", interruptible=True))),
    case("reservation, gate off", flags=["--feature-gates", "ReservedCapacity=false"], **reserved(cr("cr-1"))),
    case("special types with a reservation", ("g5.xlarge", "m5.large"), **reserved(cr("cr-1", "g5.xlarge"))),
    case("reservation in a placement group", spec={"placementGroupSelector": {"name": "one"}}, **{**reserved(cr("cr-1")), "world": {
        **group("cluster"), "freeReservations": {"cr-1": 1}}}),
    case("reservations of a type in two zones, minValues", ("m5.large", "m5.xlarge"), min_types=2, **reserved(cr("cr-1"), cr("cr-2", zone="us-east-1b"))),
]

# What is remembered of errors.
CAPACITY = ["InsufficientInstanceCapacity", "MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", "UnfulfillableCapacity", "Unsupported",
            "InsufficientFreeAddressesInSubnet", "MaxFleetCountExceeded", "ReservationCapacityExceeded", "SpotMaxPriceTooLow",
            "InvalidCapacityReservationState.Unavailable"]
SPREAD = "You have reached the limit of instances in this spread placement group in this zone."
OTHERS = [("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "The provided credentials do not have permission to create the service-linked role for EC2 Spot Instances."),
          ("UnauthorizedOperation", "You are not authorized to perform this operation."),
          ("UnauthorizedOperation", "You are not authorized to perform this operation because no permissions boundary allows the ec2:RunInstances action"),
          ("UnauthorizedOperation", "You are not authorized to perform this operation with an explicit deny in a service control policy"),
          ("AuthFailure", "Not authorized for images: [ami-amd64]"),
          ("InvalidParameter", "Security group sg-1 and subnet subnet-us-east-1a belong to different networks."),
          ("InvalidParameterValue", "Value (demo_1) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"),
          ("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID lt-1, does not exist."),
          ("InvalidParameterValue", "User data is limited to 16384 bytes"),
          ("InvalidAMIID.Malformed", "Invalid id: \"ami\""), ("InvalidAMIID.NotFound", "The image id '[ami-amd64]' does not exist"),
          ("RequestLimitExceeded", "Request limit exceeded."), ("InternalError", "An internal error has occurred"),
          ("InvalidParameterCombination", "The specified instance type is not eligible for Free Tier."),
          ("PendingVerification", "Your account is currently being verified."),
          ("InvalidCapacityReservationId.NotFound", "The capacity reservation ID cr-1 does not exist"), ("SomethingNew", "something new")]
for code in CAPACITY:
    CASES += [case(f"{code} in a zone", TWO, refuse=[short(code, type="m5.large", zone="us-east-1a")]),
              case(f"{code} everywhere", TWO, BOTH, refuse=[short(code)]),
              case(f"{code} of a reservation", refuse=[short(code)], **reserved(cr("cr-1"), cr("cr-2", zone="us-east-1b"))),
              case(f"{code} of the call", TWO, fleet_error=short(code))]
for number, (code, message) in enumerate(OTHERS):
    CASES += [case(f"{number} {code} everywhere", TWO, ("spot",), refuse=[short(code, message)]),
              case(f"{number} {code} of the call", fleet_error=short(code, message))]
CASES += [
    case("subnets without addresses, one of two", status=SUBNETS, world={"freeAddresses": {"subnet-1": 10, "subnet-2": 200, "subnet-3": 50, "subnet-4": 49}},
         refuse=[short("InsufficientFreeAddressesInSubnet", zone="us-east-1a")]),
    case("the role of spot is missing, with an instance", TWO, BOTH, refuse=[short(OTHERS[0][0], OTHERS[0][1], zone="us-east-1a")]),
    case("a template is gone", refuse=[short("InvalidLaunchTemplateName.NotFoundException", "no such template")]),
    case("a template is gone, the call", fleet_error=short("InvalidLaunchTemplateName.NotFoundException", "no such template")),
    case("throttled reservation", refuse=[short("RequestLimitExceeded", "slow down")], **reserved(cr("cr-1"))),
    case("reservation is gone", refuse=[short("InvalidCapacityReservationId.NotFound", "no such reservation")], **reserved(cr("cr-1"))),
    case("interruptible reservation is short", refuse=[short("InsufficientInstanceCapacity")], **reserved(cr("cr-1", interruptible=True))),
    case("block is short", ("p5.48xlarge",), refuse=[short("InsufficientInstanceCapacity")], **reserved(block("cr-1"))),
    case("capacity and something else", TWO, refuse=[short("InsufficientInstanceCapacity", type="m5.large"), short("UnauthorizedOperation", "no", type="c5.large")]),
    case("capacity and throttled", TWO, refuse=[short("InsufficientInstanceCapacity", type="m5.large"), short("RequestLimitExceeded", "no", type="c5.large")]),
    case("placement group is short", spec={"placementGroupSelector": {"name": "one"}}, world=group("cluster"), refuse=[short("InsufficientInstanceCapacity", zone="us-east-1a")]),
    case("partition is short", spec={"placementGroupSelector": {"name": "one"}}, world=group("partition", PartitionCount=3),
         requirements=[need("karpenter.k8s.aws/placement-group-partition", "In", "2")], refuse=[short("InsufficientInstanceCapacity", zone="us-east-1a")]),
    case("placement group with partitions is short", spec={"placementGroupSelector": {"name": "one"}}, world=group("partition", PartitionCount=2),
         refuse=[short("InsufficientInstanceCapacity", zone="us-east-1a")]),
    case("spread placement group is full in a zone", TWO, spec={"placementGroupSelector": {"name": "one"}}, world=group("spread"),
         refuse=[short("InsufficientInstanceCapacity", SPREAD, type="m5.large", zone="us-east-1a")]),
    case("spread placement group is full", TWO, BOTH, spec={"placementGroupSelector": {"name": "one"}}, world=group("spread"), refuse=[short("Client.Other", SPREAD)]),
]

def launched(claim):
    """Where the instance is, and the labels that the NodeClaim gets."""
    if not claim: return {}
    return {"launched": {"providerID": claim["status"]["providerID"], "imageID": claim["status"].get("imageID", ""),
                         "labels": claim["metadata"]["labels"]}}

target = here / "launch.jsonl.gz"
known = [] if a.all or not target.exists() else [json.loads(line) for line in gzip.open(target)]
known = {json.dumps([of["case"], of["flags"], of["world"]], sort_keys=True): of for of in known}
lines = []
for one in CASES:
    same = known.get(json.dumps([one["case"], one["flags"], one["world"]], sort_keys=True))
    if same:
        lines.append(same)
        continue
    with tempfile.NamedTemporaryFile("w", suffix=".json") as world:
        json.dump(one["world"], world), world.flush()
        flags = [f.replace("--", "-", 1) for f in one["flags"]]
        done = subprocess.run([a.oracle, "launch", "-f", world.name, "-instance-types", str(types), *flags], capture_output=True, text=True)
    if done.returncode:
        lines.append({**one, "refused": done.stderr.strip().splitlines()[0]})
        print(f"{one['case']}: refused: {done.stderr.strip().splitlines()[0]}")
        continue
    out = json.loads(done.stdout)
    configs = [c for f in out["fleets"] for c in f.get("LaunchTemplateConfigs", [])]
    types_of = {c["LaunchTemplateSpecification"]["LaunchTemplateName"]: sorted({o["InstanceType"] for o in c["Overrides"]}) for c in configs}
    kinds = {f["TargetCapacitySpecification"]["DefaultTargetCapacityType"] for f in out["fleets"]}
    named = one["world"]["nodeClaim"]["spec"]["requirements"][1]["values"]
    lost = [o for o in out.get("unavailable", []) if o["instanceType"] in named]
    lines.append({**one, "error": out.get("errorKind", ""), "fleet": sorted(kinds), "types": types_of, "templates": out["launchTemplates"],
                  "fleets": out["fleets"], "unavailable": lost, **launched(out.get("nodeClaim"))})
    print(f"{one['case']}: {len(out['launchTemplates'])} templates, {kinds}, {types_of} {out.get('error', '')[:200]}")
with gzip.GzipFile(target, "wb", mtime=0) as file:
    file.write("".join(json.dumps(line, sort_keys=True) + "\n" for line in lines).encode())
print(f"{len(lines)} cases")
