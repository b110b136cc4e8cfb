#!/usr/bin/env python3
"""Makes random NodePools and NodeOverlays, and joins them with what Karpenter's core says of them:
`objects.jsonl.gz`.

Usage: record_objects.py PROGRAM > objects.jsonl    (then gzip -9n)

PROGRAM is built elsewhere, over sigs.k8s.io/karpenter v1.15.0 from the Go module proxy; none of its code
is here. It reads a JSON object a line, {"now", "pools", "overlays"}, and gets instance types as
`-instance-types FILE` in the format of Karpenter's KWOK provider. It answers a line with:

* "pools": for each NodePool its Hash(), what RuntimeValidate() says ("invalid"), and by a number of nodes
  and a reason what MustGetAllowedDisruptions() allows at that moment, -1 for no limit;
* "overlays": for each NodeOverlay the condition ValidationSucceeded after a Reconcile() of Karpenter's
  controller of NodeOverlays, with the fake client of controller-runtime;
* "types": by NodePool and instance type the prices by zone and capacity type, the resources other than a
  node's own, and the allocatable memory in bytes, after ApplyAll() of its store.

The first line of the file has the instance types. All objects are valid for the CRDs.
"""

import json
import random
import subprocess
import sys
import tempfile

ZONES = ["a", "b"]
TYPES = [("c-2", 2, 4, 0.081), ("c-8", 8, 16, 0.322), ("m-4", 4, 16, 0.191), ("r-4", 4, 32, 0.249)]
LONG = "v" * 64


