#!/usr/bin/env python3
"""Records what the real readers make of user data of AL2023: `readers.jsonl`.

Usage: record_readers.py NODEADM KUBELET MEASURED > readers.jsonl

NODEADM and KUBELET are programs that are built elsewhere, over the packages of others; none of their
code is here. Each reads a JSON object a line and answers with one.

* NODEADM gets {"name", "userData"} and answers {"error"} or {"base", "dropin", "args"}. It is built in
  a copy of amazon-eks-ami's nodeadm (snapshot of 23 July 2026, commit 81fec2e8, Go 1.26.8). It decodes
  user data as internal/configprovider does for IMDS, calls ValidateNodeConfig, and gives what
  internal/kubelet writes: config.json, the drop-in, and the user's flags, for an m5.large in us-east-1
  and a kubelet of 1.36.3.
* KUBELET gets {"name", "base", "dropin", "args"} and answers {"stage", "error", "c", "labels"}. It is
  built over k8s.io/kubernetes 1.36.3 from the Go module proxy. It does what the kubelet's command does
  at its start: configfiles.NewFsLoader of the file, LoadIntoJSON of the drop-in, a merge patch
  (json-patch v4), defaults, the flags of cmd/kubelet/app/options, feature gates, and
  ValidateKubeletConfiguration. `failCgroupV1` is false, since it runs on any machine.
* MEASURED is a file of user data with names, a JSON object a line: cases of others that are recorded too.

Cases: those of MEASURED, cases of one rule each (`rules`), and 240 NodeClasses (`classes`) with user
data of the shapes that people use, drawn with a fixed seed.
"""

import base64
import gzip
import json
import random
import subprocess
import sys

HEAD = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"
CLUSTER = {
    "name": "demo",
    "apiServerEndpoint": "https://demo.eks.example",
    "certificateAuthority": "Y2EtYnVuZGxl",
    "cidr": "10.100.0.0/16",
}
CONFIG = "Content-Type: application/node.eks.aws"
SCRIPT = "Content-Type: text/x-shellscript"


def archive(parts, boundary="BOUNDARY", end=True):
    out = f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{boundary}"\n\n'
    for headers, text in parts:
        out += f"--{boundary}\n{headers}\n\n{text}\n"
    return out + (f"--{boundary}--\n" if end else "")


def b64(text):
    text = text if isinstance(text, bytes) else text.encode()
    return base64.b64encode(text).decode()


