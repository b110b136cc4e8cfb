#!/usr/bin/env python3
"""Records what Karpenter's AWS provider asks EC2 for, and which NodeClaims it makes of the answer, in the emulated region.

    ./record.py --oracle ORACLE        writes karpenter.json; ORACLE is the program of oracle-aws

The region is host/emulator/data/small.json as the emulator completes it. Hashes are those of Karpenter 1.15.1 (NodePool v3,
EC2NodeClass v6), with the CA bundle of the emulated cluster.
"""
import argparse, json, pathlib, subprocess, tempfile

args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
args.add_argument("--oracle", required=True)
a = args.parse_args()
here = pathlib.Path(__file__).parent
region = json.loads((here / "../../../../emulator/data/small.json").read_text())
BUNDLE = "Y2EtYnVuZGxl"

def ami(id, arch):
    return {"id": id, "name": id, "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": [arch]}]}

CLASS = {
    "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
    "spec": {
        "role": "node", "amiFamily": "AL2023",
        "amiSelectorTerms": [{"tags": {"image": "old"}}],
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
        "kubelet": {"maxPods": 20, "clusterDNS": ["10.100.0.10"], "evictionSoftGracePeriod": {"memory.available": "60s"},
                    "evictionSoft": {"memory.available": "5%"}},
        "tags": {"team": "shop"},
        "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20Gi", "volumeType": "gp3", "encrypted": True}}],
    },
    "status": {
        "instanceProfile": "demo_4242", "amis": [ami("ami-0000000000000aaaa", "amd64"), ami("ami-0000000000000bbbb", "arm64")],
        "subnets": [{"id": f"subnet-{n:017x}", "zone": f"us-east-1{z}", "zoneID": region["zones"][f"us-east-1{z}"]} for n, z in enumerate("abc", 1)],
        "securityGroups": [{"id": "sg-00000000000000001", "name": "nodes"}],
    },
}
POOL = {
    "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
    "spec": {
        "disruption": {"consolidateAfter": "Never"},
        "template": {
            "metadata": {"labels": {"team": "shop"}, "annotations": {"example.com/owner": "shop"}},
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "expireAfter": "720h",
                "requirements": [
                    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
                    {"key": "node.kubernetes.io/instance-type", "operator": "In",
                     "values": ["m5.large", "m5.xlarge", "c5.large", "m6g.large", "c6g.large"]},
                ],
                "startupTaints": [{"key": "example.com/agent", "effect": "NoExecute"}],
            },
        },
    },
}

def oracle(verb, text, *flags):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(text), file.flush()
        done = subprocess.run([a.oracle, verb, "-f", file.name, *flags], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)

hashes = oracle("hash", json.dumps(CLASS) + "\n" + json.dumps(POOL), "-cluster-ca-bundle", BUNDLE)
by_kind = {one["kind"]: one for one in hashes}

def claim(name, capacity_types, types, zones):
    spec = POOL["spec"]["template"]["spec"]
    annotations = {**POOL["spec"]["template"]["metadata"]["annotations"],
                   "karpenter.sh/nodepool-hash": by_kind["NodePool"]["hash"], "karpenter.sh/nodepool-hash-version": by_kind["NodePool"]["hashVersion"]}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "annotations": annotations,
                         "labels": {"team": "shop", "karpenter.sh/nodepool": "default", "karpenter.k8s.aws/ec2nodeclass": "default"}},
            "spec": {"nodeClassRef": spec["nodeClassRef"], "expireAfter": "720h", "startupTaints": spec["startupTaints"],
                     "requirements": [
                         {"key": "karpenter.sh/nodepool", "operator": "In", "values": ["default"]},
                         {"key": "karpenter.k8s.aws/ec2nodeclass", "operator": "In", "values": ["default"]},
                         {"key": "team", "operator": "In", "values": ["shop"]},
                         {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                         {"key": "karpenter.sh/capacity-type", "operator": "In", "values": capacity_types},
                         {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types},
                         {"key": "topology.kubernetes.io/zone", "operator": "In", "values": zones}],
                     "resources": {"requests": {"cpu": "1400m", "memory": "1200Mi", "pods": "3"}}}}

CASES = [
    claim("default-4x2kq", ["on-demand"], ["m5.large"], ["us-east-1a"]),
    claim("default-7rj5d", ["spot"], ["m5.large", "m5.xlarge"], ["us-east-1b"]),
    claim("default-b9w8z", ["spot", "on-demand"], ["m6g.large", "c6g.large"], ["us-east-1a", "us-east-1b", "us-east-1c"]),
    claim("default-hx6vn", ["on-demand"], ["c5.large"], ["us-east-1c"]),
]
launches = []
for one in CASES:
    world = {**{key: region[key] for key in ("region", "zones", "prices", "instanceTypes")}, "nodeClass": CLASS, "nodeClaim": one,
             "cluster": {"name": "demo", "endpoint": "https://demo.eks.example", "caBundle": BUNDLE, "cidr": "10.100.0.0/16", "kubeDNSIP": "10.100.0.10"}}
    out = oracle("launch", json.dumps(world), "-cluster-ca-bundle", BUNDLE)
    assert not out.get("error"), out["error"]
    launches.append({"name": one["metadata"]["name"], "templates": out["launchTemplates"], "fleets": out["fleets"],
                     "asked": one, "claim": out["nodeClaim"]})
    print(one["metadata"]["name"], len(out["launchTemplates"]), out["nodeClaim"]["metadata"].get("labels", {}).get("node.kubernetes.io/instance-type"))
whole = {"hashes": by_kind, "class": CLASS, "pool": POOL, "launches": launches}
(here / "karpenter.json").write_text(json.dumps(whole, indent=1, sort_keys=True) + "\n")
