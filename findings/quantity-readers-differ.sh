#!/bin/bash
# k8s.io/apimachinery 0.36.4 (resource.ParseQuantity), kubernetes 37.0.2 (kubernetes.utils.quantity) and lightkube 1.0.1
# (lightkube.utils.quantity), both PyPI.
#
# Three readers of one format do not read one language. lightkube has neither `n` nor `u`, in which the metrics API writes CPU
# usage, nor a capital E before an exponent. Both Python readers take an exponent and a suffix together, kubernetes also a
# capital K, lightkube also Y: Go's reader, which is the API server's, refuses all three. There a suffix alone is 0, and what
# is below a billionth becomes a billionth; both Python readers refuse the first, and kubernetes keeps the second.
#
# Seen on 2026-11-28: the table at the end.
set -euo pipefail
work=$(mktemp -d); trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT; cd "$work"
python3 -m venv env
env/bin/pip install --quiet kubernetes==37.0.2 lightkube==1.0.1
cat > main.go <<'GO'
package main

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/api/resource"
)

func main() {
	for _, text := range os.Args[1:] {
		if quantity, err := resource.ParseQuantity(text); err != nil {
			fmt.Println("refused")
		} else {
			fmt.Println(quantity.AsDec())
		}
	}
}
GO
go mod init local/finding 2>/dev/null
go get k8s.io/apimachinery/pkg/api/resource@v0.36.4 2>/dev/null
texts="156340n 250u 2E6 1e3Ki 1K 1Y Ki 0.1n"
go run . $texts > go.txt
env/bin/python - $texts > python.txt <<'PY'
import sys
from kubernetes.utils.quantity import parse_quantity as kubernetes
from lightkube.utils.quantity import parse_quantity as lightkube

def read(reader, text):
    try:
        return format(reader(text).normalize(), "f")
    except ValueError:
        return "refused"

for text in sys.argv[1:]:
    print(read(kubernetes, text), read(lightkube, text))
PY
{
    echo "text apimachinery kubernetes lightkube"
    paste -d' ' <(printf '%s\n' $texts) go.txt python.txt
} | tee seen
diff seen - <<'SEEN' || { echo "the readers of quantities differ otherwise now"; exit 1; }
text apimachinery kubernetes lightkube
156340n 0.000156340 0.00015634 refused
250u 0.000250 0.00025 refused
2E6 2000000 2000000 refused
1e3Ki refused 1024000 1024000
1K refused 1000 refused
1Y refused refused 1000000000000000000000000
Ki 0 refused refused
0.1n 0.000000001 0.0000000001 refused
SEEN
