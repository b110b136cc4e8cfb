#!/bin/sh
# Flags of the kubelet of Kubernetes 1.36.3 that are given twice.
#
# nodeadm appends a user's flags to those of others, and its source says that "for flags with multiple
# values like --node-labels, the values from every instance will be merged". So it is with labels, and
# with --kube-reserved, whose reference says the same kind of list. --register-with-taints is a list
# too ("comma separated"), and its last instance alone counts: the taints before it are gone. Nothing
# in the reference of the kubelet's flags tells the two kinds apart.
#
# Seen: labels: a=1,b=2
#       reserved: cpu=1,memory=2Gi
#       taints: b=:NoSchedule
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
	"io"
	"sort"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
)

func list(all map[string]string) string {
	var out []string
	for key, value := range all {
		out = append(out, key+"="+value)
	}
	sort.Strings(out)
	return strings.Join(out, ",")
}

func main() {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	own := options.NewKubeletFlags()
	own.AddFlags(flags)
	settings, err := options.NewKubeletConfiguration()
	if err != nil {
		panic(err)
	}
	options.AddKubeletConfigFlags(flags, settings)
	err = flags.Parse([]string{
		"--node-labels=a=1", "--node-labels=b=2",
		"--kube-reserved=cpu=1", "--kube-reserved=memory=2Gi",
		"--register-with-taints=a:NoSchedule", "--register-with-taints=b:NoSchedule",
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("labels:", list(own.NodeLabels))
	fmt.Println("reserved:", list(settings.KubeReserved))
	fmt.Println("taints:", flags.Lookup("register-with-taints").Value)
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
echo "kubelet $version:"
echo "$seen"
[ "$seen" = "labels: a=1,b=2
reserved: cpu=1,memory=2Gi
taints: b=:NoSchedule" ]
