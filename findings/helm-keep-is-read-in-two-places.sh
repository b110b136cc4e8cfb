#!/bin/bash
# helm.sh/helm/v4 4.3.1, the annotation helm.sh/resource-policy: keep.
#
# Where Helm reads it depends on the command. `uninstall` reads the manifest that the release has stored; an upgrade whose
# chart has lost the object reads the object in the cluster. So `kubectl annotate` protects an object from an upgrade and not
# from an uninstall, and taking the annotation away in the cluster has the opposite effect.
#
# Seen on 2026-11-27 (ConfigMap `kept` on a small server):
#   annotation in the cluster only:   uninstall deletes it, upgrade without it keeps it
#   annotation in the manifest only:  uninstall keeps it, upgrade without it deletes it
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

const keep = `"annotations": {"helm.sh/resource-policy": "keep"}, `

func of(name, annotations string) *chart.Chart {
	manifest := fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {%s"name": "%s"}}`, annotations, name)
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

func ask(server, method, body string) int {
	url := server + "/api/v1/namespaces/default/configmaps/kept"
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	must(err)
	request.Header.Set("Content-Type", "application/merge-patch+json")
	answer, err := http.DefaultClient.Do(request)
	must(err)
	answer.Body.Close()
	return answer.StatusCode
}

func main() {
	settings := cli.New()
	settings.KubeConfig = os.Args[1]
	for _, where := range []string{"cluster", "manifest"} {
		for _, command := range []string{"uninstall", "upgrade"} {
			config := action.NewConfiguration()
			must(config.Init(settings.RESTClientGetter(), "default", "memory"))
			manifest, live := "", `{"metadata": {"annotations": {"helm.sh/resource-policy": "keep"}}}`
			if where == "manifest" {
				manifest, live = keep, `{"metadata": {"annotations": {"helm.sh/resource-policy": null}}}`
			}
			install := action.NewInstall(config)
			install.WaitStrategy = kube.HookOnlyStrategy
			install.ReleaseName, install.Namespace, install.DisableOpenAPIValidation = "r", "default", true
			_, err := install.Run(of("kept", manifest), nil)
			must(err)
			ask(os.Args[2], "PATCH", live)
			if command == "uninstall" {
				uninstall := action.NewUninstall(config)
				uninstall.WaitStrategy = kube.HookOnlyStrategy
				_, err = uninstall.Run("r")
			} else {
				upgrade := action.NewUpgrade(config)
				upgrade.WaitStrategy = kube.HookOnlyStrategy
				upgrade.Namespace, upgrade.DisableOpenAPIValidation = "default", true
				_, err = upgrade.Run("r", of("other", ""), nil)
			}
			must(err)
			fmt.Printf("annotation in the %s only, %s: %d\n", where, command, ask(os.Args[2], "GET", ""))
			ask(os.Args[2], "DELETE", "")
		}
	}
}
GO
(go mod init local/finding && go get helm.sh/helm/v4@v4.3.1 && go mod tidy &&
    CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o try .) >log 2>&1 || { cat log; exit 1; }
./try kubeconfig "http://127.0.0.1:$(cat port)" 2>log | tee seen || { cat log; exit 1; }
diff seen - <<'SEEN'
annotation in the cluster only, uninstall: 404
annotation in the cluster only, upgrade: 200
annotation in the manifest only, uninstall: 200
annotation in the manifest only, upgrade: 404
SEEN
