#!/bin/bash
# gopkg.in/evanphx/json-patch.v4 4.13.0 (which the API server applies JSON patches with), github.com/evanphx/json-patch/v5
# 5.9.11, jsonpatch 1.48 (PyPI) and fast-json-patch 3.1.1 (npm, with validation).
#
# Four readers of RFC 6902 do not apply one language. In Go a negative index counts from a list's end, and 01 is an index; the
# RFC has neither. The RFC compares values; in Go 1 is not 1.0, and v4 compares the letters. Go's encoder, so the API server's
# too, writes `<` as an escape, and a test for the plain text fails. A test for null passes in Go where nothing is; v4
# replaces what is not there. A patch that was tried with another library may be refused by the API server, or do more there.
#
# Longshore's simulated API server takes nothing for null, as v4 does.
#
# Seen on 2026-11-28: the table at the end.
set -euo pipefail
work=$(mktemp -d); trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT; cd "$work"
cat > patches <<'LINES'
{"taints":[1,2]} [{"op":"remove","path":"/taints/-1"}]
{"taints":[1,2]} [{"op":"remove","path":"/taints/01"}]
{"weight":1} [{"op":"test","path":"/weight","value":1.0}]
{"note":"a\u003cb"} [{"op":"test","path":"/note","value":"a<b"}]
{"weight":1} [{"op":"test","path":"/taints","value":null}]
{"weight":1} [{"op":"replace","path":"/limit","value":2}]
{"weight":1} [{"op":"add","path":"","value":{"limit":2}}]
LINES
python3 -m venv env
env/bin/pip install --quiet jsonpatch==1.48
npm install --silent --no-fund --no-audit fast-json-patch@3.1.1 >log 2>&1 || { cat log; exit 1; }
cat > main.go <<'GO'
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	v5 "github.com/evanphx/json-patch/v5"
	v4 "gopkg.in/evanphx/json-patch.v4"
)

func show(text []byte, err error) string {
	if err != nil {
		return "refused"
	}
	return string(text)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		object, patch, _ := strings.Cut(lines.Text(), " ")
		four, err := v4.DecodePatch([]byte(patch))
		if err != nil {
			panic(err)
		}
		five, err := v5.DecodePatch([]byte(patch))
		if err != nil {
			panic(err)
		}
		fmt.Println(show(four.Apply([]byte(object))), show(five.Apply([]byte(object))))
	}
}
GO
cat > one.py <<'PY'
import json, sys
from jsonpatch import JsonPatchException, apply_patch
from jsonpointer import JsonPointerException

for line in sys.stdin:
    object, patch = line.split(" ")
    try:
        print(json.dumps(apply_patch(json.loads(object), json.loads(patch)), separators=(",", ":"), ensure_ascii=False))
    except (JsonPatchException, JsonPointerException):
        print("refused")
PY
cat > one.mjs <<'JS'
import { readFileSync } from 'node:fs'
import patches from 'fast-json-patch'
for (const line of readFileSync(0, 'utf8').trim().split('\n')) {
  const [object, patch] = line.split(' ').map((text) => JSON.parse(text))
  try {
    console.log(JSON.stringify(patches.applyPatch(object, patch, true).newDocument))
  } catch {
    console.log('refused')
  }
}
JS
go mod init local/finding 2>/dev/null
go get gopkg.in/evanphx/json-patch.v4@v4.13.0 github.com/evanphx/json-patch/v5@v5.9.11 2>/dev/null
go run . < patches > go.txt
env/bin/python one.py < patches > python.txt
node one.mjs < patches > js.txt
{
    echo "object, patch: json-patch.v4 json-patch/v5 jsonpatch fast-json-patch"
    paste -d' ' <(sed 's/$/:/' patches) go.txt python.txt js.txt
} | tee seen
diff seen - <<'SEEN' || { echo "the readers of JSON patches differ otherwise now"; exit 1; }
object, patch: json-patch.v4 json-patch/v5 jsonpatch fast-json-patch
{"taints":[1,2]} [{"op":"remove","path":"/taints/-1"}]: {"taints":[1]} {"taints":[1]} refused refused
{"taints":[1,2]} [{"op":"remove","path":"/taints/01"}]: {"taints":[1]} {"taints":[1]} refused refused
{"weight":1} [{"op":"test","path":"/weight","value":1.0}]: refused refused {"weight":1} {"weight":1}
{"note":"a\u003cb"} [{"op":"test","path":"/note","value":"a<b"}]: refused {"note":"a\u003cb"} {"note":"a<b"} {"note":"a<b"}
{"weight":1} [{"op":"test","path":"/taints","value":null}]: {"weight":1} {"weight":1} refused refused
{"weight":1} [{"op":"replace","path":"/limit","value":2}]: {"limit":2,"weight":1} refused refused refused
{"weight":1} [{"op":"add","path":"","value":{"limit":2}}]: refused {"limit":2} {"limit":2} {"limit":2}
SEEN
