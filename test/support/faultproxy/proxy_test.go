package faultproxy

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// testEnv is a proxy to an API server that accepts every Binding and records requests.
type testEnv struct {
	*Proxy
	t      *testing.T
	client kubernetes.Interface

	mu       sync.Mutex
	received []string
	// bodies are those of patches.
	bodies []string
}

func newTestEnv(t *testing.T) *testEnv {
	env := &testEnv{t: t}
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		env.mu.Lock()
		defer env.mu.Unlock()
		env.received = append(env.received, r.Method+" "+r.URL.Path+" as "+r.Header.Get("Authorization"))
		out.Header().Set("Content-Type", "application/json")
		if body, err := io.ReadAll(r.Body); err == nil && r.Method == http.MethodPatch {
			env.bodies = append(env.bodies, string(body))
		}
		if r.Method == http.MethodPost {
			out.WriteHeader(http.StatusCreated)
			_, _ = out.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Success"}`))
			return
		}
		_, _ = out.Write([]byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web"}}`))
	}))
	api.EnableHTTP2 = true
	api.StartTLS()
	t.Cleanup(api.Close)
	config := &rest.Config{Host: api.URL, BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw}),
	}}
	var err error
	if env.Proxy, err = Start(config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(env.Stop)
	if env.client, err = kubernetes.NewForConfig(env.Config(config)); err != nil {
		t.Fatal(err)
	}
	return env
}

func (env *testEnv) bind() error {
	ctx, cancel := context.WithTimeout(env.t.Context(), 20*time.Second)
	defer cancel()
	return env.client.CoreV1().Pods("shop").Bind(ctx, &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{})
}

func (env *testEnv) requests() []string {
	env.mu.Lock()
	defer env.mu.Unlock()
	return env.received
}

const bound = "POST /api/v1/namespaces/shop/pods/web/binding as Bearer secret"

func TestFaultsOfBindings(t *testing.T) {
	open := make(chan struct{})
	close(open)
	for sentence, c := range map[string]struct {
		fault   *Fault
		commits int
		want    func(error) bool
	}{
		"it passes":                                    {nil, 1, nil},
		"it is delayed, and passes":                    {&Fault{Hold: open, Commits: true}, 1, nil},
		"its response is delayed":                      {&Fault{HoldAnswer: open, Commits: true}, 1, nil},
		"it is refused":                                {&Fault{Answer: Status(409, metav1.StatusReasonConflict, 0)}, 0, apierrors.IsConflict},
		"it is committed and answered with an error":   {&Fault{Commits: true, Answer: Status(500, metav1.StatusReasonInternalError, 0)}, 1, apierrors.IsInternalError},
		"it is lost":                                   {&Fault{}, 0, isCut},
		"it is committed and the connection is closed": {&Fault{Commits: true, Answer: Cut}, 1, isCut},
		"it arrives late":                              {&Fault{Late: open}, 1, isCut},
	} {
		t.Run(sentence, func(t *testing.T) {
			env := newTestEnv(t)
			env.SetFaults(func(b Binding) *Fault {
				if diff := cmp.Diff(Binding{Namespace: "shop", Pod: "web", Try: 1}, b); diff != "" {
					t.Errorf("decided about (-want +got):\n%s", diff)
				}
				return c.fault
			})
			err := env.bind()
			if c.want == nil && err != nil || c.want != nil && !c.want(err) {
				t.Errorf("the client got %v", err)
			}
			if len(env.Bindings()) != 1 { // Under the proxy's lock: late Bindings have started.
				t.Fatalf("%d Bindings arrived", len(env.Bindings()))
			}
			env.late.Wait()
			var want []string
			for range c.commits {
				want = append(want, bound)
			}
			if diff := cmp.Diff(want, env.requests()); diff != "" {
				t.Errorf("the API server got (-want +got):\n%s", diff)
			}
			if code := env.Bindings()[0].Code; (code == http.StatusCreated) != (c.commits == 1) {
				t.Errorf("its code is recorded as %d", code)
			}
		})
	}
}