def ours(kubelet, labels=None):
    """What is added to every node: the last NodeConfig."""
    config = dict(kubelet)
    config.setdefault("clusterDNS", ["10.100.0.10"])
    config.setdefault("maxPods", 29)
    config["registerWithTaints"] = [
        {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
        {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
    ]
    pairs = {"karpenter.sh/do-not-sync-taints": "true", "team": "a", **(labels or {})}
    flags = ['--node-labels="%s"' % ",".join(f"{k}={v}" for k, v in sorted(pairs.items()))]
    spec = {"cluster": CLUSTER, "kubelet": {"config": config, "flags": flags}}
    return json.dumps({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec})


def node_config(kubelet=None, **spec):
    spec = dict(spec)
    if kubelet is not None:
        spec["kubelet"] = kubelet
    return HEAD + "spec: " + json.dumps(spec) + "\n"


def alone(text):
    return archive([(CONFIG, text)])


def with_ours(*parts, kubelet=None):
    return archive([*parts, (CONFIG, ours(kubelet or {}))])


def rules():
    """One rule of a reader each."""
    own = ours({})
    first = lambda config: (CONFIG, node_config({"config": config}))
    flags = lambda *all: (CONFIG, node_config({"flags": list(all)}))
    yield "a NodeConfig alone", own
    yield "a line before the archive", "\n" + alone(own)
    yield "a part that does not end", archive([(CONFIG, own)], end=False)
    yield "no boundary", "MIME-Version: 1.0\nContent-Type: multipart/mixed\n\n--B\n" + own
    yield "no archive and no NodeConfig", "#!/bin/bash\necho hi\n"
    yield "nothing but a script", archive([(SCRIPT, "#!/bin/bash\n")])
    yield "another header first", alone(own).replace("MIME-Version: 1.0", "X-A: b", 1)
    yield "the type in another case", archive([("content-type: Application/Node.EKS.aws; charset=UTF-8", own)])
    yield "a type with a suffix", archive([(CONFIG + "+yaml", own)])
    yield "text/plain beside it", archive([("Content-Type: text/plain", own), (CONFIG, own)])
    yield "text/plain alone", archive([("Content-Type: text/plain", own)])
    yield "a part without a type", archive([("X-A: b", own), (CONFIG, own)])
    yield "a part with an empty type", archive([("Content-Type: ", "hi"), (CONFIG, own)])
    yield "a type that cannot be read", archive([("Content-Type: text/plain; charset", "hi"), (CONFIG, own)])
    inner = alone(own).split("\n\n", 1)[1].replace("BOUNDARY", "C")
    yield "an archive inside", archive([('Content-Type: multipart/mixed; boundary="C"', inner)])
    yield "base64 with its header", archive([(CONFIG + "\nContent-Transfer-Encoding: base64", b64(own))])
    yield "base64 without a header", archive([(CONFIG, b64(own))])
    yield "base64 in lines", archive([(CONFIG, "\n".join(b64(own)[i : i + 76] for i in range(0, len(b64(own)), 76)))])
    yield "base64 after a space", archive([(CONFIG, " " + b64(own))])
    yield "gzip in base64", archive([(CONFIG, b64(gzip.compress(own.encode(), mtime=0)))])
    yield "all in base64", b64(alone(own))
    yield "all in gzip and base64", b64(gzip.compress(alone(own).encode(), mtime=0))
    yield "quoted-printable", archive([(CONFIG + "\nContent-Transfer-Encoding: quoted-printable", own.replace("=", "=3D"))])
    yield "a second document", alone(own + "\n---\n" + node_config({"config": {"maxPods": 5}}))
    yield "a second document that is broken", alone(own + "\n---\nfoo: [\n")
    yield "a document of comments first", alone("---\n# nothing\n---\n" + own)
    yield "comments before the document", alone("# nothing\n---\n" + own)
    yield "a document's end", alone(own + "\n...\n---\nfoo: bar\n")
    for what, old, new in [
        ("another version", "v1alpha1", "v1beta1"),
        ("another kind", '"NodeConfig"', '"nodeconfig"'),
        ("no kind", '"kind": "NodeConfig", ', ""),
        ("a field in another case", '"name": "demo"', '"Name": "demo"'),
        ("a number as a name", '"name": "demo"', '"name": 5'),
        ("a CA that is not base64", "Y2EtYnVuZGxl", "no base64!"),
        ("no CIDR", '"cidr"', '"other"'),
        ("a CIDR without a length", "10.100.0.0/16", "10.100.0.0"),
        ("an IPv6 CIDR", "10.100.0.0/16", "fd00::/108"),
        ("flags as a text", '"flags": [', '"flags": "--v=2", "other": ['),
    ]:
        yield what, alone(own.replace(old, new))
    for what, spec in [
        ("the kubelet's settings as a list", {"kubelet": {"config": [1]}}),
        ("a flag that is a number", {"kubelet": {"flags": [5]}}),
        ("gates as texts", {"featureGates": {"A": "true"}}),
        ("an environment of numbers", {"instance": {"environment": {"default": {"A": 1}}}}),
        ("a strategy that is unknown", {"instance": {"localStorage": {"strategy": "foo"}}}),
        ("TOML that is broken", {"containerd": {"config": "a = ["}}),
        ("fields that are unknown", {"other": 1, "kubelet": {"configuration": {}}}),
    ]:
        yield what, with_ours((CONFIG, node_config(**spec)))
    for what, config in [
        ("maps are merged", {"evictionHard": {"nodefs.available": "15%"}, "kubeReserved": {"cpu": "1"}}),
        ("lists are replaced", {"clusterDNS": ["1.1.1.1", "2.2.2.2"]}),
        ("a null in a map", {"evictionHard": {"nodefs.available": None}}),
        ("a null for a map", {"evictionHard": None}),
        ("a null for what is reserved", {"kubeReserved": None}),
        ("an unknown setting", {"maxPodz": 5}),
        ("pods per core", {"podsPerCore": 10}),
    ]:
        yield what, with_ours(first(config))
        yield what + ", ours", with_ours(kubelet=config)
    later = {"evictionHard": {}, "clusterDNS": [], "cpuCFSQuota": False, "registryPullQPS": 0}
    yield "what is empty in the last", with_ours(
        first({"evictionHard": {"memory.available": "7%"}, "clusterDNS": ["1.1.1.1"], "registryPullQPS": 9}),
        kubelet=later,
    )
    for what, all_ in [
        ("a flag of pods", ["--max-pods=110"]),
        ("a flag in two words", ["--max-pods", "110"]),
        ("two flags in one text", ["--max-pods=110 --v=4"]),
        ("a flag with an underscore", ["--max_pods=110"]),
        ("a flag of taints", ["--register-with-taints=mine=1:NoSchedule"]),
        ("a flag of taints, twice", ["--register-with-taints=a=1:NoSchedule", "--register-with-taints=b:NoExecute"]),
        ("a flag of taints, empty", ["--register-with-taints="]),
        ("taints without an effect", ["--register-with-taints=mine=1"]),
        ("a flag of what is reserved", ["--kube-reserved=cpu=1"]),
        ("a flag of what is reserved, twice", ["--kube-reserved=cpu=1", "--kube-reserved=memory=2Gi"]),
        ("a flag of the system's", ["--system-reserved=memory=1Gi"]),
        ("a flag of eviction", ["--eviction-hard=memory.available<5%"]),
        ("labels add up", ["--node-labels=mine=1,team=b"]),
        ("a label of Kubernetes", ["--node-labels=kubernetes.io/mine=1"]),
        ("a label of the node", ["--node-labels=node.kubernetes.io/mine=1"]),
        ("a flag that is unknown", ["--no-such-flag=1"]),
        ("a word that is no flag", ["word"]),
        ("a number that is none", ["--max-pods=many"]),
        ("a truth with a word after it", ["--protect-kernel-defaults", "true"]),
        ("verbosity", ["-v=4"]),
        ("a gate", ["--feature-gates=NodeSwap=true"]),
        ("a gate that is unknown", ["--feature-gates=NoSuchGate=true"]),
        ("a mark alone", ["--image-gc-high-threshold=80"]),
    ]:
        yield what, with_ours(flags(*all_))
    for what, expression in [
        ("an expression", "((default_enis - 1) * (ips_per_eni - 1) * 16) + 2"),
        ("an expression of an unknown name", "no_such + 2"),
        ("an expression of nothing", "max_pods - 29"),
        ("an expression with a point", "58.9"),
    ]:
        yield what, with_ours((CONFIG, node_config({"maxPodsExpression": expression})))


SETTINGS = [
    {"maxPods": 58}, {"maxPods": 110}, {"podsPerCore": 20}, {"podPidsLimit": 4096},
    {"kubeReserved": {"cpu": "200m", "memory": "1Gi"}}, {"kubeReserved": {"ephemeral-storage": "2Gi"}},
    {"systemReserved": {"cpu": "100m", "memory": "200Mi"}}, {"systemReserved": {"pid": "1000"}},
    {"evictionHard": {"memory.available": "5%", "nodefs.available": "10%"}},
    {"evictionHard": {"memory.available": "300Mi"}}, {"evictionHard": {"imagefs.available": "15%"}},
    {"evictionSoft": {"memory.available": "500Mi"}, "evictionSoftGracePeriod": {"memory.available": "1m30s"}},
    {"evictionMaxPodGracePeriod": 60}, {"cpuCFSQuota": False}, {"clusterDNS": ["169.254.20.10"]},
    {"imageGCHighThresholdPercent": 70, "imageGCLowThresholdPercent": 50}, {"imageGCHighThresholdPercent": 75},
    {"imageGCLowThresholdPercent": 60}, {"imageGCLowThresholdPercent": 85}, {"maxParallelImagePulls": 5},
    {"serializeImagePulls": True}, {"registryPullQPS": 20, "registryBurst": 40}, {"containerLogMaxSize": "50Mi"},
    {"containerLogMaxFiles": 3}, {"containerLogMaxFiles": 1}, {"shutdownGracePeriod": "60s"},
    {"shutdownGracePeriod": "20s"}, {"shutdownGracePeriod": "0s"}, {"shutdownGracePeriodCriticalPods": "60s"},
    {"shutdownGracePeriod": "5m", "shutdownGracePeriodCriticalPods": "1m"}, {"reservedSystemCPUs": "0"},
    {"reservedSystemCPUs": "0-1", "systemReservedCgroup": "", "kubeReservedCgroup": ""},
    {"cpuManagerPolicy": "static"}, {"topologyManagerPolicy": "single-numa-node"}, {"topologyManagerPolicy": "best"},
    {"featureGates": {"NodeSwap": True}}, {"featureGates": {"NoSuchGate": True}},
    {"featureGates": {"InPlacePodVerticalScaling": False}}, {"featureGates": {"KubeletCrashLoopBackOffMax": False}},
    {"failSwapOn": False, "memorySwap": {"swapBehavior": "LimitedSwap"}},
    {"failSwapOn": False, "memorySwap": {"swapBehavior": "UnlimitedSwap"}}, {"seccompDefault": True},
    {"enforceNodeAllocatable": ["pods", "kube-reserved"]}, {"enforceNodeAllocatable": ["pods", "all"]},
    {"logging": {"format": "json"}}, {"oomScoreAdj": -999}, {"oomScoreAdj": -2000}, {"eventBurst": -1},
    {"crashLoopBackOff": {"maxContainerRestartPeriod": "60s"}}, {"crashLoopBackOff": {"maxContainerRestartPeriod": "10m"}},
    {"allowedUnsafeSysctls": ["net.core.*"]}, {"hairpinMode": "hairpin"}, {"userNamespaces": {"idsPerPod": 1000}},
]


def classes(seed=20261127, count=240):
    """NodeClasses: a name, user data as it is sent, spec.kubelet and spec.userData."""
    draw = random.Random(seed)
    script = "#!/bin/bash\nset -euo pipefail\nyum install -y amazon-ssm-agent\n"
    cloud = "#cloud-config\nwrite_files:\n- path: /etc/motd\n  content: hello\n"

    def some(most):
        merged = {}
        for one in draw.sample(SETTINGS, draw.randint(0, most)):
            merged.update(one)
        return merged

    def config_part():
        kubelet = {}
        if draw.random() < 0.8:
            kubelet["config"] = some(2)
        if draw.random() < 0.3:
            kubelet["flags"] = draw.sample(
                ["--node-labels=tier=gold", "--v=2", "--max-pods=60", "--kube-reserved=cpu=300m,memory=1Gi",
                 "--image-gc-high-threshold=90", "--cluster-dns=10.0.0.10", "--no-such=1", "--register-node=true"],
                draw.randint(1, 2))
        spec = {}
        if draw.random() < 0.2:
            spec["featureGates"] = {"FastImagePull": True}
        if draw.random() < 0.2:
            spec["containerd"] = {"config": "[plugins]\n"}
        if draw.random() < 0.2:
            spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
        return node_config(kubelet, **spec)

    for at in range(count):
        kubelet = some(2) if draw.random() < 0.6 else {}
        shape = draw.choice(["none", "script", "cloud", "config", "config", "documents", "archive", "archive", "base64"])
        parts = []
        if shape == "none":
            text = None
        elif shape == "script":
            text, parts = script, [(SCRIPT, script)]
        elif shape == "cloud":
            text, parts = cloud, [("Content-Type: text/cloud-config", cloud)]
        elif shape == "config":
            text = config_part()
            parts = [(CONFIG, text)]
        elif shape == "documents":
            all_ = [config_part(), config_part()]
            text = "---\n".join(["", *all_])
            parts = [(CONFIG, one) for one in all_]
        else:
            pool = [(SCRIPT, script), ("Content-Type: text/cloud-config", cloud), (CONFIG, config_part()), (CONFIG, config_part())]
            parts = draw.sample(pool, draw.randint(1, 4))
            if shape == "base64":
                parts = [(f"{kind}\nContent-Transfer-Encoding: base64", b64(body)) for kind, body in parts]
            text = archive(parts, boundary="=" * 10 + "b")
        yield f"NodeClass {at + 1}", with_ours(*parts, kubelet=kubelet), kubelet, text


KEPT = [
    "clusterDNS", "maxPods", "podsPerCore", "kubeReserved", "systemReserved", "evictionHard", "evictionSoft",
    "evictionSoftGracePeriod", "evictionMaxPodGracePeriod", "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent", "shutdownGracePeriod", "shutdownGracePeriodCriticalPods", "podPidsLimit",
    "registryPullQPS", "serializeImagePulls", "cpuCFSQuota", "enforceNodeAllocatable", "registerWithTaints",
]


def ask(program, rows):
    lines = "\n".join(json.dumps(row) for row in rows)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main(nodeadm, kubelet, measured):
    cases = []
    for line in open(measured):
        case = json.loads(line)
        cases.append({"name": "measured: " + case["name"], "userData": case["userData"]})
    cases += [{"name": name, "userData": text} for name, text in rules()]
    for name, text, settings, own in classes():
        cases.append({"name": name, "userData": text, "class": {"kubelet": settings, "userData": own}})
    read = ask(nodeadm, [{"name": case["name"], "userData": case["userData"]} for case in cases])
    starts = []
    for answer in read:
        if not answer.get("error"):
            base = dict(answer["base"], failCgroupV1=False)
            args = answer.get("args", "")
            starts.append({"name": answer["name"], "base": base, "dropin": answer.get("dropin"), "args": args})
    started = {answer["name"]: answer for answer in ask(kubelet, starts)}
    for case, answer in zip(cases, read):
        if answer.get("error"):
            case["refused"] = "nodeadm: " + answer["error"].replace("config provider at index 0 failed: ", "")[:160]
        elif started[case["name"]]["stage"] != "ok":
            own = started[case["name"]]
            case["refused"] = f"kubelet: {own['stage']}: {own['error']}"[:200]
        else:
            own = started[case["name"]]
            settings = {key: own["c"].get(key) for key in KEPT}
            case["settings"] = {key: value for key, value in settings.items() if value is not None}
            case["labels"] = own.get("labels") or {}
        print(json.dumps(case, sort_keys=True, ensure_ascii=False))


if __name__ == "__main__":
    main(*sys.argv[1:4])
