package ui

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheGuard(t *testing.T) {
	e := newTestEnv(t)
	with := func(change func(*http.Request)) func() *http.Request {
		return func() *http.Request {
			r := e.request(http.MethodGet, "/api/session", "")
			change(r)
			return r
		}
	}
	request := func(method, target string, change ...func(*http.Request)) func() *http.Request {
		return func() *http.Request {
			r := e.request(method, target, "kind: Pod")
			for _, c := range change {
				c(r)
			}
			return r
		}
	}
	noToken := func(r *http.Request) { r.Header.Del(tokenHeader) }
	for name, c := range map[string]struct {
		request func() *http.Request
		want    int
	}{
		"a request of the page":                        {with(func(*http.Request) {}), 200},
		"HEAD":                                         {request("HEAD", "/api/session"), 200},
		"a request without fetch metadata":             {with(func(r *http.Request) { r.Header.Del("Sec-Fetch-Site") }), 200},
		"a URL that the user opened":                   {request("GET", "/", noToken, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "none") }), 200},
		"the origin of the page":                       {with(func(r *http.Request) { r.Header.Set("Origin", "http://"+testAddress) }), 200},
		"the name of an attacker that resolves to it":  {with(func(r *http.Request) { r.Host = "evil.example:8090" }), 421},
		"localhost":                                    {with(func(r *http.Request) { r.Host = "localhost:8090" }), 421},
		"another port":                                 {with(func(r *http.Request) { r.Host = "127.0.0.1:8091" }), 421},
		"no port":                                      {with(func(r *http.Request) { r.Host = "127.0.0.1" }), 421},
		"another loopback address":                     {with(func(r *http.Request) { r.Host = "127.0.0.2:8090" }), 421},
		"another host for the page itself":             {request("GET", "/", func(r *http.Request) { r.Host = "evil.example" }), 421},
		"another origin":                               {with(func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }), 403},
		"localhost as origin":                          {with(func(r *http.Request) { r.Header.Set("Origin", "http://localhost:8090") }), 403},
		"an origin with another scheme":                {with(func(r *http.Request) { r.Header.Set("Origin", "https://"+testAddress) }), 403},
		"origin null":                                  {with(func(r *http.Request) { r.Header.Set("Origin", "null") }), 403},
		"an empty origin":                              {with(func(r *http.Request) { r.Header.Set("Origin", "") }), 403},
		"a second origin":                              {with(func(r *http.Request) { r.Header["Origin"] = []string{"http://" + testAddress, "https://evil.example"} }), 403},
		"another origin to the page itself":            {request("GET", "/", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }), 403},
		"Sec-Fetch-Site cross-site":                    {with(func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }), 403},
		"Sec-Fetch-Site same-site":                     {with(func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }), 403},
		"no token":                                     {with(noToken), 401},
		"a wrong token":                                {with(func(r *http.Request) { r.Header.Set(tokenHeader, "x"+e.server.guard.token[1:]+"x") }), 401},
		"the beginning of the token":                   {with(func(r *http.Request) { r.Header.Set(tokenHeader, e.server.guard.token[:10]) }), 401},
		"an empty token":                               {with(func(r *http.Request) { r.Header.Set(tokenHeader, "") }), 401},
		"the token in the query":                       {request("GET", "/api/session?token="+e.server.guard.token+"&"+tokenHeader+"="+e.server.guard.token, noToken), 401},
		"the token as a cookie":                        {request("GET", "/api/session", noToken, func(r *http.Request) { r.AddCookie(&http.Cookie{Name: tokenHeader, Value: e.server.guard.token}) }), 401},
		"a stream without the token":                   {request("GET", "/api/stream", noToken), 401},
		"a manifest without the token":                 {request("POST", "/api/try", noToken), 401},
		"an unknown path of the API without the token": {request("GET", "/api/secrets", noToken), 401},
		"OPTIONS":                                      {request("OPTIONS", "/api/session"), 405},
		"OPTIONS of another site":                      {request("OPTIONS", "/api/try", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }), 405},
		"OPTIONS *":                                    {request("OPTIONS", "/", func(r *http.Request) { r.URL.Path, r.RequestURI = "*", "*" }), 405},
		"PUT":                                          {request("PUT", "/api/session"), 405},
		"DELETE":                                       {request("DELETE", "/api/pods/default/web"), 405},
		"PATCH":                                        {request("PATCH", "/api/profiles/batch"), 405},
		"CONNECT":                                      {request("GET", "/", func(r *http.Request) { r.Method = "CONNECT" }), 405},
		"POST to another path":                         {request("POST", "/api/session"), 405},
		"POST to the page":                             {request("POST", "/"), 405},
		"GET of try":                                   {request("GET", "/api/try"), 405},
		"an unknown path":                              {request("GET", "/secrets"), 404},
		"an unknown path of the API":                   {request("GET", "/api/secrets"), 404},
		"a path of the API server":                     {request("GET", "/api/v1/namespaces/kube-system/secrets"), 404},
		"the API itself":                               {request("GET", "/api"), 404},
		"a path that leads out of the assets":          {request("GET", "/assets/../../ui.go"), 404},
		"an escaped path that leads out of them":       {request("GET", "/assets/%2e%2e/%2e%2e/ui.go"), 404},
		"escaped slashes":                              {request("GET", "/assets/..%2f..%2fui.go"), 404},
		"a path with an empty segment":                 {request("GET", "//assets/x"), 404},
		"the folder of the assets":                     {request("GET", "/assets/"), 404},
		"index.html by its name":                       {request("GET", "/index.html"), 404},
		"a name that is no name of a pod":              {request("GET", "/api/pods/default/..%2fsecrets"), 404},
		"a namespace that is none":                     {request("GET", "/api/pods/kube%2fsystem/web"), 404},
		"a body of another media type":                 {request("POST", "/api/try", func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }), 415},
		"a body that a form can send":                  {request("POST", "/api/try", func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }), 415},
		"a body without a media type":                  {request("POST", "/api/try", func(r *http.Request) { r.Header.Del("Content-Type") }), 415},
		"a body of a media type with a parameter":      {request("POST", "/api/try", func(r *http.Request) { r.Header.Set("Content-Type", "application/yaml; charset=utf-8") }), 422},
		"a manifest without a pod":                     {request("POST", "/api/try"), 422},
	} {
		t.Run(name, func(t *testing.T) {
			w := e.respond(c.request())
			if w.Code != c.want {
				t.Errorf("status %d, want %d: %s", w.Code, c.want, w.Body)
			}
			checkHeaders(t, w)
			if w.Code == 200 {
				return
			}
			if sentence, _ := fromJSON(t, w.Body.Bytes())["error"].(string); sentence == "" {
				t.Errorf("the body has no sentence: %s", w.Body)
			}
			if (w.Header().Get("Allow") != "") != (w.Code == 405) {
				t.Errorf("Allow is %q for status %d", w.Header().Get("Allow"), w.Code)
			}
		})
	}
}

