#!/bin/sh
# sigs.k8s.io/yaml 1.6.0, with which kubectl, kubelets and nodeadm read YAML.
#
# UnmarshalStrict "is like Unmarshal, but is strict": unknown fields and fields that are there twice are
# errors. Of a text with several documents both read the first alone, and neither says so. What stands
# in the others may be another object, or no YAML at all.
#
# Seen: after `first: 2`: 1 <nil>, strict 1 <nil>
#       after `first: [`: 1 <nil>, strict 1 <nil>
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > main.go <<'GO'
package main

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

func main() {
	for _, further := range []string{"first: 2", "first: ["} {
		text := []byte("first: 1\n---\n" + further + "\n")
		var strict, lenient struct {
			First int `json:"first"`
		}
		first, second := yaml.Unmarshal(text, &lenient), yaml.UnmarshalStrict(text, &strict)
		fmt.Printf("after `%s`: %d %v, strict %d %v\n", further, lenient.First, first, strict.First, second)
	}
}
GO
go mod init finding >/dev/null 2>&1
go get sigs.k8s.io/yaml@v1.6.0 >/dev/null 2>&1
seen=$(go run .)
echo "sigs.k8s.io/yaml 1.6.0:"
echo "$seen"
[ "$seen" = 'after `first: 2`: 1 <nil>, strict 1 <nil>
after `first: [`: 1 <nil>, strict 1 <nil>' ]
