package faultproxy

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// world is a proxy before an API server that takes every Binding and counts.
type world struct {
	*Proxy
	t      *testing.T
	client kubernetes.Interface

	mu    sync.Mutex
	taken []string
}

func newWorld(t *testing.T) *world {
	w := &world{t: t}
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.taken = append(w.taken, r.Method+" "+r.URL.Path+" as "+r.Header.Get("Authorization"))
		out.Header().Set("Content-Type", "application/json")
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
	if w.Proxy, err = Start(config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	if w.client, err = kubernetes.NewForConfig(w.Config(config)); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) bind() error {
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	return w.client.CoreV1().Pods("shop").Bind(ctx, &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{})
}

func (w *world) took() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.taken
}

const bound = "POST /api/v1/namespaces/shop/pods/web/binding as Bearer secret"

func TestWhatIsDoneToABinding(t *testing.T) {
	open := make(chan struct{})
	close(open)
	for sentence, c := range map[string]struct {
		fault *Fault
		takes int
		says  func(error) bool
	}{
		"it passes":                   {nil, 1, nil},
		"it is held up, and passes":   {&Fault{Hold: open, Commits: true}, 1, nil},
		"its answer is held up":       {&Fault{HoldAnswer: open, Commits: true}, 1, nil},
		"it is refused":               {&Fault{Answer: Status(409, metav1.StatusReasonConflict, 0)}, 0, apierrors.IsConflict},
		"it counts, and is denied":    {&Fault{Commits: true, Answer: Status(500, metav1.StatusReasonInternalError, 0)}, 1, apierrors.IsInternalError},
		"it is lost":                  {&Fault{}, 0, isCut},
		"it counts, and the wire cut": {&Fault{Commits: true, Answer: Cut}, 1, isCut},
		"it arrives late":             {&Fault{Late: open}, 1, isCut},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t)
			w.Do(func(b Binding) *Fault {
				if diff := cmp.Diff(Binding{Namespace: "shop", Pod: "web", Try: 1}, b); diff != "" {
					t.Errorf("decided about (-want +got):\n%s", diff)
				}
				return c.fault
			})
			err := w.bind()
			if c.says == nil && err != nil || c.says != nil && !c.says(err) {
				t.Errorf("the client was told %v", err)
			}
			if len(w.Bindings()) != 1 { // Under the proxy's lock: so it has begun what is late.
				t.Fatalf("%d Bindings came by", len(w.Bindings()))
			}
			w.late.Wait()
			var want []string
			for range c.takes {
				want = append(want, bound)
			}
			if diff := cmp.Diff(want, w.took()); diff != "" {
				t.Errorf("the API server got (-want +got):\n%s", diff)
			}
			if code := w.Bindings()[0].Code; (code == http.StatusCreated) != (c.takes == 1) {
				t.Errorf("its answer is noted as %d", code)
			}
		})
	}
}

// isCut says that there was no answer at all.
func isCut(err error) bool {
	var status apierrors.APIStatus
	return err != nil && !errors.As(err, &status) && !errors.Is(err, context.DeadlineExceeded)
}

func TestAllElsePasses(t *testing.T) {
	w := newWorld(t)
	w.Do(func(Binding) *Fault { return &Fault{} })
	pod, err := w.client.CoreV1().Pods("shop").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || pod.Name != "web" {
		t.Errorf("got %v, %v", pod, err)
	}
	if diff := cmp.Diff([]string{"GET /api/v1/namespaces/shop/pods/web as Bearer secret"}, w.took()); diff != "" {
		t.Errorf("the API server got (-want +got):\n%s", diff)
	}
	if n := len(w.Bindings()); n != 0 {
		t.Errorf("%d Bindings were seen", n)
	}
}

func TestStopEndsWhatIsHeldUp(t *testing.T) {
	w := newWorld(t)
	held := make(chan struct{})
	w.Do(func(Binding) *Fault { close(held); return &Fault{Hold: make(chan struct{}), Commits: true} })
	told := make(chan error)
	go func() { told <- w.bind() }()
	<-held
	w.Stop()
	if err := <-told; err == nil {
		t.Error("the Binding that was held up counted")
	}
}

func TestNothingPassesWhatIsSevered(t *testing.T) {
	w := newWorld(t)
	w.Sever()
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan error)
	ask := func(ctx context.Context) {
		_, err := w.client.CoreV1().Pods("shop").Get(ctx, "web", metav1.GetOptions{})
		told <- err
	}
	go ask(ctx)
	cancel()
	if err := <-told; !errors.Is(err, context.Canceled) {
		t.Errorf("whoever gives up was told %v", err)
	}
	if n := len(w.took()); n != 0 {
		t.Errorf("the API server got %d requests", n)
	}
	go ask(t.Context())
	w.Mend()
	if err := <-told; err != nil {
		t.Errorf("whoever waited was told %v", err)
	}
}

func TestWhatAWatchTellsComesLate(t *testing.T) {
	begun := make(chan struct{})
	api := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		close(begun)
		_, _ = out.Write([]byte("news"))
	}))
	t.Cleanup(api.Close)
	config := &rest.Config{Host: api.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	p, err := Start(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	p.Lag(time.Hour)
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
	told := make(chan error)
	go func() {
		answer, err := client.Do(request)
		if err == nil {
			_, err = answer.Body.Read(make([]byte, 1))
			_ = answer.Body.Close()
		}
		told <- err
	}()
	<-begun
	cancel() // an hour is over for nobody
	if err := <-told; !errors.Is(err, context.Canceled) {
		t.Errorf("the news came at once, with %v", err)
	}
}
