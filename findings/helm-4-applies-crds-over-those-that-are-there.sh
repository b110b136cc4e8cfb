#!/bin/bash
# helm.sh/helm/v3 3.22.0 and helm.sh/helm/v4 4.3.1, the folder `crds` of a chart at installation, where a definition is there.
#
# Helm 3 sends a POST; the server says that it exists, and Helm passes over it, as the documentation of charts says. Helm 4
# sends a server-side apply (PATCH) and asks nothing: the definition becomes the chart's. With kube-apiserver 1.36.4 a
# definition that Helm 4 had installed from the templates of another release lost its annotations meta.helm.sh/release-name and
# -namespace so, because the same field manager applied an object without them.
#
# Seen on 2026-11-27, requests that write the definition, at a small server that records them:
#   v3: POST 409
#   v4: PATCH application/apply-patch+yaml 200
set -euo pipefail
work=$(mktemp -d); trap 'kill $server 2>/dev/null || true; chmod -R u+w "$work"; rm -rf "$work"' EXIT; cd "$work"
cat > server.py <<'PY'
import http.server, json

KIND = {"name": "customresourcedefinitions", "singularName": "customresourcedefinition", "kind": "CustomResourceDefinition",
        "namespaced": False, "verbs": ["create", "delete", "get", "list", "patch", "update"]}
GROUP = {"groupVersion": "apiextensions.k8s.io/v1", "version": "v1"}
ANSWERS = {
    "/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.4"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1",
              "groups": [{"name": "apiextensions.k8s.io", "versions": [GROUP], "preferredVersion": GROUP}]},
    "/api/v1": {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": []},
    "/apis/apiextensions.k8s.io/v1": {"kind": "APIResourceList", "apiVersion": "v1",
                                      "groupVersion": "apiextensions.k8s.io/v1", "resources": [KIND]},
}
THERE = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"},
         "status": {"conditions": [{"type": "Established", "status": "True"}]}}

class Api(http.server.BaseHTTPRequestHandler):
    def answer(self):
        path = self.path.split("?")[0]
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body, code = ANSWERS.get(path), 200
        if "/customresourcedefinitions" in path:
            code = 409 if self.command == "POST" else 200
            body = THERE
            kind = " " + self.headers["Content-Type"] if self.command == "PATCH" else ""
            if self.command != "GET":
                with open("requests", "a") as log:
                    print(f"{self.command}{kind} {code}", file=log)
        elif body is None:
            code = 404
        if code >= 400:
            reason = {404: "NotFound", 409: "AlreadyExists"}[code]
            body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

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
write() { # folder, imports, type of files, how a configuration is made, what else an installation is told
    mkdir "$1"
    cat > "$1/main.go" <<GO
package main

import (
	"os"

	$2
)

const definition = \`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
	"metadata": {"name": "things.example.com"}}\`

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	settings := cli.New()
	settings.KubeConfig = os.Args[1]
	$4
	install := action.NewInstall(config)
	install.ReleaseName, install.Namespace, install.DisableOpenAPIValidation = "r", "default", true
	$5
	_, err := install.Run(&chart.Chart{
		Metadata: &chart.Metadata{APIVersion: "v2", Name: "one", Version: "1.0.0"},
		Files:    []*$3.File{{Name: "crds/things.yaml", Data: []byte(definition)}},
	}, nil)
	must(err)
}
GO
    (cd "$1" && go mod init local/finding && go get "helm.sh/helm/$1@v$6" && go mod tidy &&
        CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o try .) >log 2>&1 || { cat log; exit 1; }
}
write v3 '"helm.sh/helm/v3/pkg/action"; "helm.sh/helm/v3/pkg/chart"; "helm.sh/helm/v3/pkg/cli"' chart \
    'config := new(action.Configuration); must(config.Init(settings.RESTClientGetter(), "default", "memory", func(string, ...interface{}) {}))' \
    '' 3.22.0
write v4 '"helm.sh/helm/v4/pkg/action"; "helm.sh/helm/v4/pkg/chart/common"; chart "helm.sh/helm/v4/pkg/chart/v2"; "helm.sh/helm/v4/pkg/cli"; "helm.sh/helm/v4/pkg/kube"' common \
    'config := action.NewConfiguration(); must(config.Init(settings.RESTClientGetter(), "default", "memory"))' \
    'install.WaitStrategy = kube.LegacyStrategy' 4.3.1
for major in v3 v4; do
    : > requests
    $major/try kubeconfig 2>log || { cat log; exit 1; }
    echo "$major: $(paste -sd, requests)"
done | tee seen
diff seen - <<'SEEN'
v3: POST 409
v4: PATCH application/apply-patch+yaml 200
SEEN
