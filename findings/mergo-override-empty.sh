#!/bin/sh
# dario.cat/mergo 1.0.2, with which nodeadm merges NodeConfigs.
#
# Its documentation says of WithOverride: "will make merge override non-empty dst attributes with
# non-empty src attributes values". In a map[string]any that is so for empty maps only: an empty list,
# an empty text, 0, false and nil in the source all replace what is in the destination.
#
# Seen: {"list":[],"map":{"a":1},"nil":null,"number":0,"text":"","truth":false}
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > main.go <<'GO'
package main

import (
	"encoding/json"
	"os"

	"dario.cat/mergo"
)

func main() {
	into := map[string]any{"map": map[string]any{"a": 1}, "list": []any{1}, "text": "a", "number": 1, "truth": true, "nil": 1}
	from := map[string]any{"map": map[string]any{}, "list": []any{}, "text": "", "number": 0, "truth": false, "nil": nil}
	if err := mergo.Merge(&into, from, mergo.WithOverride); err != nil {
		panic(err)
	}
	json.NewEncoder(os.Stdout).Encode(into)
}
GO
go mod init finding >/dev/null 2>&1
go get dario.cat/mergo@v1.0.2 >/dev/null 2>&1
seen=$(go run .)
echo "dario.cat/mergo 1.0.2: $seen"
[ "$seen" = '{"list":[],"map":{"a":1},"nil":null,"number":0,"text":"","truth":false}' ]
