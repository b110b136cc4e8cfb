#!/bin/bash
# github.com/google/go-containerregistry 0.22.1, its package registry with referrers on (`crane registry serve` runs it with
# referrers off).
#
# A referrer's entry in the list carries the artifactType of its manifest, says the distribution specification, and the media
# type of its config only where the manifest has none. This registry writes the config's media type always. A signature that
# is an artifact has the empty config, so that every signature is `application/vnd.oci.empty.v1+json`: a client that picks
# signatures by type finds none here, and has to read each manifest. The filter ?artifactType= is passed over, as is allowed:
# no header OCI-Filters-Applied is sent.
#
# Seen on 2026-11-28:
#   manifest: application/vnd.example.signature
#   list: application/vnd.oci.empty.v1+json
#   list, filtered by another type: application/vnd.oci.empty.v1+json, filters applied: ""
set -euo pipefail
work=$(mktemp -d); trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT; cd "$work"
cat > main.go <<'GO'
package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/google/go-containerregistry/pkg/registry"
)

const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	emptyType    = "application/vnd.oci.empty.v1+json"
)

func digest(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }

func send(method, url, media, text string) {
	request, err := http.NewRequest(method, url, strings.NewReader(text))
	if err != nil {
		panic(err)
	}
	request.Header.Set("Content-Type", media)
	answer, err := http.DefaultClient.Do(request)
	if err != nil || answer.StatusCode != http.StatusCreated {
		panic(fmt.Sprint(answer, err))
	}
}

func get(url string, into any) http.Header {
	answer, err := http.Get(url)
	if err != nil {
		panic(err)
	}
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		panic(err)
	}
	return answer.Header
}

func main() {
	quiet := registry.Logger(log.New(io.Discard, "", 0))
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), quiet))
	defer server.Close()
	repository := server.URL + "/v2/policy"

	empty := fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":2}`, emptyType, digest("{}"))
	send("POST", repository+"/blobs/uploads/?digest="+digest("{}"), "application/octet-stream", "{}")
	manifest := func(kind, more string) string {
		return fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"artifactType":%q,"config":%s,"layers":[%s]%s}`,
			manifestType, kind, empty, empty, more)
	}
	policy := manifest("application/vnd.example.policy", "")
	signature := manifest("application/vnd.example.signature", fmt.Sprintf(
		`,"subject":{"mediaType":%q,"digest":%q,"size":%d}`, manifestType, digest(policy), len(policy)))
	for _, text := range []string{policy, signature} {
		send("PUT", repository+"/manifests/"+digest(text), manifestType, text)
	}

	type typed struct {
		ArtifactType string `json:"artifactType"`
	}
	var one typed
	get(repository+"/manifests/"+digest(signature), &one)
	fmt.Println("manifest:", one.ArtifactType)
	var list, filtered struct{ Manifests []typed }
	get(repository+"/referrers/"+digest(policy), &list)
	fmt.Println("list:", list.Manifests[0].ArtifactType)
	header := get(repository+"/referrers/"+digest(policy)+"?artifactType=application/vnd.example.other", &filtered)
	fmt.Printf("list, filtered by another type: %s, filters applied: %q\n",
		filtered.Manifests[0].ArtifactType, header.Get("OCI-Filters-Applied"))
}
GO
go mod init local/finding 2>/dev/null
go get github.com/google/go-containerregistry/pkg/registry@v0.22.1 2>/dev/null
go run . | tee seen
diff seen - <<'SEEN' || { echo "the list of referrers has other types now"; exit 1; }
manifest: application/vnd.example.signature
list: application/vnd.oci.empty.v1+json
list, filtered by another type: application/vnd.oci.empty.v1+json, filters applied: ""
SEEN
