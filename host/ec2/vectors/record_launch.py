#!/usr/bin/env python3
"""Records which launch templates Karpenter's AWS provider asks for: `oracle-aws launch` on the cases below.

    ./record_launch.py --oracle ORACLE        writes launch.jsonl.gz

A line is a case: its world, NodeClaim and flags, what Karpenter picked (capacity type, and instance types by template, from
its CreateFleet request) and the CreateLaunchTemplate requests. Instance types are ../data/instance_types.json.gz. A case
that Karpenter refuses has its error.
"""
import argparse, gzip, json, pathlib, subprocess, tempfile

args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
args.add_argument("--oracle", required=True)
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
         flags=(), requests=None, requirements=(), annotations=None):
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

lines = []
for one in CASES:
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
    lines.append({**one, "error": out.get("errorKind", ""), "fleet": sorted(kinds), "types": types_of, "templates": out["launchTemplates"]})
    print(f"{one['case']}: {len(out['launchTemplates'])} templates, {kinds}, {types_of} {out.get('error', '')[:200]}")
with gzip.GzipFile(here / "launch.jsonl.gz", "wb", mtime=0) as file:
    file.write("".join(json.dumps(line, sort_keys=True) + "\n" for line in lines).encode())
print(f"{len(lines)} cases")
