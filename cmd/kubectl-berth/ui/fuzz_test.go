package ui

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/kubectltest"
)

// maxResponse is more than the page is sent about a cluster of two nodes.
const maxResponse = 1 << 20

// FuzzRequests sends any request to the page's server. Without the token it tells nothing of
// the cluster; with it, the response is JSON with a status that fits, and never an internal
// error. Each response has the headers that protect the page, and none has the token.
func FuzzRequests(f *testing.F) {
	for _, seed := range []struct{ method, target, contentType, body string }{
		{"GET", "/", "", ""}, {"GET", "/api/session", "", ""}, {"HEAD", "/assets/index.js", "", ""}, {"GET", "/api/pods/default/web", "", ""},
		{"GET", "/api/pods/default/web/matrix", "", ""}, {"GET", "/api/pods/default/foreign/matrix?x=%zz", "", ""}, {"GET", "/api/pods/a%2fb/..", "", ""},
		{"GET", "/api/profiles/batch/revisions", "", ""}, {"GET", "/api/profiles/batch/diff?from=spec&to=spec", "", ""}, {"GET", "/api/profiles/batch/diff?from=&to=x", "", ""},
		{"POST", "/api/try", "application/yaml", podYAML}, {"POST", "/api/try?replicas=3&without-node=n1", "application/yaml", podYAML}, {"POST", "/api/try?replicas=-1", "application/json", "{}"},
		{"POST", "/api/try?replicas=100001&profile=%00", "application/yaml; charset=utf-8", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {replicas: 2, template: {spec: {schedulerName: batch, containers: [{name: c, image: i}]}}}"},
		{"POST", "/api/try", "application/x-www-form-urlencoded", "a=b"}, {"OPTIONS", "*", "", ""}, {"GET", "//api/session", "", ""}, {"DELETE", "/api/session", "", ""},
		{"POST", "/api/try", "application/yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {schedulerName: batch, containers: [{name: c, image: i, resources: {requests: {cpu: -1, memory: 9e40}}}], affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: ''}]}}}"},
	} {
		f.Add(seed.method, seed.target, seed.contentType, seed.body, true)
		f.Add(seed.method, seed.target, seed.contentType, seed.body, false)
	}
	f.Fuzz(func(t *testing.T, method, target, contentType, body string, authorized bool) {
		parsed, err := url.ParseRequestURI(target)
		if err != nil || len(body) > 8<<10 || strings.HasPrefix(parsed.Path, "/api/stream") || tooMany(parsed, body) {
			return
		}
		e := newTestEnv(t, queryObjects()...)
		r := &http.Request{
			Method: method, URL: parsed, Host: testAddress, RequestURI: target, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"Content-Type": {contentType}}, Body: http.NoBody, ContentLength: int64(len(body)),
		}
		r = r.WithContext(t.Context())
		if body != "" {
			r.Body = httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)).Body
		}
		if authorized {
			r.Header.Set(tokenHeader, e.server.guard.token)
		}
		w := httptest.NewRecorder()
		e.handler.ServeHTTP(w, r)
		checkResponse(t, e, r, w, authorized)
	})
}

// tooMany reports whether a request asks for so many pods that their evaluation takes long.
func tooMany(target *url.URL, body string) bool {
	n := target.Query().Get("replicas")
	return len(n) > 2 && !strings.HasPrefix(n, "-") && n != "100001" || strings.Contains(body, "replicas: ") && !strings.Contains(body, "replicas: 2,") ||
		strings.Contains(body, "parallelism") || strings.Contains(body, "completions") || strings.Contains(body, `"replicas"`)
}

func checkResponse(t *testing.T, e *testEnv, r *http.Request, w *httptest.ResponseRecorder, authorized bool) {
	t.Helper()
	text := w.Body.Bytes()
	for _, header := range securityHeaders {
		if header.name != "Cache-Control" && w.Header().Get(header.name) != header.value {
			t.Fatalf("%s %s: header %s is %q", r.Method, r.URL, header.name, w.Header().Get(header.name))
		}
	}
	if w.Code < 200 || w.Code == http.StatusInternalServerError || w.Code >= 300 && w.Code < 400 && w.Code != http.StatusNotModified || len(text) > maxResponse {
		t.Fatalf("%s %s: status %d, %d bytes: %.200s", r.Method, r.URL, w.Code, len(text), text)
	}
	if bytes.Contains(text, []byte(e.server.guard.token)) {
		t.Fatalf("%s %s: the response has the token", r.Method, r.URL)
	}
	if !strings.HasPrefix(r.URL.Path, apiPrefix) {
		return
	}
	if !authorized && w.Code < 400 {
		t.Fatalf("%s %s without the token: status %d: %s", r.Method, r.URL, w.Code, text)
	}
	var value map[string]any
	if r.Method != http.MethodHead && json.Unmarshal(text, &value) != nil {
		t.Fatalf("%s %s: no JSON: %.200s", r.Method, r.URL, text)
	}
	if failure, _ := value["error"].(string); r.Method != http.MethodHead && (w.Code >= 400) != (failure != "") {
		t.Fatalf("%s %s: status %d with error %q", r.Method, r.URL, w.Code, failure)
	}
}

// FuzzRecords has the page show any pod, node and profile, as they may be stored. The records
// are JSON, and a pod that has not ended has one.
func FuzzRecords(f *testing.F) {
	p, _, _ := twoRevisions()
	for _, object := range append(queryObjects(), kubectltest.Pod("bound", "batch", "n1"), fixture.ResourceSlice("n1", "gpu.example.com").Obj(), p) {
		text, err := json.Marshal(object)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"spec":{"containers":[{"resources":{"requests":{"cpu":"-9e40","a/b":"9223372036854775807"}}}],"resourceClaims":[{"name":"g"}]},"metadata":{"annotations":{"berth.dev/decision":"{\"v\":1,\"devices\":[\"x\"]}"}},"status":{"conditions":[{"type":"PodScheduled","status":"Maybe"}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 16<<10 {
			return
		}
		for name, of := range recordsOf(text) {
			value := of()
			encoded, err := json.Marshal(value)
			if err != nil || len(encoded) > 64*len(text)+4096 {
				t.Fatalf("%s: %d bytes of %d (%v)", name, len(encoded), len(text), err)
			}
		}
	})
}

// recordsOf returns the functions that make records of a text, by the kind that it is read as.
func recordsOf(text []byte) map[string]func() any {
	all := map[string]func() any{}
	for name, kind := range map[string]struct {
		object client.Object
		record func(client.Object) any
	}{
		"pod": {&corev1.Pod{}, podRecord}, "node": {&corev1.Node{}, nodeRecord}, "profile": {&v1alpha1.SchedulingProfile{}, profileRecord}, "slice": {&resourcev1.ResourceSlice{}, sliceRecord},
	} {
		if json.Unmarshal(text, kind.object) == nil {
			all[name] = func() any { return kind.record(kind.object) }
		}
	}
	return all
}
