#!/usr/bin/env python3
"""Records what Karpenter's AWS provider answers for every instance type and NodeClass variant, and compares Longshore.

    ./record_types.py --oracle ORACLE                         writes types-digests.tsv and types-samples.jsonl
    ./record_types.py --oracle ORACLE --longshore LONGSHORE   compares whole answers and prints differences

Variants are in types-variants.jsonl: a world of `oracle-aws types` without instance types, and flags. Instance types are
../data/instance_types.json.gz. A digest is the first 4 hex digits of the SHA-256 of the answer as JSON with sorted keys,
without spaces, prices in whole trillionths of a dollar. A fault that concerns one type in one variant escapes one digest
with a chance of 1 in 65 536. Samples are whole answers in the first variant, and merge patches of those in the others.
"""
import argparse, hashlib, json, pathlib, subprocess, sys, tempfile

args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
args.add_argument("--oracle", required=True)
args.add_argument("--longshore")
args.add_argument("--variant", help="this one alone (with --longshore)")
a = args.parse_args()
here = pathlib.Path(__file__).parent
types = here.parent / "data" / "instance_types.json.gz"
variants = [json.loads(line) for line in (here / "types-variants.jsonl").read_text().splitlines()]
SAMPLES = {"m5.large": None, "p5.48xlarge": None, "i4i.large": None, "m6g.large": None, "a1.metal": "al2023",
           "inf2.xlarge": "al2023", "c5.metal": "al2023", "t3.nano": "al2023", "u-6tb1.56xlarge": "al2023", "t1.micro": "al2023"}


def ask(command, variant, dash):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as world:
        json.dump(variant["world"], world), world.flush()
        flags = [f.replace("--", dash, 1) for f in variant["flags"]]
        files = ["-f", world.name, dash + "instance-types", str(types), dash + "offerings"]
        answer = subprocess.run([*command, *files, *flags], check=True, capture_output=True).stdout
    return {t["name"]: normal(t) for t in json.loads(answer)}


def normal(t):
    for o in t.get("offerings", []):
        o["price"] = round(o.get("price", 0) * 1e12)
    return t


def oracle(variant):
    return ask([a.oracle, "types"], variant, "-")


def patch(old, new):
    """The JSON merge patch (RFC 7386) that makes new of old."""
    return {k: patch(old[k], new[k]) if isinstance(old.get(k), dict) and isinstance(new.get(k), dict) else new.get(k)
            for k in old.keys() | new.keys() if old.get(k) != new.get(k)}


text = lambda value: json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def differences(path, ours, theirs):
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            yield from differences(f"{path}.{key}", ours.get(key), theirs.get(key))
    elif ours != theirs:
        yield f"{path}: ours {text(ours)}, Karpenter's {text(theirs)}"


if a.longshore:
    bad = compared = 0
    for variant in variants:
        if a.variant not in (None, variant["variant"]):
            continue
        ours, theirs = ask([a.longshore, "types", "--provider", "aws", "-o", "json"], variant, "--"), oracle(variant)
        found = {}
        for name in sorted(ours.keys() | theirs.keys()):
            compared += 1
            for line in differences("", ours.get(name, {}), theirs.get(name, {})):
                found.setdefault(line, []).append(name)
        bad += len({name for names in found.values() for name in names})
        for line, names in list(found.items())[:20]:
            print(f"{variant['variant']}{line} ({len(names)} types: {' '.join(names[:3])})")
    print(f"{compared} answers compared, {bad} differ")
    sys.exit(bad > 0)

answers = {v["variant"]: oracle(v) for v in variants}
digest = lambda value: hashlib.sha256(text(value).encode()).hexdigest()[:4]
names = sorted(next(iter(answers.values())))
lines = ["# type, and 4 digits per variant: " + " ".join(answers)]
lines += [n + "\t" + "".join(digest(answers[v][n]) for v in answers) for n in names]
(here / "types-digests.tsv").write_text("\n".join(lines) + "\n")
first = next(iter(answers))
samples = [text({"variant": v, "type": n, "answer": answers[v][n] if v == first else patch(answers[first][n], answers[v][n])})
           for v in answers for n, only in SAMPLES.items() if only in (None, v)]
(here / "types-samples.jsonl").write_text("\n".join(samples) + "\n")
print(f"{len(names)} types, {len(answers)} variants")
