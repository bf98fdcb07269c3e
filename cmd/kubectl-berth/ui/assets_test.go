package ui

import (
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
)

func TestAssets(t *testing.T) {
	e := newTestEnv(t)
	e.server.assets = assetsOf(fstest.MapFS{
		"index.html":                  {Data: []byte("<!doctype html>")},
		"assets/main-0a1B2c3D.js":     {Data: []byte("1")},
		"assets/main-0a1B2c3D.css":    {Data: []byte("2")},
		"assets/icon.svg":             {Data: []byte("<svg/>")},
		"assets/main-0a1B2c3D.js.map": {Data: []byte("{}")},
		".hidden":                     {Data: []byte("x")},
	})
	for name, c := range map[string]struct {
		path, contentType, caching, body string
		status                           int
	}{
		"the page":                   {"/", "text/html; charset=utf-8", "no-store", "<!doctype html>", 200},
		"a script":                   {"/assets/main-0a1B2c3D.js", "text/javascript; charset=utf-8", immutableCaching, "1", 200},
		"a style sheet":              {"/assets/main-0a1B2c3D.css", "text/css; charset=utf-8", immutableCaching, "2", 200},
		"an asset without a hash":    {"/assets/icon.svg", "image/svg+xml", "no-store", "<svg/>", 200},
		"a file of no known type":    {"/.hidden", "application/json", "no-store", "", 404},
		"a source map":               {"/assets/main-0a1B2c3D.js.map", "application/json", "no-store", "", 404},
		"an asset that is not there": {"/assets/main-11111111.js", "application/json", "no-store", "", 404},
	} {
		t.Run(name, func(t *testing.T) {
			r := e.request(http.MethodGet, c.path, "")
			r.Header.Del(tokenHeader)
			w := e.respond(r)
			if w.Code != c.status || w.Header().Get("Content-Type") != c.contentType || w.Header().Get("Cache-Control") != c.caching {
				t.Errorf("status %d, type %q, caching %q", w.Code, w.Header().Get("Content-Type"), w.Header().Get("Cache-Control"))
			}
			if c.status == 200 && w.Body.String() != c.body {
				t.Errorf("the body is %q, want %q", w.Body, c.body)
			}
		})
	}
}

// The policy of the page allows no inline script and no inline style.
func TestTheEmbeddedPageIsThere(t *testing.T) {
	page, there := embeddedAssets()["/"]
	if !there || len(page.body) == 0 {
		t.Fatal("web/dist/index.html is not embedded")
	}
	for _, inline := range []string{"<style", "style=", "onload=", "onclick="} {
		if strings.Contains(string(page.body), inline) {
			t.Errorf("index.html contains %q, which its Content-Security-Policy forbids", inline)
		}
	}
}
