#!/bin/bash
# kubernetes 37.0.2 (PyPI) and k8s.io/api 0.36.4.
#
# The fields acquireTime and renewTime of a Lease are of type MicroTime, which the types of the API server read with exactly
# six digits of a second. The Python client writes a datetime with isoformat, which leaves the fraction out where it is zero,
# and the zone where there is none: a time rounded to the second is refused, and so would be one in a million of the others.
# A field of type Time takes the same text. Milliseconds (what JSON.stringify makes of a JavaScript Date) are refused too.
#
# Seen on 2026-11-28:
#   renewTime "2026-11-28T00:00:00.123456+00:00" taken
#   renewTime "2026-11-28T00:00:00+00:00" refused: cannot parse "+00:00" as ".000000"
#   creationTimestamp "2026-11-28T00:00:00+00:00" taken
#   renewTime "2026-11-28T00:00:00.123456" refused: cannot parse "" as "Z07:00"
#   renewTime "2026-11-28T00:00:00.123Z" refused: cannot parse ".123Z" as ".000000"
set -euo pipefail
work=$(mktemp -d); trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT; cd "$work"
python3 -m venv env
env/bin/pip install --quiet kubernetes==37.0.2
cat > main.go <<'GO'
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	coordination "k8s.io/api/coordination/v1"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		field, text, _ := strings.Cut(lines.Text(), "\t")
		_, value, _ := strings.Cut(text, field+`": `)
		verdict := "taken"
		if err := json.Unmarshal([]byte(text), &coordination.Lease{}); err != nil {
			_, why, _ := strings.Cut(err.Error(), ": ")
			verdict = "refused: " + why
		}
		fmt.Printf("%s %s %s\n", field, strings.TrimRight(value, "}"), verdict)
	}
}
GO
go mod init local/finding 2>/dev/null
go get k8s.io/api/coordination/v1@v0.36.4 2>/dev/null
go build -o read .
{
    env/bin/python - <<'PY'
import json
from datetime import datetime, timezone
from kubernetes import client

def write(field, of):
    print(field, json.dumps(client.ApiClient().sanitize_for_serialization(of)), sep="\t")

exact = datetime(2026, 11, 28, 0, 0, 0, 123456, timezone.utc)
second = exact.replace(microsecond=0)
write("renewTime", client.V1Lease(spec=client.V1LeaseSpec(renew_time=exact)))
write("renewTime", client.V1Lease(spec=client.V1LeaseSpec(renew_time=second)))
write("creationTimestamp", client.V1Lease(metadata=client.V1ObjectMeta(creation_timestamp=second)))
write("renewTime", client.V1Lease(spec=client.V1LeaseSpec(renew_time=exact.replace(tzinfo=None))))
PY
    printf 'renewTime\t{"spec": {"renewTime": "2026-11-28T00:00:00.123Z"}}\n'
} | ./read | tee seen
diff seen - <<'SEEN' || { echo "a MicroTime is written or read differently now"; exit 1; }
renewTime "2026-11-28T00:00:00.123456+00:00" taken
renewTime "2026-11-28T00:00:00+00:00" refused: cannot parse "+00:00" as ".000000"
creationTimestamp "2026-11-28T00:00:00+00:00" taken
renewTime "2026-11-28T00:00:00.123456" refused: cannot parse "" as "Z07:00"
renewTime "2026-11-28T00:00:00.123Z" refused: cannot parse ".123Z" as ".000000"
SEEN