// checkHeaders checks the headers of every response.
func checkHeaders(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	want := map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin", "X-Frame-Options": "DENY", "Cache-Control": "no-store",
	}
	got := map[string]string{}
	for name := range want {
		got[name] = w.Header().Get(name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want,+got):\n%s", diff)
	}
	for name := range w.Header() {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("the response has the header %s of CORS", name)
		}
	}
}

func TestABodyHasABound(t *testing.T) {
	for name, c := range map[string]struct {
		bytes   int
		chunked bool
		want    int
	}{
		"as large as allowed":                   {maxBodyBytes, false, 422},
		"larger by one byte":                    {maxBodyBytes + 1, false, 413},
		"as large as allowed, of unknown size":  {maxBodyBytes, true, 422},
		"larger by one byte, of unknown length": {maxBodyBytes + 1, true, 413},
	} {
		t.Run(name, func(t *testing.T) {
			e := newTestEnv(t)
			r := e.request(http.MethodPost, tryPath, "#"+strings.Repeat("x", c.bytes-1))
			if c.chunked {
				r.ContentLength = -1
			}
			w := e.respond(r)
			if w.Code != c.want {
				t.Errorf("status %d, want %d: %s", w.Code, c.want, w.Body)
			}
			checkHeaders(t, w)
		})
	}
}

func TestTokensDiffer(t *testing.T) {
	a, b := newGuard(testAddress), newGuard(testAddress)
	if a.token == b.token {
		t.Errorf("two runs have the token %s", a.token)
	}
	if len(a.token) != 43 { // 32 bytes in base64 without padding
		t.Errorf("the token %s has %d characters", a.token, len(a.token))
	}
	if want := "http://" + testAddress + "/#token=" + a.token; a.url() != want {
		t.Errorf("the URL is %s, want %s", a.url(), want)
	}
}

func TestBrowsersLeaveOutTheDefaultPort(t *testing.T) {
	for address, want := range map[string]string{"127.0.0.1:80": "127.0.0.1", "127.0.0.1:8080": "127.0.0.1:8080", "127.0.0.1:1080": "127.0.0.1:1080"} {
		if got := newGuard(address).host; got != want {
			t.Errorf("%s: the host is %s, want %s", address, got, want)
		}
	}
}
