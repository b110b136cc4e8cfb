#!/bin/sh
# The kubelet of Kubernetes 1.36.3: its file, and a drop-in of --config-dir.
#
# The documentation of drop-ins says that later files override earlier ones, and that of feature gates
# that one in beta is turned off with `false`. A drop-in that turns off KubeletCrashLoopBackOffMax is
# refused all the same: the kubelet fills in the defaults of its own file before it merges, and the
# setting that belongs to the gate is then there without the gate. In the file itself the same line is
# taken. What is run are the kubelet's own packages, in the order of its command.
#
# Seen: in the file: taken
#       in a drop-in: ... FeatureGate KubeletCrashLoopBackOffMax not enabled,
#       CrashLoopBackOff.MaxContainerRestartPeriod must not be set
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
version=1.36.3
minor=0.36.3
cat > main.go <<'GO'
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	versioned "k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/apis/config"
	conversion "k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	"k8s.io/kubernetes/pkg/util/filesystem"
)

const (
	// This machine may have cgroups of version 1.
	file = `{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration","failCgroupV1":false%s}`
	gate = `,"featureGates":{"KubeletCrashLoopBackOffMax":false}`
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func loader(name, more string) configfiles.Loader {
	if err := os.WriteFile(name, []byte(fmt.Sprintf(file, more)), 0o600); err != nil {
		panic(err)
	}
	return must(configfiles.NewFsLoader(&filesystem.DefaultFs{}, must(os.Getwd())+"/"+name))
}

func verdict(kubelet *config.KubeletConfiguration) string {
	gates := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	if err := gates.SetFromMap(kubelet.FeatureGates); err != nil {
		return err.Error()
	}
	if err := validation.ValidateKubeletConfiguration(kubelet, gates); err != nil {
		return err.Error()
	}
	return "taken"
}

func main() {
	fmt.Println("in the file:", verdict(must(loader("whole.json", gate).Load(context.Background()))))

	own := must(loader("base.json", "").Load(context.Background()))
	all := &versioned.KubeletConfiguration{}
	if err := conversion.Convert_config_KubeletConfiguration_To_v1beta1_KubeletConfiguration(own, all, nil); err != nil {
		panic(err)
	}
	dropIn, _, err := loader("drop-in.conf", gate).LoadIntoJSON()
	if err != nil {
		panic(err)
	}
	merged := must(jsonpatch.MergePatch(must(json.Marshal(all)), dropIn))
	all = &versioned.KubeletConfiguration{}
	if err := json.Unmarshal(merged, all); err != nil {
		panic(err)
	}
	conversion.SetDefaults_KubeletConfiguration(all)
	both := &config.KubeletConfiguration{}
	if err := conversion.Convert_v1beta1_KubeletConfiguration_To_config_KubeletConfiguration(all, both, nil); err != nil {
		panic(err)
	}
	fmt.Println("in a drop-in:", verdict(both))
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
seen=$(go run .)
echo "kubelet $version:"
echo "$seen"
[ "$seen" = "in the file: taken
in a drop-in: invalid configuration: FeatureGate KubeletCrashLoopBackOffMax not enabled, CrashLoopBackOff.MaxContainerRestartPeriod must not be set" ]
