package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
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
	// namespace has all pods, and profile schedules them.
	namespace, profile = "restarts", "restarts"
	// workers is the number of workers that create pods.
	workers = 32
	// restartInterval is the time between two restarts.
	restartInterval = 2 * time.Second
)

// testRun is one run.
type testRun struct {
	options options
	out     io.Writer
	began   time.Time

	managers managerSet
	client   kubernetes.Interface
	bound    *load.Bound
	// total is the number of pods.
	total int
}

func (r *testRun) log(format string, args ...any) {
	fmt.Fprintf(r.out, "restarts: %5.1f s  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// run starts its own control plane, and stops it at the end.
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

// restart runs on a control plane where Berth is installed and does not run.
func restart(ctx context.Context, cp *controlplane.ControlPlane, path string, o options, out io.Writer) (err error) {
	r := &testRun{options: o, out: out, began: time.Now(), managers: managerSet{cp: cp, path: path}}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	defer r.bound.Stop()
	defer func() {
		for len(r.managers.running) > 0 {
			err = errors.Join(err, r.managers.stop(ctx, 0))
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

// prepare creates the nodes, two managers, and a profile that runs.
func (r *testRun) prepare(ctx context.Context) (err error) {
	cp := r.managers.cp
	if r.client, err = load.Client(cp.Config()); err != nil {
		return err
	}
	if err := cp.Nodes(ctx, r.options.nodes, controlplane.NodeOptions{Pods: podsPerNode}); err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := r.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	for range 2 {
		if err := r.managers.start(ctx); err != nil {
			return err
		}
	}
	if err := operator.ApplyProfile(ctx, cp, profile, v1alpha1.SchedulingProfileSpec{}); err != nil {
		return err
	}
	if _, err := operator.UntilProgrammed(ctx, cp, profile); err != nil {
		return err
	}
	r.log("%d nodes; two managers are ready, and profile %s runs", r.options.nodes, profile)
	r.bound, err = load.WatchBound(ctx, r.client, profile)
	return err
}

// windows are the times in which pods were created: without restarts, and from each restart
// to the end of the interval after it.
type windows struct {
	steady   [][2]time.Time
	restarts [][2]time.Time
}

// stream creates pods while the leader is replaced again and again.
func (r *testRun) stream(ctx context.Context) (w windows, err error) {
	pouring, stop := context.WithCancelCause(ctx)
	poured := make(chan error, 1)
	go func() { poured <- r.createStream(pouring) }()
	defer func() {
		stop(errStreamEnded)
		if pourErr := <-poured; !errors.Is(pourErr, errStreamEnded) {
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
	window, err := rest(r.options.steady)
	if err != nil {
		return w, err
	}
	w.steady = append(w.steady, window)
	for i := range r.options.restarts {
		asked, err := r.managers.replace(ctx)
		if err != nil {
			return w, fmt.Errorf("restart %d: %w", i+1, err)
		}
		after, err := rest(restartInterval)
		if err != nil {
			return w, err
		}
		w.restarts = append(w.restarts, [2]time.Time{asked, after[1]})
	}
	window, err = rest(r.options.steady)
	w.steady = append(w.steady, window)
	return w, err
}

// errStreamEnded ends the stream.
var errStreamEnded = errors.New("the stream ended")

// createStream creates pods at the rate until ctx ends.
func (r *testRun) createStream(ctx context.Context) error {
	for {
		first := r.total
		n := int(r.options.rate) + 1
		if err := r.checkCapacity(first + n); err != nil {
			return err
		}
		r.total += n // all of them are created before ctx is checked
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

// checkCapacity returns an error if the nodes do not take so many pods.
func (r *testRun) checkCapacity(pods int) error {
	if most := r.options.nodes * podsPerNode; pods > most {
		return fmt.Errorf("%d nodes take %d pods, which is too few: use more --nodes", r.options.nodes, most)
	}
	return nil
}

func (r *testRun) create(ctx context.Context, name string) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       corev1.PodSpec{SchedulerName: profile, Containers: []corev1.Container{{Name: "app", Image: "none"}}},
	}
	_, err := r.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// report prints the longest times without a bind.
func (r *testRun) report(w windows) {
	var at []time.Time
	for _, bind := range r.bound.Binds() {
		at = append(at, bind.Seen)
	}
	slices.SortFunc(at, time.Time.Compare)
	gaps := func(windows [][2]time.Time) (all []float64) {
		for _, window := range windows {
			all = append(all, longestGap(at, window).Seconds())
		}
		return all
	}
	r.log("longest gap between binds, at %.0f pods a second: %s with each of %d restarts; %s without",
		r.options.rate, load.MedianAndRange(gaps(w.restarts), " s"), len(w.restarts), load.MedianAndRange(gaps(w.steady), " s"))
}

// terminationTimeout is the grace period of config/manager.
const terminationTimeout = 45 * time.Second

// managerSet has the managers that run: a leader and a follower.
type managerSet struct {
	cp      *controlplane.ControlPlane
	path    string
	running []*operator.Manager
}

// start starts another manager and waits until it is ready.
func (ms *managerSet) start(ctx context.Context) error {
	m, err := operator.Start(ctx, ms.cp, ms.path)
	if err != nil {
		return err
	}
	ms.running = append(ms.running, m)
	return m.Until(ctx, m.Ready)
}

// replace replaces the leader as a rolling update does: it sends SIGTERM when another
// manager is ready. It returns the time of the signal.
func (ms *managerSet) replace(ctx context.Context) (asked time.Time, err error) {
	if err := ms.start(ctx); err != nil {
		return asked, err
	}
	leader, err := ms.leader()
	if err != nil {
		return asked, err
	}
	asked = time.Now()
	return asked, ms.stop(ctx, leader)
}

// stop sends SIGTERM to a manager, which must end in time with exit code 0.
func (ms *managerSet) stop(ctx context.Context, i int) error {
	m := ms.running[i]
	ms.running = append(ms.running[:i:i], ms.running[i+1:]...)
	ctx, cancel := context.WithTimeoutCause(ctx, terminationTimeout, fmt.Errorf("the grace period of %s is over", terminationTimeout))
	defer cancel()
	code, err := ms.cp.Terminate(ctx, m.Process)
	if err == nil && code != 0 {
		err = fmt.Errorf("a manager exited with %d after SIGTERM; see %s", code, m.Log())
	}
	return err
}

// leader returns the index of the manager whose log says that it schedules. It leads until
// it ends.
func (ms *managerSet) leader() (int, error) {
	for i, m := range ms.running {
		text, err := os.ReadFile(m.Log())
		if err != nil {
			return 0, err
		}
		if strings.Contains(string(text), `"msg":"Scheduling"`) {
			return i, nil
		}
	}
	return 0, errors.New("no manager leads")
}
