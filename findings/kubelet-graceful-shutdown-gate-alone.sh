#!/bin/sh
# Feature gates of Kubernetes 1.36.3, as every program that has them reads `featureGates`.
#
# GracefulNodeShutdown is in beta and on, and the documentation of node shutdowns says that it is
# controlled by this gate. Turned off alone it is refused since 1.35: two other gates, both on by default
# and one of them of Windows, need it. All three have to be turned off.
#
# Seen: alone: ... GracefulNodeShutdownBasedOnPodPriority is enabled, but depends on features that are
#       disabled: [GracefulNodeShutdown]; so does WindowsGracefulNodeShutdown
#       all three: taken
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
version=1.36.3
minor=0.36.3
cat > main.go <<'GO'
package main

import (
	"fmt"
	"strings"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	_ "k8s.io/kubernetes/pkg/features"
)

func verdict(off ...string) string {
	all := map[string]bool{}
	for _, name := range off {
		all[name] = false
	}
	gates := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	err := gates.SetFromMap(all)
	if err == nil {
		return "taken"
	}
	// The order of the two is random.
	var out []string
	for _, name := range []string{"GracefulNodeShutdownBasedOnPodPriority", "WindowsGracefulNodeShutdown"} {
		text := name + " is enabled, but depends on features that are disabled: [GracefulNodeShutdown]"
		if strings.Contains(err.Error(), text) {
			out = append(out, text)
		}
	}
	return strings.Join(out, "; ")
}

func main() {
	one := "GracefulNodeShutdown"
	fmt.Println("alone:", verdict(one))
	fmt.Println("all three:", verdict(one, one+"BasedOnPodPriority", "Windows"+one))
}
GO
go mod init finding >/dev/null 2>&1
go mod edit -require "k8s.io/kubernetes@v$version"
# Its own modules have versions of their own.
for name in $(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p' |
	xargs sed -n 's#^[[:space:]]*\(replace \)\{0,1\}\(k8s.io/[a-z-]*\) => ./staging.*#\2#p'); do
	go mod edit -replace "$name=$name@v$minor"
done
go mod tidy -e >/dev/null 2>&1
seen=$(go run . 2>/dev/null)
echo "k8s.io/kubernetes $version:"
echo "$seen"
needs="is enabled, but depends on features that are disabled: [GracefulNodeShutdown]"
[ "$seen" = "alone: GracefulNodeShutdownBasedOnPodPriority $needs; WindowsGracefulNodeShutdown $needs
all three: taken" ]
