package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
	"github.com/berthdev/berth/test/support/kubectltest"
)

// The handlers of client-go's errors wait until a millisecond after the last error of the
// process. That is in the future in synctest, whose clock starts anew in each test.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil
	os.Exit(m.Run())
}

// testAddress is the address of the servers in tests without a listener.
const testAddress = "127.0.0.1:8090"

// testEnv is a server for a fake cluster.
type testEnv struct {
	t       *testing.T
	fake    *kubectltest.TestEnv
	client  *testClient
	server  *server
	handler http.Handler
}

// newTestEnv returns a server for a fake cluster with these objects. It watches nothing yet.
func newTestEnv(t *testing.T, objects ...client.Object) *testEnv {
	e := &testEnv{t: t, fake: kubectltest.New(t, objects...)}
	e.client = &testClient{WithWatch: e.fake.Client, watches: map[string]watch.Interface{}}
	e.fake.Cluster.Client = e.client
	e.fake.Context, e.fake.Server = "kind-dev", "https://127.0.0.1:6443"
	e.server = newServer(e.verbEnv(io.Discard), e.fake.Cluster, testAddress)
	e.handler = e.server.handler()
	return e
}

// verbEnv returns what a verb works with.
func (e *testEnv) verbEnv(out io.Writer) verb.Env {
	return verb.Env{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: io.Discard},
		Open:      func(context.Context) (*cluster.Cluster, error) { return e.fake.Cluster, nil },
		Now:       func() time.Time { return kubectltest.Now },
	}
}

// request returns a request of the page.
func (e *testEnv) request(method, target, body string) *http.Request {
	r := httptest.NewRequestWithContext(e.t.Context(), method, "http://"+testAddress+target, strings.NewReader(body))
	r.Header.Set(tokenHeader, e.server.guard.token)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/yaml")
		r.Header.Set("Origin", "http://"+testAddress)
	}
	return r
}

// respond returns the response to a request.
func (e *testEnv) respond(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	e.handler.ServeHTTP(w, r)
	return w
}

// get returns the status and the JSON of a response.
func (e *testEnv) get(target string) (int, map[string]any) {
	e.t.Helper()
	w := e.respond(e.request(http.MethodGet, target, ""))
	return w.Code, fromJSON(e.t, w.Body.Bytes())
}

func fromJSON(t *testing.T, text []byte) map[string]any {
	t.Helper()
	value := map[string]any{}
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}

// asJSON returns the JSON of a value as maps and lists.
func asJSON(t *testing.T, value any) map[string]any {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return fromJSON(t, text)
}

// watchCluster starts the watches, which end when the function that it returns is called. It
// is for synctest: when it returns, all watches wait for events.
func (e *testEnv) watchCluster() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	watches := e.server.live.start(ctx)
	synctest.Wait()
	return func() {
		cancel()
		watches.Wait()
	}
}

// openStream opens a stream, which ends when the function that it returns is called. It is
// for synctest.
func (e *testEnv) openStream(p *page) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.handler.ServeHTTP(p, e.request(http.MethodGet, "/api/stream", "").WithContext(ctx))
	}()
	synctest.Wait()
	return func() {
		cancel()
		p.resume()
		<-done
	}
}

// create creates, update updates and remove deletes an object; they return when the server has
// observed that. They are for synctest.
func (e *testEnv) create(object client.Object) {
	e.t.Helper()
	if err := e.client.Create(e.t.Context(), object); err != nil {
		e.t.Fatal(err)
	}
	synctest.Wait()
}

func (e *testEnv) update(object client.Object) {
	e.t.Helper()
	if err := e.client.Update(e.t.Context(), object); err != nil {
		e.t.Fatal(err)
	}
	synctest.Wait()
}

func (e *testEnv) remove(object client.Object) {
	e.t.Helper()
	if err := e.client.Delete(e.t.Context(), object); err != nil {
		e.t.Fatal(err)
	}
	synctest.Wait()
}

// testClient is a client that rejects requests, and whose watches can be broken.
type testClient struct {
	client.WithWatch
	mu sync.Mutex
	// rejects returns the error of a request to list or watch a kind; nil accepts all.
	rejects func(verb, kind, namespace string) error
	// watches are the newest watches by kind.
	watches map[string]watch.Interface
	// mapper, if not nil, is the mapper of the client.
	mapper meta.RESTMapper
}

// RESTMapper returns the mapper.
func (c *testClient) RESTMapper() meta.RESTMapper {
	if c.mapper != nil {
		return c.mapper
	}
	return c.WithWatch.RESTMapper()
}

// IsWatchListSemanticsUnSupported makes the reflector list before it watches: the fake client
// does not send what exists to a new watch.
func (c *testClient) IsWatchListSemanticsUnSupported() bool { return true }

// reject makes requests fail from now on; nil accepts all.
func (c *testClient) reject(rejects func(verb, kind, namespace string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rejects = rejects
}

// check returns the kind of a list, and whether a request for it is rejected.
func (c *testClient) check(verb string, list client.ObjectList, opts []client.ListOption) (string, error) {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	kind := strings.TrimSuffix(fmt.Sprintf("%T", list)[strings.LastIndex(fmt.Sprintf("%T", list), ".")+1:], "List")
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rejects == nil {
		return kind, nil
	}
	return kind, c.rejects(verb, kind, options.Namespace)
}

func (c *testClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, err := c.check("list", list, opts); err != nil {
		return err
	}
	return c.WithWatch.List(ctx, list, opts...)
}

func (c *testClient) Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	kind, err := c.check("watch", list, opts)
	if err != nil {
		return nil, err
	}
	w, err := c.WithWatch.Watch(ctx, list, opts...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watches[kind] = w
	return w, err
}

// fail sends an error to the newest watch of a kind, and ends it.
func (c *testClient) fail(kind string, status runtime.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.watches[kind].(*watch.RaceFreeFakeWatcher)
	w.Error(status)
}

// forbidden is the error of the API server for a user without a permission.
func forbidden(verb, kind, namespace string) error {
	message := fmt.Sprintf("User %q cannot %s resource", "jane", verb)
	if namespace != "" {
		message += " in the namespace " + namespace
	}
	return apierrors.NewForbidden(schema.GroupResource{Resource: strings.ToLower(kind) + "s"}, "", errors.New(message))
}

// page is a client of a stream that has the lines it was sent.
type page struct {
	mu     sync.Mutex
	header http.Header
	status int
	text   bytes.Buffer
	// gate, if not nil, makes writes wait until it is closed.
	gate chan struct{}
}

func newPage() *page { return &page{header: http.Header{}} }

// pause makes the page read no more until resume.
func (p *page) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate = make(chan struct{})
}

func (p *page) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gate != nil {
		close(p.gate)
		p.gate = nil
	}
}

func (p *page) Header() http.Header { return p.header }

func (p *page) WriteHeader(status int) { p.status = status }

func (p *page) Write(text []byte) (int, error) {
	p.mu.Lock()
	gate := p.gate
	p.mu.Unlock()
	if gate != nil {
		<-gate
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(text)
}

func (p *page) Flush() {}

// take returns the messages that the page was sent since the last call.
func (p *page) take(t *testing.T) (messages []map[string]any) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range bytes.Lines(p.text.Bytes()) {
		messages = append(messages, fromJSON(t, line))
	}
	p.text.Reset()
	return messages
}
