package extender

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// host is the name of all extenders here; their servers are on this machine.
const host = "gpu.example"

// extenderServer is an extender with a handler. It records the requests.
type extenderServer struct {
	*httptest.Server
	requests []string
}

func serve(t *testing.T, handler http.HandlerFunc) *extenderServer {
	t.Helper()
	s := &extenderServer{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.requests = append(s.requests, r.URL.Path+" "+string(body))
		handler(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}
}

// config returns the configuration of an extender at the server, whose certificate is
// for example.com.
func (s *extenderServer) config() Config {
	return Config{
		Name: "gpu", URL: "https://" + host + ":" + strings.Split(s.Listener.Addr().String(), ":")[1] + "/v1",
		Filter: "filter", Prioritize: "prioritize", Preempt: "preempt", Bind: "bind", Weight: 3, Timeout: time.Hour,
		CABundle:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		ServerName: "example.com",
	}
}

// localOptions allow clients to dial this machine.
func localOptions() Options {
	return Options{
		Allow: func(netip.AddrPort) error { return nil },
		Lookup: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		},
		Log: logr.Discard(),
	}
}

// expiredDeadline returns a context that has ended.
func expiredDeadline(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx, cancel
}

func client(t *testing.T, c Config, o Options) *Client {
	t.Helper()
	client, err := New(t.Context(), "batch", c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func nodes(names ...string) []fwk.NodeInfo {
	var list []fwk.NodeInfo
	for _, name := range names {
		info := framework.NewNodeInfo()
		info.SetNode(fixture.Node(name).Obj())
		list = append(list, info)
	}
	return list
}

func nodeNames(list []fwk.NodeInfo) []string {
	var names []string
	for _, n := range list {
		names = append(names, n.Node().Name)
	}
	return names
}

// failureOf returns the kind and the message of an extender's error.
func failureOf(t *testing.T, err error) (Kind, string) {
	t.Helper()
	if err == nil {
		return Answered, ""
	}
	var failure *Error
	if !errors.As(err, &failure) {
		t.Fatalf("%T %v is not an extender error", err, err)
	}
	return failure.Kind, failure.Message
}

func pod() *v1.Pod { return fixture.Pod("web").Obj() }
