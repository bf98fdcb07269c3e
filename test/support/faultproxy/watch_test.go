package faultproxy

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// watchEnv is a proxy to an API server with events of pods and nodes, from version 1 on. A watch
// gets all events that are newer than its resource version, and a list the newest version.
type watchEnv struct {
	*Proxy
	t      *testing.T
	config *rest.Config // of the proxy
	client kubernetes.Interface

	mu      sync.Mutex
	events  int
	changed chan struct{}
}

func newWatchEnv(t *testing.T) *watchEnv {
	env := &watchEnv{t: t, changed: make(chan struct{})}
	api := httptest.NewUnstartedServer(env)
	api.EnableHTTP2 = true
	api.StartTLS()
	t.Cleanup(api.Close)
	config := &rest.Config{Host: api.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw}),
	}}
	var err error
	if env.Proxy, err = Start(config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(env.Stop)
	env.config = env.Config(config)
	if env.client, err = kubernetes.NewForConfig(env.config); err != nil {
		t.Fatal(err)
	}
	return env
}

// ServeHTTP is the API server.
func (env *watchEnv) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	out.Header().Set("Content-Type", "application/json")
	env.mu.Lock()
	n, changed := env.events, env.changed
	env.mu.Unlock()
	if r.URL.Query().Get("watch") == "" {
		_, _ = fmt.Fprintf(out, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d"}}`, n)
		return
	}
	sent := 0
	_, _ = fmt.Sscan(r.URL.Query().Get("resourceVersion"), &sent)
	for {
		for ; sent < n; sent++ {
			_, _ = fmt.Fprintf(out, `{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","resourceVersion":"%d"}}}`+"\n", sent+1)
		}
		_ = http.NewResponseController(out).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
		env.mu.Lock()
		n, changed = env.events, env.changed
		env.mu.Unlock()
	}
}

// change makes the next event.
func (env *watchEnv) change() {
	env.mu.Lock()
	defer env.mu.Unlock()
	env.events++
	close(env.changed)
	env.changed = make(chan struct{})
}

// watch begins a watch of pods.
func (env *watchEnv) watch(version string) watch.Interface {
	env.t.Helper()
	w, err := env.client.CoreV1().Pods("").Watch(env.t.Context(), metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		env.t.Fatal(err)
	}
	env.t.Cleanup(w.Stop)
	return w
}

