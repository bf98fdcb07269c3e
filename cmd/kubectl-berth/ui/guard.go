package ui

import (
	"bytes"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

// tokenHeader is the header with the token. A header cannot be sent by a form or a link of
// another site.
const tokenHeader = "X-Berth-Token"

// tokenBytes is the number of random bytes of a token.
const tokenBytes = 32

// apiPrefix begins the paths that need the token. tryPath is the only path for POST.
const (
	apiPrefix = "/api/"
	tryPath   = "/api/try"
)

// The bounds of the body of a request, and of the time to read a body and to write a response.
const (
	maxBodyBytes    = 1 << 20
	bodyTimeout     = 30 * time.Second
	responseTimeout = expensiveTimeout + queryTimeout + 30*time.Second
)

// securityHeaders are the headers of every response. Handlers change Cache-Control only.
var securityHeaders = []struct{ name, value string }{
	{"Content-Security-Policy", strings.Join([]string{
		"default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:", "connect-src 'self'",
		"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
	}, "; ")},
	{"X-Content-Type-Options", "nosniff"},
	{"Referrer-Policy", "no-referrer"},
	{"Cross-Origin-Opener-Policy", "same-origin"},
	{"Cross-Origin-Resource-Policy", "same-origin"},
	{"X-Frame-Options", "DENY"},
	{"Cache-Control", "no-store"},
}

// bodyTypes are the media types of bodies.
var bodyTypes = []string{"application/yaml", "application/json"}

// guard rejects the requests that are not from the page of this run.
type guard struct {
	// host is the value that the header Host must have.
	host  string
	token string
}

// newGuard returns a guard for requests to an address, with a new token.
func newGuard(address string) *guard {
	random := make([]byte, tokenBytes)
	_, _ = rand.Read(random) // it never fails
	// Browsers leave out the default port.
	return &guard{host: strings.TrimSuffix(address, ":80"), token: base64.RawURLEncoding.EncodeToString(random)}
}

// origin returns the value that the header Origin must have, if it is there.
func (g *guard) origin() string { return "http://" + g.host }

// url returns the URL of the page. A fragment is not sent to servers.
func (g *guard) url() string { return g.origin() + "/#token=" + g.token }

// wrap returns a handler that sets the headers of every response, and passes on the requests
// that all rules accept.
func (g *guard) wrap(next http.Handler) http.Handler {
	rules := []func(*http.Request) error{g.checkHost, checkMethod, g.checkOrigin, checkPath, g.checkToken, checkBodyType}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, header := range securityHeaders {
			w.Header().Set(header.name, header.value)
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(responseTimeout)) // a test's writer has none
		for _, accepts := range rules {
			if err := accepts(r); err != nil {
				if statusOf(err) == http.StatusMethodNotAllowed {
					w.Header().Set("Allow", strings.Join(methodsOf(r.URL.Path), ", "))
				}
				writeError(w, err)
				return
			}
		}
		if err := readBody(w, r); err != nil {
			writeError(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkHost rejects other host names: a site whose name resolves to 127.0.0.1 would have the
// origin of this server (DNS rebinding).
func (g *guard) checkHost(r *http.Request) error {
	if r.Host != g.host {
		return &apiError{http.StatusMisdirectedRequest, fmt.Sprintf("This server answers requests to %s only.", g.host)}
	}
	return nil
}

// methodsOf returns the methods that a path is requested with.
func methodsOf(urlPath string) []string {
	if urlPath == tryPath {
		return []string{http.MethodPost}
	}
	return []string{http.MethodGet, http.MethodHead}
}

func checkMethod(r *http.Request) error {
	if allowed := methodsOf(r.URL.Path); !slices.Contains(allowed, r.Method) {
		return &apiError{http.StatusMethodNotAllowed, fmt.Sprintf("The method must be %s.", strings.Join(allowed, " or "))}
	}
	return nil
}

// checkOrigin rejects requests that browsers send for other sites.
func (g *guard) checkOrigin(r *http.Request) error {
	for _, origin := range r.Header.Values("Origin") {
		if origin != g.origin() {
			return &apiError{http.StatusForbidden, "Requests from other sites are rejected."}
		}
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" {
			return &apiError{http.StatusForbidden, "Requests from other sites are rejected: open the URL that kubectl berth ui printed."}
		}
	}
	return nil
}

// checkPath rejects paths with empty segments or dots, which ServeMux would redirect.
func checkPath(r *http.Request) error {
	if r.URL.Path != path.Clean(r.URL.Path) || !strings.HasPrefix(r.URL.Path, "/") {
		return errNoPath
	}
	return nil
}

// errNoPath is the error for a path that is not served.
var errNoPath = &apiError{http.StatusNotFound, "This path does not exist."}

// checkToken rejects requests for data without the token, which the page has from its URL.
func (g *guard) checkToken(r *http.Request) error {
	if !strings.HasPrefix(r.URL.Path, apiPrefix) {
		return nil
	}
	if subtle.ConstantTimeCompare([]byte(r.Header.Get(tokenHeader)), []byte(g.token)) != 1 {
		return &apiError{http.StatusUnauthorized, "The token is missing or is of another run: open the URL that kubectl berth ui printed."}
	}
	return nil
}

// checkBodyType rejects bodies of other media types than those of manifests.
func checkBodyType(r *http.Request) error {
	if r.Method != http.MethodPost {
		return nil
	}
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || !slices.Contains(bodyTypes, mediaType) {
		return &apiError{http.StatusUnsupportedMediaType, fmt.Sprintf("The Content-Type must be %s.", strings.Join(bodyTypes, " or "))}
	}
	return nil
}

// readBody replaces the body of a POST by one in memory, so that no query waits for a slow
// client. Other requests have no body.
func readBody(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		r.Body = http.NoBody
		return nil
	}
	tooLarge := &apiError{http.StatusRequestEntityTooLarge, fmt.Sprintf("The body must have at most %d bytes.", maxBodyBytes)}
	if r.ContentLength > maxBodyBytes {
		return tooLarge
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout)) // a test's writer has none
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	_ = control.SetReadDeadline(time.Time{})
	large := (*http.MaxBytesError)(nil)
	switch {
	case errors.As(err, &large):
		return tooLarge
	case err != nil:
		return &apiError{http.StatusBadRequest, "The body could not be read: " + err.Error() + "."}
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}