def types():
    all_ = []
    for name, cores, gib, price in TYPES:
        offerings = [
            {"Price": round(price * share, 5), "Available": True, "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [kind]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}
            for zone in ZONES for kind, share in (("on-demand", 1), ("spot", 0.4))
        ]
        all_.append({"name": name, "offerings": offerings, "architecture": "amd64", "operatingSystems": ["linux"],
                     "resources": {"cpu": str(cores), "memory": f"{gib}Gi", "pods": "20", "ephemeral-storage": "20Gi"}})
    return all_


def some(draw, of, most):
    return draw.sample(of, draw.randint(0, min(most, len(of))))


SCHEDULES = ["@daily", "@hourly", "@weekly", "@monthly", "0 9 * * 1-5", "0 9 * * mon-fri", "*/15 8-17 * * *",
             "0 22 * * sat,sun", "30 6 1,15 * *", "0 0 29 2 *", "0 0 31 2 *", "5/20 * * * *", "0 9 ? * 2",
             "0 9 * jan-mar 1", "0 9 * * 7", "0 9 * * 1-7", "0 24 * * *", "61 * * * *", "0 0 9 * * 1-5",
             "TZ=Europe/Berlin 0 9 * * *", "@daily x", "0 9 13 * 5", "0 9 1/7 * *", "59 23 31 12 *"]
DURATIONS = ["8h", "30m", "1h30m", "12h", "24h0m", "1m", "168h", "8h0m0s", "0h", "720h"]


def budget(draw):
    one = {"nodes": draw.choice(["0", "1", "2", "3", "7", "20", "0%", "1%", "10%", "33%", "50%", "99%", "100%"])}
    if draw.random() < 0.4:
        one["reasons"] = some(draw, ["Underutilized", "Empty", "Drifted"], 3)
    if draw.random() < 0.55:
        odd = draw.random() < 0.12
        one["schedule"] = draw.choice(SCHEDULES if odd else SCHEDULES[:14])
        one["duration"] = draw.choice(DURATIONS)
    return one


def taint(draw):
    one = {"key": draw.choice(["gpu", "example.com/gpu", "team"]), "effect": draw.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"])}
    if draw.random() < 0.6:
        one["value"] = draw.choice(["true", "a", "b-c"] if draw.random() < 0.95 else [LONG])
    return one


def pool_requirement(draw):
    key = draw.choice(["karpenter.sh/capacity-type", "kubernetes.io/arch", "topology.kubernetes.io/zone", "team",
                       "node.kubernetes.io/instance-type", "example.com/gen", "karpenter.kwok.sh/instance-cpu"])
    one = {"key": key, "operator": draw.choice(["In", "In", "In", "NotIn", "Exists", "Gt", "Lt", "Gte", "Lte"])}
    if one["operator"] in ("Gt", "Lt", "Gte", "Lte"):
        one["values"] = [str(draw.choice([0, 1, 3, 10, 100]))]
    elif one["operator"] != "Exists":
        values = {"karpenter.sh/capacity-type": ["spot", "on-demand", "reserved", "ondemand", "cheap"],
                  "topology.kubernetes.io/zone": ["a", "b", "c"]}.get(key, ["a", "b", "amd64", "x.y", "5"])
        one["values"] = draw.sample(values, draw.randint(1, 3))
        if draw.random() < 0.04:
            one["values"].append(draw.choice(["a b", "-a", LONG[:64]]))
    if draw.random() < 0.2:
        one["minValues"] = draw.randint(1, max(1, len(one.get("values", [1]))) if one["operator"] == "In" else 3)
    return one


def pool(draw, name):
    template = {"spec": {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": draw.choice(["default", "other"])},
                         "expireAfter": draw.choice(["720h", "Never", "0s", "43200m", "1h30m", "24h"]),
                         "requirements": [pool_requirement(draw) for _ in range(draw.randint(0, 3))]}}
    if draw.random() < 0.7:
        template["metadata"] = {}
        if draw.random() < 0.8:
            template["metadata"]["labels"] = {k: draw.choice(["a", "b", "", "x-1"]) for k in some(draw, ["team", "tier", "example.com/gen"], 3)}
        if draw.random() < 0.4:
            template["metadata"]["annotations"] = {k: draw.choice(["", "some words", "1"]) for k in some(draw, ["note", "example.com/n"], 2)}
    if draw.random() < 0.4:
        template["spec"]["terminationGracePeriod"] = draw.choice(["0s", "30s", "1h", "60m", "1h0m"])
    for field in ("taints", "startupTaints"):
        if draw.random() < 0.3:
            template["spec"][field] = [taint(draw) for _ in range(draw.randint(0, 2))]
    disruption = {"consolidationPolicy": draw.choice(["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"]),
                  "consolidateAfter": draw.choice(["0s", "30s", "Never", "1h"]),
                  "budgets": [budget(draw) for _ in range(draw.choice([0, 1, 1, 2, 2, 3, 4]))]}
    spec = {"template": template, "disruption": disruption}
    if draw.random() < 0.3:
        spec["weight"] = draw.randint(1, 100)
    if draw.random() < 0.3:
        spec["limits"] = {"cpu": draw.choice(["10", 100, "1500m"])}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}


def overlay_requirement(draw):
    key, values = draw.choice([
        ("node.kubernetes.io/instance-type", ["c-2", "c-8", "m-4", "none"]), ("topology.kubernetes.io/zone", ["a", "b", "c"]),
        ("karpenter.sh/capacity-type", ["spot", "on-demand"]), ("karpenter.sh/nodepool", ["p0", "p1"]), ("team", ["a", "b"]),
        ("kubernetes.io/arch", ["amd64", "arm64"]), ("karpenter.kwok.sh/instance-cpu", ["2", "4", "8"]),
        ("karpenter.kwok.sh/instance-family", ["c", "m"])])
    one = {"key": key, "operator": draw.choice(["In", "In", "In", "NotIn", "Exists", "DoesNotExist"])}
    if key.endswith("instance-cpu") and draw.random() < 0.6:
        one["operator"], values = draw.choice(["Gt", "Lt", "Gte", "Lte"]), [draw.choice(["1", "2", "4", "8"])]
    if one["operator"] in ("In", "NotIn"):
        one["values"] = draw.sample(values, draw.randint(1, 2))
        if draw.random() < 0.03:
            one["values"] = ["a b"]
    elif one["operator"] in ("Gt", "Lt", "Gte", "Lte"):
        one["values"] = values
    return one


def overlay(draw, name, weights):
    spec = {"requirements": [overlay_requirement(draw) for _ in range(draw.randint(0, 2))]}
    weight = weights.pop()
    if weight:
        spec["weight"] = weight
    kind = draw.random()
    if kind < 0.35:
        spec["price"] = draw.choice(["0.05", "1", "0.333", "0"])
    elif kind < 0.75:
        spec["priceAdjustment"] = draw.choice(["+10%", "-10%", "-100%", "+0.5", "-0.05", "-5", "+0%", "+12.5%"])
    if draw.random() < 0.5:
        names = some(draw, ["example.com/fpga", "example.com/x", "hugepages-2Mi", "smarter-devices/fuse"], 2)
        if draw.random() < 0.05:
            names.append(draw.choice(["cpu", "memory", "pods", "ephemeral-storage"]))
        spec["capacity"] = {one: "1Gi" if one == "hugepages-2Mi" else draw.choice(["1", "4", "20"]) for one in names}
    return {"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": name}, "spec": spec}


def main():
    draw = random.Random(20261127)
    worlds = []
    for _ in range(500):
        weights = draw.choice([[0, 10, 20, 30], [0, 0, 10, 10], [10, 10, 20, 30], [1, 0, 0, 5]])
        draw.shuffle(weights)
        worlds.append({
            "now": 1_767_225_600 + draw.randrange(365 * 86_400),
            "pools": [pool(draw, name) for name in ("p0", "p1")],
            "overlays": [overlay(draw, name, weights) for name in some(draw, ["o0", "o1", "o2", "o3"], 4)],
        })
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(types(), file)
        file.flush()
        text = "".join(json.dumps(world) + "\n" for world in worlds)
        run = [*sys.argv[1:], "-instance-types", file.name]
        answers = subprocess.run(run, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout
    print(json.dumps({"types": types()}, separators=(",", ":")))
    for world, answer in zip(worlds, answers.splitlines(), strict=True):
        print(json.dumps({**world, "answer": json.loads(answer)}, separators=(",", ":")))


main()
