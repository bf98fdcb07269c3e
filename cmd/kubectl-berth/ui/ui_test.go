package ui

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/test/support/kubectltest"
)

// testTimeout bounds how long a test waits for a server.
const testTimeout = 10 * time.Second

// startVerb runs the verb on a free port. It returns the URL that the verb prints, and a
// function that interrupts it and returns its error.
func startVerb(t *testing.T, e *testEnv) (*url.URL, func() error) {
	t.Helper()
	reader, writer := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	cmd := New(e.verbEnv(writer))
	cmd.SetArgs([]string{})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	ended := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		_ = writer.Close()
		ended <- err
	}()
	lines := bufio.NewScanner(reader)
	var printed []string
	for len(printed) < 2 && lines.Scan() {
		printed = append(printed, lines.Text())
	}
	if len(printed) != 2 || !strings.Contains(printed[1], "Ctrl-C") {
		t.Fatalf("printed: %q", printed)
	}
	address, is := strings.CutPrefix(printed[0], "Berth's page is at ")
	at, err := url.Parse(address)
	if !is || err != nil {
		t.Fatalf("printed %q: %v", printed[0], err)
	}
	return at, func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(testTimeout):
			return fmt.Errorf("the verb runs %v after it was interrupted", testTimeout)
		}
	}
}

func TestTheVerbServesThePageUntilItIsInterrupted(t *testing.T) {
	e := newTestEnv(t, streamObjects()...)
	at, interrupt := startVerb(t, e)
	token, is := strings.CutPrefix(at.Fragment, "token=")
	if at.Scheme != "http" || at.Hostname() != "127.0.0.1" || at.Path != "/" || !is {
		t.Fatalf("the URL is %s", at)
	}
	send := func(path, host, token string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at.Host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Host = at.Host; host != "" {
			r.Host = host
		}
		r.Header.Set(tokenHeader, token)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		return response
	}
	for name, c := range map[string]struct {
		path, host, token string
		want              int
	}{
		"the page":           {"/", "", "", 200},
		"data":               {"/api/session", "", token, 200},
		"data without token": {"/api/session", "", "", 401},
		"by another name":    {"/api/session", "localhost:" + at.Port(), token, 421},
	} {
		if got := send(c.path, c.host, c.token).StatusCode; got != c.want {
			t.Errorf("%s: status %d, want %d", name, got, c.want)
		}
	}
	lines, last := bufio.NewScanner(send("/api/stream", "", token).Body), map[string]any{}
	for last["type"] != "synced" {
		if !lines.Scan() {
			t.Fatalf("the stream ended after %v: %v", last, lines.Err())
		}
		last = fromJSON(t, lines.Bytes())
	}
	if err := interrupt(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	for lines.Scan() { // the stream ends with the verb
	}
	if _, err := (&net.Dialer{Timeout: testTimeout}).DialContext(context.WithoutCancel(t.Context()), "tcp", at.Host); err == nil {
		t.Error("it listens after it ended")
	}
}

// The pages of a browser share six connections, and each stream keeps one.
func TestWithTooManyPagesABrowserStillGetsAnswers(t *testing.T) {
	const connections = 6
	at, interrupt := startVerb(t, newTestEnv(t, streamObjects()...))
	token, _ := strings.CutPrefix(at.Fragment, "token=")
	browser := &http.Client{Transport: &http.Transport{MaxConnsPerHost: connections}}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	get := func(path string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at.Host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(tokenHeader, token)
		response, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		return response
	}
	for i := range connections - 1 {
		if status := get("/api/stream").StatusCode; status != 200 {
			t.Errorf("stream %d has status %d, want 200", i+1, status)
		}
	}
	refused := get("/api/stream")
	if body, err := io.ReadAll(refused.Body); err != nil || refused.StatusCode != 503 || !strings.Contains(string(body), "Too many pages are open") {
		t.Errorf("another stream has status %d: %s, %v", refused.StatusCode, body, err)
	}
	if status := get("/api/session").StatusCode; status != 200 {
		t.Errorf("a query has status %d, want 200", status)
	}
	if err := interrupt(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// A server that listened on all addresses would answer on 127.0.0.2, too.
func TestTheServerListensOnTheLoopbackInterfaceOnly(t *testing.T) {
	listener, err := listen(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	host, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil || host != "127.0.0.1" {
		t.Errorf("it listens on %s: %v", listener.Addr(), err)
	}
	others := []string{"127.0.0.2", "::1"}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		if network, is := address.(*net.IPNet); is && !network.IP.Equal(net.IPv4(127, 0, 0, 1)) {
			others = append(others, network.IP.String())
		}
	}
	for _, other := range others {
		connection, err := (&net.Dialer{Timeout: testTimeout}).DialContext(t.Context(), "tcp", net.JoinHostPort(other, port))
		if err == nil {
			_ = connection.Close()
			t.Errorf("it listens on %s as well", other)
		}
	}
}

func TestPortsThatCannotBeListenedOn(t *testing.T) {
	listener, err := listen(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	_, used, _ := net.SplitHostPort(listener.Addr().String())
	for name, c := range map[string]struct{ port, want string }{
		"a port that is in use":  {used, "address already in use"},
		"a negative port":        {"-1", "--port: Invalid value: -1: must be between 0 and 65535"},
		"a port that is too big": {"65536", "--port: Invalid value: 65536: must be between 0 and 65535"},
	} {
		t.Run(name, func(t *testing.T) {
			printed := strings.Join(strings.Fields(kubectltest.New(t).Run(New, "--port", c.port)), " ")
			if !strings.Contains(printed, c.want) || !strings.HasSuffix(printed, "exit 2") {
				t.Errorf("printed %q, want %q", printed, c.want)
			}
		})
	}
}
