package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"github.com/berthdev/berth/scheduler"
	"github.com/berthdev/berth/scheduler/debug"
)

// debugPath is the path of the debug views on the metrics server. They are served when
// that server is secure: the API server then authorizes each request.
const debugPath = "/debug/berth/"

// debugHandler serves views of what the scheduler's components hold.
type debugHandler struct {
	components debug.Debugger
	client     clientset.Interface
	log        logr.Logger
	// comparing is held during a comparison, so that only one at a time reads all
	// objects of the API server.
	comparing sync.Mutex
}

// view is the content of one debug view; as JSON it is what encoding/json makes of it.
type view interface{ WriteText(w io.Writer) error }

func newDebugHandler(s *scheduler.Scheduler, client clientset.Interface, log logr.Logger) *debugHandler {
	components := s.Components()
	return &debugHandler{
		client: client, log: log.WithName("debugging"),
		components: debug.Debugger{
			Queue: components.Queue, Cache: components.Cache, WaitingPods: components.Waiting, Profiles: s.Profiles(), BetweenCycles: s.WhileIdle, Now: time.Now,
		},
	}
}

// views returns the views, by the last element of their path.
func (d *debugHandler) views() map[string]func(context.Context) (view, error) {
	return map[string]func(context.Context) (view, error){
		"queue":             func(context.Context) (view, error) { return d.components.DumpQueue(), nil },
		"cache":             func(ctx context.Context) (view, error) { return d.components.DumpCache(ctx), nil },
		"order":             func(ctx context.Context) (view, error) { return d.components.DumpNodeOrder(ctx), nil },
		"generations":       func(context.Context) (view, error) { return d.components.DumpGenerations(), nil },
		"equivalence-cache": func(ctx context.Context) (view, error) { return d.components.DumpEquivalenceCaches(ctx) },
		"compare":           func(ctx context.Context) (view, error) { return d.components.Compare(ctx, d.readCluster, sleep) },
	}
}

// ServeHTTP serves one view, as text or as JSON.
func (d *debugHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	views := d.views()
	name := strings.TrimPrefix(r.URL.Path, debugPath)
	makeView, known := views[name]
	format := r.URL.Query().Get("format")
	switch {
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, fmt.Sprintf("method: must be GET, is %s", r.Method), http.StatusMethodNotAllowed)
		return
	case !known:
		code := http.StatusNotFound
		if name == "" {
			code = http.StatusOK
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(code)
		fmt.Fprintf(w, "%s{%s}?format={text,json}\n", debugPath, strings.Join(slices.Sorted(maps.Keys(views)), ","))
		return
	case format != "" && format != "text" && format != "json":
		http.Error(w, fmt.Sprintf("format: must be text or json, is %q", format), http.StatusBadRequest)
		return
	}
	if name == "compare" {
		if !d.comparing.TryLock() {
			http.Error(w, "another comparison is running: it reads all nodes and pods", http.StatusTooManyRequests)
			return
		}
		defer d.comparing.Unlock()
	}
	v, err := makeView(r.Context())
	if err != nil {
		d.log.Error(err, "A debug view could not be made", "view", name)
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	d.write(w, v, format)
}

func (d *debugHandler) write(w http.ResponseWriter, v view, format string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	write := v.WriteText
	if format == "json" {
		w.Header().Set("Content-Type", "application/json")
		write = func(w io.Writer) error {
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			return e.Encode(v)
		}
	}
	if err := write(w); err != nil {
		d.log.V(1).Info("The response could not be written", "error", err.Error())
	}
}

// comparePageSize is how many objects one list request of a comparison returns.
const comparePageSize = 500

// readCluster lists all nodes, and all pods that have not terminated, by quorum reads.
func (d *debugHandler) readCluster(ctx context.Context) (*debug.APIServerState, error) {
	truth := debug.NewAPIServerState()
	nodes := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return d.client.CoreV1().Nodes().List(ctx, o)
	}
	pods := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return d.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, o)
	}
	for kind, list := range map[string]pager.ListPageFunc{"nodes": nodes, "pods": pods} {
		// The first page is read at the newest resourceVersion, the others at that of
		// the first.
		p := pager.New(list)
		p.PageSize = comparePageSize
		err := p.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
			switch o := object.(type) {
			case *v1.Node:
				truth.AddNode(o)
			case *v1.Pod:
				truth.AddPod(o)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", kind, err)
		}
	}
	return truth, nil
}

// sleep waits for d; it returns an error when ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
