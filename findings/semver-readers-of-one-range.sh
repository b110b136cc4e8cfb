#!/bin/bash
# One range of versions in four readers: github.com/Masterminds/semver/v3 3.5.0 (Helm's, for kubeVersion), semver 7.8.6 (npm),
# github.com/hashicorp/go-version 1.9.0 (Terraform's) and github.com/blang/semver/v4 4.0.0.
#
# A version without its patch is a family of versions for Masterminds and npm, and 1.36.0 for go-version. So 1.36.4 is
# "<=1.36" and not ">1.36" for the first two, and the other way about for the third. "~>1.35" is less than 1.36 for the
# first two and less than 2 for go-version. With a prerelease in one bound Masterminds admits prereleases up to the other:
# ">=1.35.0-0 <1.37.0" takes 1.37.0-rc.1. npm takes none whose three numbers do not stand in the range, so that a managed
# cluster's 1.36.4-eks-1 falls out. A range that guards a version of Kubernetes means something else in the next tool.
#
# Seen on 2026-11-28: the table at the end.
set -euo pipefail
work=$(mktemp -d); trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT; cd "$work"
cat > ranges <<'LINES'
1.36 | 1.36.4
>1.36 | 1.36.4
<=1.36 | 1.36.4
!=1.36 | 1.36.4
~>1.35 | 1.36.4
>=1.35, <1.37 | 1.36.4
>=1.35.0 <1.37.0 | 1.36.4
>=1.35.0-0 <1.37.0 | 1.36.4-eks-1
>=1.35.0-0 <1.37.0 | 1.37.0-rc.1
<1.37.0 | 1.37.0-rc.1
LINES
npm install --silent --no-fund --no-audit semver@7.8.6 >log 2>&1 || { cat log; exit 1; }
cat > main.go <<'GO'
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	masterminds "github.com/Masterminds/semver/v3"
	blang "github.com/blang/semver/v4"
	hashicorp "github.com/hashicorp/go-version"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		text, version, _ := strings.Cut(lines.Text(), " | ")
		first, second, third := "refused", "refused", "refused"
		if within, err := masterminds.NewConstraint(text); err == nil {
			first = fmt.Sprint(within.Check(masterminds.MustParse(version)))
		}
		if within, err := hashicorp.NewConstraint(text); err == nil {
			second = fmt.Sprint(within.Check(hashicorp.Must(hashicorp.NewVersion(version))))
		}
		if within, err := blang.ParseRange(text); err == nil {
			third = fmt.Sprint(within(blang.MustParse(version)))
		}
		fmt.Println(first, second, third)
	}
}
GO
cat > one.mjs <<'JS'
import { readFileSync } from 'node:fs'
import semver from 'semver'
for (const line of readFileSync(0, 'utf8').trim().split('\n')) {
  const [range, version] = line.split(' | ')
  console.log(semver.validRange(range) === null ? 'refused' : semver.satisfies(version, range))
}
JS
go mod init local/finding 2>/dev/null
go get github.com/Masterminds/semver/v3@v3.5.0 github.com/hashicorp/go-version@v1.9.0 github.com/blang/semver/v4@v4.0.0 2>/dev/null
go run . < ranges > go.txt
node one.mjs < ranges > js.txt
{
    echo "range | version: Masterminds go-version blang npm"
    paste -d' ' <(sed 's/$/:/' ranges) go.txt js.txt
} | tee seen
diff seen - <<'SEEN' || { echo "the readers of ranges differ otherwise now"; exit 1; }
range | version: Masterminds go-version blang npm
1.36 | 1.36.4: true false refused true
>1.36 | 1.36.4: false true refused false
<=1.36 | 1.36.4: true false refused true
!=1.36 | 1.36.4: false true refused refused
~>1.35 | 1.36.4: false true refused false
>=1.35, <1.37 | 1.36.4: true true refused refused
>=1.35.0 <1.37.0 | 1.36.4: true refused true true
>=1.35.0-0 <1.37.0 | 1.36.4-eks-1: true refused true false
>=1.35.0-0 <1.37.0 | 1.37.0-rc.1: true refused true false
<1.37.0 | 1.37.0-rc.1: false false true false
SEEN
