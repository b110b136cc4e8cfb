#!/bin/bash
# apache-libcloud 3.9.1 (PyPI), whose wheel carries prices of EC2 (`compute`, `ec2_linux`).
#
# get_size_price gives None where it has no price. In the table that comes with the package 142 of 915 instance types of
# us-east-1 cost 0.0 instead, common ones among them (m5.xlarge, c5.9xlarge), while the same types have a price in other
# regions. list_sizes hands the zeros on, so that the cheapest size is one whose price is unknown. A reader has to take
# 0.0 for "unknown".
#
# Seen on 2026-11-28:
#   us-east-1: 915 instance types, 142 at 0.0
#   m5.xlarge: us-east-1 0.0, us-east-2 0.204
#   c5.9xlarge: us-east-1 0.0, us-east-2 1.53
#   no such type: None
#   cheapest size of the driver: 0.0
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
python3 -m venv env
env/bin/pip install --quiet apache-libcloud==3.9.1
# A list of prices in the home folder would come before the package's.
export HOME=$work
env/bin/python - <<'PY' | tee seen
from libcloud.compute.providers import get_driver
from libcloud.compute.types import Provider
from libcloud.pricing import get_pricing, get_size_price

prices = [of["us-east-1"] for of in get_pricing("compute", "ec2_linux").values() if "us-east-1" in of]
print(f"us-east-1: {len(prices)} instance types, {prices.count(0)} at 0.0")
for name in ["m5.xlarge", "c5.9xlarge"]:
    print(f"{name}:", ", ".join(f"{r} {get_size_price('compute', 'ec2_linux', name, r)}" for r in ["us-east-1", "us-east-2"]))
print("no such type:", get_size_price("compute", "ec2_linux", "m5.none", "us-east-1"))
sizes = get_driver(Provider.EC2)("key", "secret", region="us-east-1").list_sizes()
print("cheapest size of the driver:", min(size.price for size in sizes if size.price is not None))
PY
diff seen - <<'SEEN' || { echo "libcloud's zeros are no longer what they were"; exit 1; }
us-east-1: 915 instance types, 142 at 0.0
m5.xlarge: us-east-1 0.0, us-east-2 0.204
c5.9xlarge: us-east-1 0.0, us-east-2 1.53
no such type: None
cheapest size of the driver: 0.0
SEEN