// isCut want that there was no response at all.
func isCut(err error) bool {
	var status apierrors.APIStatus
	return err != nil && !errors.As(err, &status) && !errors.Is(err, context.DeadlineExceeded)
}

func TestAFaultCanActAfterTheResponse(t *testing.T) {
	env := newTestEnv(t)
	answered := make(chan struct{})
	env.SetFaults(func(Binding) *Fault { return &Fault{Commits: true, Answered: func() { close(answered) }} })
	if err := env.bind(); err != nil {
		t.Errorf("the client got %v", err)
	}
	<-answered
}

func TestWritesHaveTheirBody(t *testing.T) {
	env := newTestEnv(t)
	var got []string
	env.SetWriteFaults(func(w Write) *Fault {
		got = append(got, w.Method+" "+w.Path+" "+string(w.Body))
		return nil
	})
	patch := `{"metadata":{"labels":{"touched":"yes"}}}`
	if _, err := env.client.CoreV1().Pods("shop").Patch(t.Context(), "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"PATCH /api/v1/namespaces/shop/pods/web " + patch}, got); diff != "" {
		t.Errorf("decided about (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{patch}, env.bodies); diff != "" {
		t.Errorf("the API server got (-want +got):\n%s", diff)
	}
}

func TestOtherRequestsPass(t *testing.T) {
	env := newTestEnv(t)
	env.SetFaults(func(Binding) *Fault { return &Fault{} })
	pod, err := env.client.CoreV1().Pods("shop").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || pod.Name != "web" {
		t.Errorf("got %v, %v", pod, err)
	}
	if diff := cmp.Diff([]string{"GET /api/v1/namespaces/shop/pods/web as Bearer secret"}, env.requests()); diff != "" {
		t.Errorf("the API server got (-want +got):\n%s", diff)
	}
	if n := len(env.Bindings()); n != 0 {
		t.Errorf("%d Bindings were seen", n)
	}
}

func TestStopEndsDelayedBindings(t *testing.T) {
	env := newTestEnv(t)
	delayed := make(chan struct{})
	env.SetFaults(func(Binding) *Fault { close(delayed); return &Fault{Hold: make(chan struct{}), Commits: true} })
	result := make(chan error)
	go func() { result <- env.bind() }()
	<-delayed
	env.Stop()
	if err := <-result; err == nil {
		t.Error("the delayed Binding was committed")
	}
}

func TestSeverStopsAllTraffic(t *testing.T) {
	env := newTestEnv(t)
	env.Partition()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	get := func(ctx context.Context) {
		_, err := env.client.CoreV1().Pods("shop").Get(ctx, "web", metav1.GetOptions{})
		result <- err
	}
	go get(ctx)
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("a client that gave up got %v", err)
	}
	if n := len(env.requests()); n != 0 {
		t.Errorf("the API server got %d requests", n)
	}
	go get(t.Context())
	env.Heal()
	if err := <-result; err != nil {
		t.Errorf("a client that waited got %v", err)
	}
}

func TestLagDelaysWatches(t *testing.T) {
	begun := make(chan struct{})
	api := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		close(begun)
		_, _ = out.Write([]byte("event"))
	}))
	t.Cleanup(api.Close)
	config := &rest.Config{Host: api.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	p, err := Start(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	p.DelayWatches(time.Hour)
	client, err := rest.HTTPClientFor(p.Config(config))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Config(config).Host+"/api/v1/pods?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	go func() {
		answer, err := client.Do(request)
		if err == nil {
			_, err = answer.Body.Read(make([]byte, 1))
			_ = answer.Body.Close()
		}
		result <- err
	}()
	<-begun
	cancel() // the hour of the delay is not over
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("the event came without delay: %v", err)
	}
}