// expect expects the versions of the next events; an empty one stands for the end or
// an error.
func (env *watchEnv) expect(w watch.Interface, want ...string) {
	env.t.Helper()
	var got []string
	for range want {
		select {
		case event, open := <-w.ResultChan():
			if !open || event.Type == watch.Error {
				got = append(got, "")
				continue
			}
			got = append(got, event.Object.(metav1.Object).GetResourceVersion())
		case <-time.After(10 * time.Second):
			env.t.Fatalf("got %q, want %q", got, want)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		env.t.Errorf("events (-want +got):\n%s", diff)
	}
}

// expectNone expects that there is no event yet.
func (env *watchEnv) expectNone(w watch.Interface) {
	env.t.Helper()
	select {
	case event := <-w.ResultChan():
		env.t.Errorf("got %v", event)
	case <-time.After(50 * time.Millisecond):
	}
}

func TestFaultsOfWatches(t *testing.T) {
	for sentence, play := range map[string]func(*watchEnv){
		"events pass": func(env *watchEnv) {
			w := env.watch("0")
			env.change()
			env.change()
			env.expect(w, "1", "2")
		},
		"held events arrive in order": func(env *watchEnv) {
			w := env.watch("0")
			release := env.HoldWatches("pods")
			env.change()
			env.change()
			env.expectNone(w)
			release()
			env.expect(w, "1", "2")
		},
		"events of another resource are not held": func(env *watchEnv) {
			w := env.watch("0")
			defer env.HoldWatches("nodes")()
			env.change()
			env.expect(w, "1")
		},
		"a dropped event ends the watch, and one that resumes gets it": func(env *watchEnv) {
			var seen []Event
			env.SetEventFaults(func(e Event) EventFault {
				if seen = append(seen, e); len(seen) == 2 {
					return DropAndCut
				}
				return Pass
			})
			w := env.watch("0")
			env.change()
			env.expect(w, "1")
			env.change()
			env.expect(w, "")
			env.expect(env.watch("1"), "2")
			if want := slices.Repeat([]Event{{"pods", watch.Modified}}, 3); !slices.Equal(seen, want) {
				env.t.Errorf("decided about %v, want %v", seen, want)
			}
		},
		"an expired watch ends without what is held, and is refused once": func(env *watchEnv) {
			w := env.watch("0")
			defer env.HoldWatches("pods")()
			env.change()
			env.ExpireWatches("pods")
			env.expect(w, "")
			_, err := env.client.CoreV1().Pods("").Watch(env.t.Context(), metav1.ListOptions{ResourceVersion: "0"})
			if !apierrors.IsResourceExpired(err) {
				env.t.Errorf("got %v for the resumed watch", err)
			}
			env.watch("0")
		},
	} {
		t.Run(sentence, func(t *testing.T) { play(newWatchEnv(t)) })
	}
}

func TestStopEndsWhileClientsConnectAgain(t *testing.T) {
	env := newWatchEnv(t)
	ctx, end := context.WithCancel(t.Context())
	connected := make(chan struct{}, 1)
	var clients sync.WaitGroup
	for range 16 {
		config := rest.CopyConfig(env.config)
		config.NextProtos = []string{"http/1.1"} // a connection for each watch
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		clients.Go(func() {
			for ctx.Err() == nil {
				w, err := client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{})
				if utilnet.IsConnectionRefused(err) {
					return // the proxy has ended
				}
				if err != nil {
					continue
				}
				select {
				case connected <- struct{}{}:
				default:
				}
				for range w.ResultChan() {
				}
			}
		})
	}
	<-connected
	stopped := make(chan struct{})
	go func() {
		env.Stop()
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-time.After(30 * time.Second):
		t.Error("Stop waits for a client that has connected again")
	}
	end()
	clients.Wait()
}

func TestStaleLists(t *testing.T) {
	env := newWatchEnv(t)
	version := func(from string) string {
		t.Helper()
		list, err := env.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{ResourceVersion: from})
		if err != nil {
			t.Fatal(err)
		}
		return list.ResourceVersion
	}
	env.change()
	current, err := env.StaleLists(context.Background(), "/api/v1/pods", "token")
	if err != nil {
		t.Fatal(err)
	}
	env.change()
	if got := version("0"); got != "1" {
		t.Errorf("a list at version 0 has version %s, want 1", got)
	}
	if got := version(""); got != "2" {
		t.Errorf("a list of what is current has version %s, want 2", got)
	}
	_, err = env.client.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{SendInitialEvents: new(true)})
	if !apierrors.IsInvalid(err) {
		t.Errorf("got %v for a watch that begins with a list", err)
	}
	current()
	if got := version("0"); got != "2" {
		t.Errorf("a list at version 0 has version %s afterwards, want 2", got)
	}
}

func TestEventsAreSplit(t *testing.T) {
	event := metav1.WatchEvent{Type: "ADDED"}
	body, err := event.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	framed := append([]byte{0, 0, 0, byte(len(body))}, body...)
	for sentence, c := range map[string]struct {
		contentType string
		data        []byte
		frame       int
		event       watch.EventType
	}{
		"protobuf":                    {"application/vnd.kubernetes.protobuf;stream=watch", slices.Concat(framed, framed), len(framed), watch.Added},
		"protobuf without its end":    {"application/vnd.kubernetes.protobuf;stream=watch", framed[:len(framed)-1], 0, ""},
		"protobuf without its length": {"application/vnd.kubernetes.protobuf;stream=watch", framed[:3], 0, ""},
		"JSON":                        {"application/json", []byte("{\"type\":\"DELETED\"}\n{"), 19, watch.Deleted},
		"JSON without its end":        {"application/json", []byte("{\"type\":\"DELETED\"}"), 0, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			frame, event := splitterOf(c.contentType)(c.data)
			if len(frame) != c.frame || event != c.event {
				t.Errorf("got %d bytes of type %q, want %d of type %q", len(frame), event, c.frame, c.event)
			}
		})
	}
}
