package extender

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// pipeListener accepts connections that are pipes within the process.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipeListener) Close() error { close(p.closed); return nil }

func (p pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// Addresses of an extender, by what a connection to them does.
const (
	answers   = "192.0.2.1"
	blackHole = "192.0.2.2" // never answers
	refuses   = "192.0.2.3"
)

// dialEnv is a client of an extender with several addresses, in virtual time.
type dialEnv struct {
	*Client
	dialled []string
}

// dialTimeout is the timeout of its requests.
const dialTimeout = 6 * time.Second

func newDialEnv(t *testing.T, certificate tls.Certificate, lookup func(context.Context, string) ([]netip.Addr, error)) *dialEnv {
	t.Helper()
	listener := pipeListener{make(chan net.Conn), make(chan struct{})}
	server := &http.Server{Handler: answer(`{"NodeNames": ["n1"]}`)}
	go func() {
		_ = server.Serve(tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{certificate}}))
	}()
	t.Cleanup(func() { _ = server.Close() })
	d := &dialEnv{Client: client(t, Config{
		Name: "gpu", URL: "https://" + host + "/v1", Filter: "filter", Timeout: dialTimeout, NodeCacheCapable: true, ServerName: "example.com",
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}),
	}, Options{Lookup: lookup})}
	d.connect = func(ctx context.Context, _, address string) (net.Conn, error) {
		ip := strings.TrimSuffix(address, ":443")
		d.dialled = append(d.dialled, ip)
		switch ip {
		case answers:
			client, server := net.Pipe()
			listener.conns <- server
			return client, nil
		case blackHole:
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return nil, errors.New("connection refused")
	}
	return d
}

func TestAddressesAreDialledInTurn(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	certificate := server.TLS.Certificates[0]
	server.Close()
	for name, c := range map[string]struct {
		addresses string
		// lookup is the time of the lookup.
		lookup  time.Duration
		took    time.Duration
		dialled string
		kind    Kind
	}{
		"one address that answers":                               {answers, 0, 0, answers, Answered},
		"the first refuses, the second answers":                  {refuses + " " + answers, 0, 0, refuses + " " + answers, Answered},
		"the first is a black hole, the second answers":          {blackHole + " " + answers, 0, 2 * time.Second, blackHole + " " + answers, Answered},
		"two are black holes, the third answers":                 {blackHole + " " + blackHole + " " + answers, 0, 3 * time.Second, blackHole + " " + blackHole + " " + answers, Answered},
		"after a slow lookup what is left of the time is shared": {blackHole + " " + answers, 3 * time.Second, 4 * time.Second, blackHole + " " + answers, Answered},
		"all are black holes":                                    {blackHole + " " + blackHole, 0, dialTimeout, blackHole + " " + blackHole, Late},
		"the lookup takes all the time":                          {answers, time.Hour, dialTimeout, "", Late},
		"all refuse":                                             {refuses + " " + refuses, 0, 0, refuses + " " + refuses, Unreachable},
		"with a forbidden address none is dialled":               {blackHole + " 127.0.0.1 " + answers, 0, 0, "", Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDialEnv(t, certificate, func(ctx context.Context, _ string) (found []netip.Addr, err error) {
					select {
					case <-time.After(c.lookup):
					case <-ctx.Done():
						return nil, context.Cause(ctx)
					}
					for address := range strings.FieldsSeq(c.addresses) {
						found = append(found, netip.MustParseAddr(address))
					}
					return found, nil
				})
				begin := time.Now()
				_, _, _, err := d.Filter(pod(), nodes("n1"))
				took := time.Since(begin)
				kind, _ := failureOf(t, err)
				synctest.Wait()
				if diff := cmp.Diff(c.kind, kind); diff != "" {
					t.Errorf("kind (-want,+got), %v:\n%s", err, diff)
				}
				if diff := cmp.Diff(c.took, took); diff != "" {
					t.Errorf("time (-want,+got):\n%s", diff)
				}
				if diff := cmp.Diff(strings.Fields(c.dialled), d.dialled, cmp.Transformer("text", func(all []string) string { return strings.Join(all, " ") })); diff != "" {
					t.Errorf("dialled (-want,+got):\n%s", diff)
				}
			})
		})
	}
}

func TestCloseClosesIdleConnections(t *testing.T) {
	closed := make(chan struct{})
	s := &extenderServer{}
	s.Server = httptest.NewUnstartedServer(answer(`{"NodeNames": ["a"]}`))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(closed)
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	c := client(t, s.config(), localOptions())
	for range 2 { // one connection serves both
		if _, _, _, err := c.Filter(pod(), nodes("a")); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-closed:
		t.Fatal("the connection is not kept for the next request")
	default:
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Error("the connection is open after Close")
	}
}
