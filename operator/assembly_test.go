package operator

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/metadata"
	restclient "k8s.io/client-go/rest"
)

// A process may start after its CRDs were deleted, and all profiles with them.
func TestWhetherAProfileExists(t *testing.T) {
	status := func(reason, code string) string {
		return `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"` + reason + `","code":` + code + `}`
	}
	for name, c := range map[string]struct {
		code   int
		body   string
		want   bool
		failed bool
	}{
		"it exists":                     {code: http.StatusOK, body: `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"batch"}}`, want: true},
		"it was deleted":                {code: http.StatusNotFound, body: status("NotFound", "404")},
		"its CRD was deleted":           {code: http.StatusNotFound, body: "404 page not found"},
		"the API server does not know":  {code: http.StatusServiceUnavailable, body: status("ServiceUnavailable", "503"), failed: true},
		"the process may not read them": {code: http.StatusForbidden, body: status("Forbidden", "403"), failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if want := "/apis/berth.dev/v1alpha1/schedulingprofiles/batch"; r.URL.Path != want {
					http.Error(w, "404 page not found", http.StatusNotFound) // discovery has no CRDs
					return
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(c.body))
			}))
			defer server.Close()
			client, err := metadata.NewForConfig(&restclient.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			exists, err := profileExists(client)(t.Context(), "batch")
			if exists != c.want || (err != nil) != c.failed {
				t.Errorf("exists %t, error %v; want %t, an error %t", exists, err, c.want, c.failed)
			}
		})
	}
}
