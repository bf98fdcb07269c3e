package crashes

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/berthdev/berth/test/support/faultproxy"
)

// request is a write that the proxy received.
type request struct {
	method string
	// resource is "resource" or "resource/subresource".
	resource, namespace, name string
	body                      []byte
}

// requestOf parses a write. The path is /api/VERSION/… or /apis/GROUP/VERSION/….
func requestOf(w faultproxy.Write) request {
	parts := strings.Split(strings.Trim(w.Path, "/"), "/")
	r := request{method: w.Method, body: w.Body}
	prefix := 2
	if parts[0] == "apis" {
		prefix = 3
	}
	parts = parts[min(prefix, len(parts)):]
	if len(parts) > 2 && parts[0] == "namespaces" {
		r.namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "", "")
	r.resource, r.name = parts[0], parts[1]
	if parts[2] != "" {
		r.resource += "/" + parts[2]
	}
	return r
}

// names reports whether the request names the text: in its namespace, its name or its body.
func (r request) names(text string) bool {
	return strings.Contains(r.namespace, text) || strings.Contains(r.name, text) || bytes.Contains(r.body, []byte(text))
}

// isReview reports whether the request asks the API server something and writes nothing.
func (r request) isReview() bool { return strings.HasSuffix(r.resource, "reviews") }

// methods are the HTTP methods of the verbs of fault points.
var methods = map[string]string{
	"Create": http.MethodPost, "Bind": http.MethodPost, "Record": http.MethodPost, "Update": http.MethodPut, "UpdateStatus": http.MethodPut,
	"Patch": http.MethodPatch, "Apply": http.MethodPatch, "Delete": http.MethodDelete,
}
