#!/bin/bash
# Common Expression Language in five readers: cel-go 0.28.0, cel-python 0.5.0 and common-expression-language 0.10.0 (PyPI; the
# second is Rust's cel), cel-js 0.8.2 and @marcbachmann/cel-js 8.0.0 (npm). `price` is the double 0.096, `cores` the integer 8.
#
# The language compares numbers of two types and does not calculate with them; an error beside `|| true` does not matter;
# integers divide to integers; a text's size is in characters. What an expression about prices gives elsewhere:
# - cel-python refuses to compare a double with an integer on its left, and the two with ==, but multiplies them; true as a
#   text is "True".
# - common-expression-language counts a text's bytes, and string() knows numbers but not true.
# - cel-js multiplies the two as well, divides integers to fractions, has no string() and stops at the error beside true.
# An expression tried in one of them may fail, or say something else, in the next.
#
# Seen on 2026-11-28: the table at the end.
set -euo pipefail
work=$(mktemp -d); trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT; cd "$work"
cat > expressions <<'CEL'
price < 1
1 > price
cores == 8.0
price * 2 < 1.0
cores / 16 == 0
1 / 0 == 1 || true
string(true) == "true"
size("Zürich") == 6
CEL
python3 -m venv env
env/bin/pip install --quiet cel-python==0.5.0 common-expression-language==0.10.0
npm install --silent --no-fund --no-audit cel-js@0.8.2 @marcbachmann/cel-js@8.0.0 >log 2>&1 || { cat log; exit 1; }
cat > main.go <<'GO'
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/google/cel-go/cel"
)

func main() {
	env, err := cel.NewEnv(cel.Variable("price", cel.DynType), cel.Variable("cores", cel.DynType))
	if err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		ast, issues := env.Compile(lines.Text())
		if issues.Err() != nil {
			fmt.Println("refused")
			continue
		}
		program, err := env.Program(ast)
		if err != nil {
			panic(err)
		}
		value, _, err := program.Eval(map[string]any{"price": 0.096, "cores": 8})
		if err != nil {
			fmt.Println("refused")
			continue
		}
		fmt.Println(value)
	}
}
GO
cat > both.py <<'PY'
import sys
import cel, celpy
from celpy import celtypes

def python(text):
    environment = celpy.Environment()
    values = {"price": celtypes.DoubleType(0.096), "cores": celtypes.IntType(8)}
    return environment.program(environment.compile(text)).evaluate(values)

def rust(text):
    return cel.evaluate(text, {"price": 0.096, "cores": 8})

def read(reader, text):
    try:
        return str(bool(reader(text))).lower()
    except Exception:
        return "refused"

for text in sys.stdin.read().splitlines():
    print(read(python, text), read(rust, text))
PY
cat > both.mjs <<'JS'
import { readFileSync } from 'node:fs'
import { evaluate as first } from 'cel-js'
import { evaluate as second } from '@marcbachmann/cel-js'
const read = (evaluate, text, cores) => {
  try {
    return evaluate(text, { price: 0.096, cores })
  } catch {
    return 'refused'
  }
}
// The second takes integers as BigInt, numbers as double.
for (const text of readFileSync(0, 'utf8').trim().split('\n')) console.log(read(first, text, 8), read(second, text, 8n))
JS
go mod init local/finding 2>/dev/null
go get github.com/google/cel-go/cel@v0.28.0 2>/dev/null
go run . < expressions > go.txt
env/bin/python both.py < expressions > python.txt
node both.mjs < expressions > js.txt
{
    echo "expression: cel-go cel-python common-expression-language cel-js @marcbachmann/cel-js"
    paste -d' ' <(sed 's/$/:/' expressions) go.txt python.txt js.txt
} | tee seen
diff seen - <<'SEEN' || { echo "the readers of CEL differ otherwise now"; exit 1; }
expression: cel-go cel-python common-expression-language cel-js @marcbachmann/cel-js
price < 1: true true true true true
1 > price: true refused true true true
cores == 8.0: true refused true true true
price * 2 < 1.0: refused true refused true refused
cores / 16 == 0: true true true false true
1 / 0 == 1 || true: true true true refused true
string(true) == "true": true false refused refused true
size("Zürich") == 6: true true false true true
SEEN
