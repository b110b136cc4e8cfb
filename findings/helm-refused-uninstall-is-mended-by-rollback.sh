#!/bin/bash
# helm.sh/helm/v4 4.3.1: a release whose uninstallation the API server refused.
#
# When a DELETE is refused (by an admission policy, by RBAC), `uninstall` fails with "failed to delete release" and does not
# say who refused, and the release stays in the state `uninstalling`. From there `upgrade` (and so `upgrade --install`) fails
# with "has no deployed releases", though every object is still there. What mends it is `rollback` to the very revision that
# the release is at: it makes a new one.
#
# Seen on 2026-11-27 (ConfigMap `kept` on a small server that refuses to delete it):
#   uninstall: failed to delete release: r
#   state: uninstalling
#   upgrade: "r" has no deployed releases
#   rollback to 1: done, state: deployed, revision 2
#   upgrade: done, revision 3
set -euo pipefail
work=$(mktemp -d); trap 'kill $server 2>/dev/null || true; chmod -R u+w "$work"; rm -rf "$work"' EXIT; cd "$work"
cat > server.py <<'PY'
import http.server, json

KIND = {"name": "configmaps", "singularName": "configmap", "kind": "ConfigMap", "namespaced": True,
        "verbs": ["create", "delete", "get", "list", "patch", "update"]}
ANSWERS = {
    "/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.4"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": [KIND]},
}
STORE = {}

def merge(own, patch):
    for key, value in patch.items():
        if value is None:
            own.pop(key, None)
        elif isinstance(value, dict) and isinstance(own.get(key), dict):
            merge(own[key], value)
        else:
            own[key] = value

class Api(http.server.BaseHTTPRequestHandler):
    def send(self, code, body):
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def answer(self):
        path = self.path.split("?")[0]
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if path in ANSWERS:
            return self.send(200, ANSWERS[path])
        parts = path.split("/")
        name = parts[6] if len(parts) == 7 else None
        missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
        if self.command == "POST":
            made = json.loads(body)
            STORE[made["metadata"]["name"]] = made
            return self.send(201, made)
        if self.command == "PATCH" and name not in STORE and "apply" in self.headers["Content-Type"]:
            STORE[name] = json.loads(body)
            return self.send(201, STORE[name])
        if name not in STORE:
            return self.send(404, missing)
        if self.command == "DELETE":
            denied = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
                      "message": 'configmaps "kept" is forbidden: a policy denied the request'}
            return self.send(403, denied)
        if self.command == "PATCH":
            merge(STORE[name], json.loads(body))
        return self.send(200, STORE[name])

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
open("port", "w").write(str(server.server_port))
server.serve_forever()
PY
python3 server.py & server=$!
until [ -s port ]; do sleep 0.1; done
cat > kubeconfig <<YAML
{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: ""}}],
 clusters: [{name: c, cluster: {server: "http://127.0.0.1:$(cat port)"}}]}
YAML
cat > main.go <<'GO'
package main

import (
	"fmt"
	"os"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
)

func of(value string) *chart.Chart {
	manifest := `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}, "data": {"a": "` + value + `"}}`
	return &chart.Chart{
		Metadata:  &chart.Metadata{APIVersion: "v2", Name: "one", Version: "1.0.0"},
		Templates: []*common.File{{Name: "templates/object.yaml", Data: []byte(manifest)}},
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	settings := cli.New()
	settings.KubeConfig = os.Args[1]
	config := action.NewConfiguration()
	must(config.Init(settings.RESTClientGetter(), "default", "memory"))
	last := func() *release.Release {
		found, err := config.Releases.Last("r")
		must(err)
		return found.(*release.Release)
	}
	install := action.NewInstall(config)
	install.WaitStrategy = kube.HookOnlyStrategy
	install.ReleaseName, install.Namespace, install.DisableOpenAPIValidation = "r", "default", true
	_, err := install.Run(of("1"), nil)
	must(err)
	upgrade := func(value string) error {
		upgrade := action.NewUpgrade(config)
		upgrade.WaitStrategy = kube.HookOnlyStrategy
		upgrade.Namespace, upgrade.DisableOpenAPIValidation = "default", true
		_, err := upgrade.Run("r", of(value), nil)
		return err
	}
	uninstall := action.NewUninstall(config)
	uninstall.WaitStrategy = kube.HookOnlyStrategy
	_, err = uninstall.Run("r")
	fmt.Println("uninstall:", err)
	fmt.Println("state:", last().Info.Status)
	fmt.Println("upgrade:", upgrade("2"))
	rollback := action.NewRollback(config)
	rollback.WaitStrategy = kube.HookOnlyStrategy
	rollback.Version = 1
	must(rollback.Run("r"))
	fmt.Printf("rollback to 1: done, state: %s, revision %d\n", last().Info.Status, last().Version)
	must(upgrade("3"))
	fmt.Printf("upgrade: done, revision %d\n", last().Version)
}
GO
(go mod init local/finding && go get helm.sh/helm/v4@v4.3.1 && go mod tidy &&
    CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o try .) >log 2>&1 || { cat log; exit 1; }
./try kubeconfig 2>log | tee seen || { cat log; exit 1; }
diff seen - <<'SEEN'
uninstall: failed to delete release: r
state: uninstalling
upgrade: "r" has no deployed releases
rollback to 1: done, state: deployed, revision 2
upgrade: done, revision 3
SEEN
