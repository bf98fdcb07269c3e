package extender

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

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
		t.Fatal("the connection is not kept for the next question")
	default:
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Error("the connection is open although nobody will ask any more")
	}
}
