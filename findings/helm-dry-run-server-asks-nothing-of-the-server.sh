#!/bin/bash
# helm.sh/helm/v3 3.22.0 and helm.sh/helm/v4 4.3.1.
#
# `helm install --dry-run=server` sends nothing that the API server could refuse: it reads (for `lookup` and for objects that
# are there already) and prints the manifests. No object is sent with dryRun=All, so that neither validation nor admission is
# asked. A Deployment with a toleration of operator "Maybe" passes, and the installation itself is what fails.
#
# Seen on 2026-11-27 at a small server that records requests, and with the same outcome at kube-apiserver 1.36.4, which
# refuses that Deployment when it is created: exit code 0, requests of method GET alone.
set -euo pipefail
work=$(mktemp -d); trap 'kill $server 2>/dev/null || true; chmod -R u+w "$work"; rm -rf "$work"' EXIT; cd "$work"
for version in v3:3.22.0 v4:4.3.1; do
    major=${version%:*}
    mkdir "$major"
    (cd "$major" && go mod init local/finding && go get -tool "helm.sh/helm/$major/cmd/helm@v${version#*:}" &&
        CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o helm "helm.sh/helm/$major/cmd/helm") >log 2>&1 || { cat log; exit 1; }
done
mkdir -p chart/templates home
echo '{"apiVersion": "v2", "name": "one", "version": "1.0.0"}' > chart/Chart.yaml
cat > chart/templates/deployment.yaml <<'YAML'
apiVersion: apps/v1
kind: Deployment
metadata: {name: one}
spec:
  selector: {matchLabels: {app: one}}
  template:
    metadata: {labels: {app: one}}
    spec:
      tolerations: [{key: a, operator: Maybe}]
      containers: [{name: c, image: pause}]
YAML
cat > server.py <<'PY'
import http.server, json

VERBS = ["create", "delete", "get", "list", "patch", "update"]
DEPLOYMENTS = {"name": "deployments", "singularName": "deployment", "kind": "Deployment", "namespaced": True, "verbs": VERBS}
SECRETS = {"name": "secrets", "singularName": "secret", "kind": "Secret", "namespaced": True, "verbs": VERBS}
APPS = {"groupVersion": "apps/v1", "version": "v1"}
ANSWERS = {
    "/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.4"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1",
              "groups": [{"name": "apps", "versions": [APPS], "preferredVersion": APPS}]},
    "/api/v1": {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": [SECRETS]},
    "/apis/apps/v1": {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "apps/v1", "resources": [DEPLOYMENTS]},
}
MISSING = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}

class Api(http.server.BaseHTTPRequestHandler):
    def answer(self):
        path = self.path.split("?")[0]
        with open("requests", "a") as log:
            print(self.command, self.path, file=log)
        body = ANSWERS.get(path)
        if body is None and path.endswith("/secrets"):
            body = {"kind": "SecretList", "apiVersion": "v1", "metadata": {}, "items": []}
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body or MISSING).encode())

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
export HELM_CONFIG_HOME=$work/home HELM_CACHE_HOME=$work/home HELM_DATA_HOME=$work/home
for major in v3 v4; do
    : > requests
    code=0
    $major/helm --kubeconfig kubeconfig install one chart --dry-run=server --disable-openapi-validation >out 2>&1 || code=$?
    grep -q "operator: Maybe" out || { cat out; exit 1; }
    echo "$major exit code $code, methods: $(cut -d' ' -f1 requests | sort -u | paste -sd' ')"
done | tee seen
diff seen - <<'SEEN'
v3 exit code 0, methods: GET
v4 exit code 0, methods: GET
SEEN
