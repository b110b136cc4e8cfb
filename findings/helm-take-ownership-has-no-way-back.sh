#!/bin/bash
# helm.sh/helm/v4 4.3.1, an installation with TakeOwnership (`helm upgrade --install --take-ownership`) over an object that
# belongs to no release.
#
# There is no way back to "belongs to no release". A rollback of revision 1 fails with "release has no 0 version", and
# `uninstall`, which is what people type next, deletes the object, though the release never created it. For definitions that
# the folder `crds` of a chart installed (they belong to no release, and Helm never deletes them) that is a change of fate.
#
# Seen on 2026-11-27 (ConfigMap `kept` on a small server):
#   install: refused without TakeOwnership, invalid ownership metadata
#   install with TakeOwnership: done
#   rollback: release has no 0 version
#   uninstall: done, the object is gone (404)
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
            return self.send(200, STORE.pop(name))
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
	"net/http"
	"os"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/kube"
)

const object = `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}}`

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func ask(method, url, body string) int {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	must(err)
	answer, err := http.DefaultClient.Do(request)
	must(err)
	answer.Body.Close()
	return answer.StatusCode
}

func main() {
	settings := cli.New()
	settings.KubeConfig = os.Args[1]
	config := action.NewConfiguration()
	must(config.Init(settings.RESTClientGetter(), "default", "memory"))
	all := os.Args[2] + "/api/v1/namespaces/default/configmaps"
	ask("POST", all, object)
	install := func(take bool) error {
		install := action.NewInstall(config)
		install.WaitStrategy = kube.HookOnlyStrategy
		install.ReleaseName, install.Namespace, install.DisableOpenAPIValidation = "r", "default", true
		install.TakeOwnership = take
		_, err := install.Run(&chart.Chart{
			Metadata:  &chart.Metadata{APIVersion: "v2", Name: "one", Version: "1.0.0"},
			Templates: []*common.File{{Name: "templates/object.yaml", Data: []byte(object)}},
		}, nil)
		return err
	}
	err := install(false)
	fmt.Println("install, refused for its ownership metadata:", err != nil && strings.Contains(err.Error(), "invalid ownership metadata"))
	must(install(true))
	fmt.Println("install with TakeOwnership: done")
	rollback := action.NewRollback(config)
	rollback.WaitStrategy = kube.HookOnlyStrategy
	fmt.Println("rollback:", rollback.Run("r"))
	uninstall := action.NewUninstall(config)
	uninstall.WaitStrategy = kube.HookOnlyStrategy
	_, err = uninstall.Run("r")
	must(err)
	fmt.Println("uninstall: done, the object:", ask("GET", all+"/kept", ""))
}
GO
(go mod init local/finding && go get helm.sh/helm/v4@v4.3.1 && go mod tidy &&
    CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o try .) >log 2>&1 || { cat log; exit 1; }
./try kubeconfig "http://127.0.0.1:$(cat port)" 2>log | tee seen || { cat log; exit 1; }
diff seen - <<'SEEN'
install, refused for its ownership metadata: true
install with TakeOwnership: done
rollback: release has no 0 version
uninstall: done, the object: 404
SEEN
