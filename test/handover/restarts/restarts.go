package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/load"
	"github.com/berthdev/berth/test/support/operator"
)

const (
	// namespace is where all pods are, and profile who schedules them.
	namespace, profile = "restarts", "restarts"
	// workers is how many create pods.
	workers = 32
	// settles is how long pods come between two restarts.
	settles = 2 * time.Second
)

// restarts is one run.
type restarts struct {
	options options
	out     io.Writer
	began   time.Time

	pair   pair
	client kubernetes.Interface
	bound  *load.Bound
	// total is how many pods there are.
	total int
}

func (r *restarts) say(format string, args ...any) {
	fmt.Fprintf(r.out, "restarts: %5.1f s  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// run starts a control plane for itself, and ends what it started.
func run(ctx context.Context, o options, out io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("--limit %s is over", o.limit))
	defer cancel()
	cp, err := operator.Cluster(ctx)
	if err != nil {
		return err
	}
	defer cp.Stop()
	path, err := operator.Build(ctx)
	if err != nil {
		return err
	}
	return restart(ctx, cp, path, o, out)
}

// restart does it all on a control plane on which Berth is installed and does not
// run.
func restart(ctx context.Context, cp *controlplane.ControlPlane, path string, o options, out io.Writer) (err error) {
	r := &restarts{options: o, out: out, began: time.Now(), pair: pair{cp: cp, path: path}}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	defer r.bound.Stop()
	defer func() {
		for len(r.pair.runs) > 0 {
			err = errors.Join(err, r.pair.end(ctx, 0))
		}
	}()
	w, err := r.stream(ctx)
	if err != nil {
		return err
	}
	if err := r.bound.Until(ctx, r.total, cp.Running); err != nil {
		return err
	}
	if err := r.check(ctx); err != nil {
		return err
	}
	r.report(w)
	return nil
}

// prepare makes the cluster: nodes, two managers, and a profile that runs.
func (r *restarts) prepare(ctx context.Context) (err error) {
	cp := r.pair.cp
	if r.client, err = load.Client(cp.Config()); err != nil {
		return err
	}
	if err := cp.Nodes(ctx, r.options.nodes, controlplane.NodeOptions{Pods: podsANode}); err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := r.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	for range 2 {
		if err := r.pair.join(ctx); err != nil {
			return err
		}
	}
	if err := operator.ApplyProfile(ctx, cp, profile, v1alpha1.SchedulingProfileSpec{}); err != nil {
		return err
	}
	if _, err := operator.UntilProgrammed(ctx, cp, profile); err != nil {
		return err
	}
	r.say("%d nodes; two managers are ready, and profile %s runs", r.options.nodes, profile)
	r.bound, err = load.WatchBound(ctx, r.client, profile)
	return err
}

// windows are when pods came: while all was still, then from each restart to what
// came after it.
type windows struct {
	still    [][2]time.Time
	restarts [][2]time.Time
}

// stream lets pods come while the leader is replaced again and again.
func (r *restarts) stream(ctx context.Context) (w windows, err error) {
	pouring, stop := context.WithCancelCause(ctx)
	poured := make(chan error, 1)
	go func() { poured <- r.pour(pouring) }()
	defer func() {
		stop(errEnough)
		if pourErr := <-poured; !errors.Is(pourErr, errEnough) {
			err = errors.Join(err, pourErr)
		}
	}()
	rest := func(d time.Duration) (window [2]time.Time, err error) {
		window[0] = time.Now()
		select {
		case <-time.After(d):
		case err = <-poured:
			poured <- err
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		window[1] = time.Now()
		return window, err
	}
	still, err := rest(r.options.still)
	if err != nil {
		return w, err
	}
	w.still = append(w.still, still)
	for i := range r.options.restarts {
		asked, err := r.pair.replace(ctx)
		if err != nil {
			return w, fmt.Errorf("restart %d: %w", i+1, err)
		}
		after, err := rest(settles)
		if err != nil {
			return w, err
		}
		w.restarts = append(w.restarts, [2]time.Time{asked, after[1]})
	}
	still, err = rest(r.options.still)
	w.still = append(w.still, still)
	return w, err
}

// errEnough ends the stream.
var errEnough = errors.New("enough pods")

// pour creates pods at the rate until ctx ends.
func (r *restarts) pour(ctx context.Context) error {
	for {
		first := r.total
		n := int(r.options.rate) + 1
		if err := r.room(first + n); err != nil {
			return err
		}
		r.total += n // each is created in full, and then it is looked whether to end
		_, err := load.AtRate(context.WithoutCancel(ctx), n, workers, r.options.rate, func(ctx context.Context, i int) error {
			return r.create(ctx, fmt.Sprintf("pod-%d", first+i))
		})
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// room says whether the nodes take so many pods.
func (r *restarts) room(pods int) error {
	if most := r.options.nodes * podsANode; pods > most {
		return fmt.Errorf("%d nodes take %d pods, and more would come: ask for more --nodes", r.options.nodes, most)
	}
	return nil
}

func (r *restarts) create(ctx context.Context, name string) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       corev1.PodSpec{SchedulerName: profile, Containers: []corev1.Container{{Name: "app", Image: "none"}}},
	}
	_, err := r.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// report says for how long no pod was bound.
func (r *restarts) report(w windows) {
	var at []time.Time
	for _, bind := range r.bound.Binds() {
		at = append(at, bind.Seen)
	}
	slices.SortFunc(at, time.Time.Compare)
	gaps := func(windows [][2]time.Time) (all []float64) {
		for _, window := range windows {
			all = append(all, gap(at, window).Seconds())
		}
		return all
	}
	r.say("longest gap between binds, at %.0f pods a second: %s with each of %d restarts; %s without",
		r.options.rate, spread(gaps(w.restarts)), len(w.restarts), spread(gaps(w.still)))
}
