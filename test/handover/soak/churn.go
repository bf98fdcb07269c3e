package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/growth"
	"github.com/berthdev/berth/test/support/load"
	"github.com/berthdev/berth/test/support/operator"
)

const (
	// churnPods and churnNodes are the defaults of --pods and --nodes with --churn.
	churnPods, churnNodes = 2000, 200
	// sampleInterval is how often the manager is sampled.
	sampleInterval = 10 * time.Second
	// longestPending is how long a pod that fits may be pending: there are always free nodes.
	longestPending = time.Minute
	// settleLimit bounds the checks after the last pod.
	settleLimit = 2 * time.Minute
	// fewestRefused is how many pods that fit nowhere stay: the oldest of more are deleted.
	fewestRefused = 20
)

// withChurnDefaults returns the options with the defaults of --churn.
func (o options) withChurnDefaults(f *pflag.FlagSet) options {
	if !f.Changed("nodes") {
		o.nodes = churnNodes
	}
	if !f.Changed("pods") {
		o.pods = churnPods
	}
	if !f.Changed("limit") {
		o.limit = o.churn + 15*time.Minute
	}
	return o
}

// churnResult is what a run with --churn did, in its JSON file.
type churnResult struct {
	Seconds float64 `json:"seconds"`
	// Created and Deleted are the numbers of pods, Bound that of binds, and Refused that of pods
	// that fit nowhere and were found unschedulable.
	Created int `json:"created"`
	Bound   int `json:"bound"`
	Deleted int `json:"deleted"`
	Refused int `json:"refused"`
	// Swaps are changes of the profile that ran, Rejected those that were invalid.
	Swaps    int             `json:"swaps"`
	Rejected int             `json:"rejected"`
	Samples  []growth.Sample `json:"samples"`
	// Findings are the quantities that grow. Error has violations, and what else ended the run.
	Findings []string `json:"findings,omitempty"`
	Error    string   `json:"error,omitempty"`
}

// churn creates and deletes pods while the profile changes.
type churn struct {
	*testRun
	// free has an element for each pod that may still be created.
	free chan struct{}

	mu sync.Mutex
	observed
	result churnResult
	// asked are the pods that are being deleted.
	asked map[string]bool
}

// runChurn starts a control plane, creates and deletes pods for --churn or until ctx ends, and
// checks what is left.
func runChurn(ctx context.Context, o options, out io.Writer) (err error) {
	limited, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("--limit %s is over", o.limit))
	defer cancel()
	s := &testRun{options: o, out: out, began: time.Now(), generations: map[int64]string{}}
	path, err := operator.Build(limited)
	if err != nil {
		return err
	}
	// Events are kept for ten minutes, and old versions for one, so that the data of etcd stays small.
	s.cp, err = controlplane.Start(limited, controlplane.Options{KWOK: o.kwok, APIServerArgs: []string{
		"--event-ttl=10m", "--etcd-compaction-interval=1m",
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
	}})
	if err != nil {
		return err
	}
	defer s.cp.Stop()
	if err := s.prepare(limited, path); err != nil {
		return err
	}
	c := newChurn(s)
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	done, err := c.watch(watching)
	if err != nil {
		stop()
		return err
	}
	err = c.run(limited)
	err = errors.Join(err, c.finish(context.WithoutCancel(ctx), err))
	stop()
	<-done
	return err
}

func newChurn(s *testRun) *churn {
	c := &churn{testRun: s, observed: newObserved(), free: make(chan struct{}, s.options.pods), asked: map[string]bool{}}
	for range s.options.pods {
		c.free <- struct{}{}
	}
	return c
}

// run creates and deletes pods until --churn is over, --total pods were created, ctx ends, or
// something fails; only the last is an error.
func (c *churn) run(ctx context.Context) error {
	work, stop := context.WithTimeout(ctx, c.options.churn)
	defer stop()
	c.began = time.Now()
	var once sync.Once
	var failed error
	end := func(err error) { // what fails after the end failed because of it
		if err != nil && work.Err() == nil {
			once.Do(func() { failed = err })
			stop()
		}
	}
	var beside sync.WaitGroup
	for _, do := range []func(context.Context) error{c.deletePods, c.changeProfile, c.sample} {
		beside.Go(func() { end(do(work)) })
	}
	total := c.options.total
	if total == 0 {
		total = math.MaxInt
	}
	end(load.Each(work, total, c.options.workers, c.createPod))
	stop()
	beside.Wait()
	return failed
}

// createPod creates the i-th pod as soon as it may exist. A request that was sent is not
// interrupted, or it would be unknown whether the pod exists.
func (c *churn) createPod(ctx context.Context, i int) error {
	select {
	case <-c.free:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	_, err := c.client.CoreV1().Pods(namespace).Create(context.WithoutCancel(ctx), c.options.churnPod(i), metav1.CreateOptions{})
	return err
}

// deletePods deletes the oldest bound pods while more than half of all pods are bound, and the
// oldest of those that fit nowhere.
func (c *churn) deletePods(ctx context.Context) error {
	for {
		var chosen []string
		if err := c.until(ctx, func() bool {
			chosen = c.choose()
			return len(chosen) > 0
		}); err != nil {
			return err
		}
		if err := load.Each(ctx, len(chosen), c.options.workers, func(ctx context.Context, i int) error {
			return c.deletePod(ctx, chosen[i])
		}); err != nil {
			return err
		}
	}
}

// choose returns the pods to delete, and notes that they will be.
func (c *churn) choose() (names []string) {
	// The oldest pods are those whose deletion the watch has not delivered yet.
	for _, name := range c.boundPods[:max(0, len(c.boundPods)-c.options.pods/2)] {
		if !c.asked[name] {
			names = append(names, name)
		}
	}
	if n := len(c.refused) - fewestRefused; n > 0 {
		names = append(names, c.refused[:n]...)
		c.refused = slices.Clone(c.refused[n:])
	}
	for _, name := range names {
		c.asked[name] = true
	}
	return names
}

// deletePod deletes a pod at once: no kubelet confirms it.
func (c *churn) deletePod(ctx context.Context, name string) error {
	err := c.client.CoreV1().Pods(namespace).Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	c.free <- struct{}{}
	return nil
}

// changeProfile changes the profile whenever --swap-every further pods are bound, each tenth time to
// an invalid spec, and toggles a label of a node.
func (c *churn) changeProfile(ctx context.Context) error {
	if c.options.swapEvery == 0 {
		return nil
	}
	for next := c.options.swapEvery; ; next += c.options.swapEvery {
		if err := c.until(ctx, func() bool { return c.binds >= next }); err != nil {
			return err
		}
		c.edits++
		change, counter := c.applyProfile, &c.result.Swaps
		if c.edits%invalidEvery == 0 {
			change, counter = c.applyInvalid, &c.result.Rejected
		}
		if err := finishChange(ctx, change, c.edits); err != nil {
			return err
		}
		c.mu.Lock()
		*counter++
		c.mu.Unlock()
		patch := fmt.Sprintf(`{"metadata":{"labels":{"soak":"%d"}}}`, c.edits)
		node := fmt.Sprintf("node-%d", c.edits%c.options.nodes)
		if _, err := c.client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			return err
		}
	}
}

// finishChange makes a change also when the run ends meanwhile: pods may be bound by its generation,
// which then has to be known.
func finishChange(ctx context.Context, change func(context.Context, int) error, i int) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longestPending)
	defer cancel()
	return change(ctx, i)
}

// sample samples the manager, and ends the run at the first violation.
func (c *churn) sample(ctx context.Context) error {
	ticker := time.NewTicker(sampleInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		s, err := growth.Read(ctx, c.manager, c.cp.Config().BearerToken, c.began)
		if err == nil {
			err = c.noteSample(s)
		}
		if err := errors.Join(c.cp.Running(), err); err != nil {
			return err
		}
	}
}

// samplesPerLine is how many samples there are for each line of output.
const samplesPerLine = 6

// noteSample keeps a sample, and returns the violations so far.
func (c *churn) noteSample(s growth.Sample) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.Samples = append(c.result.Samples, s)
	if len(c.result.Samples)%samplesPerLine == 1 {
		c.log("%d pods, %d binds, %d changes of the profile; heap %.0f MiB, resident %.0f MiB, %.0f goroutines, %.0f descriptors, %.0f series, %.0f handlers",
			c.result.Created, c.binds, c.result.Swaps, s.Heap, s.Resident, s.Goroutines, s.Descriptors, s.Series, s.Handlers)
	}
	found := slices.Clone(c.violations)
	for name, since := range c.pending {
		if waited := time.Since(since); waited > longestPending {
			found.add("pod %s fits and is pending for %s", name, waited.Round(time.Second))
		}
	}
	return found.err()
}

// finish checks what is left, and writes the result, also that of a run that failed.
func (c *churn) finish(ctx context.Context, failed error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settleLimit, fmt.Errorf("the pods did not settle in %s", settleLimit))
	defer cancel()
	took := time.Since(c.began)
	var err error
	if failed == nil {
		err = c.checkEnd(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.result
	r.Seconds, r.Bound = took.Seconds(), c.binds
	lines := growth.Lines(r.Samples)
	for _, q := range growth.Quantities {
		if line, ok := lines[q.Name]; ok {
			c.log("%s: %.1f %s; an hour: %s", q.Name, line.Mean, q.Unit, line)
		}
	}
	if more := growth.NewSeries(r.Samples); more != "" {
		c.log("metric series since the warm-up: %s", more)
	}
	r.Findings = growth.Findings(lines)
	if failed := errors.Join(failed, err); failed != nil {
		r.Error = failed.Error()
	}
	c.log("%d pods created, %d bound, %d refused, %d deleted, %d changes of the profile, %d rejected, in %.0f s: %.0f binds a second",
		r.Created, r.Bound, r.Refused, r.Deleted, r.Swaps, r.Rejected, r.Seconds, float64(r.Bound)/r.Seconds)
	if len(r.Findings) > 0 {
		err = errors.Join(err, fmt.Errorf("%d findings: %s", len(r.Findings), r.Findings[0]))
	}
	return errors.Join(err, c.writeResult())
}

func (c *churn) writeResult() error {
	if c.options.json == "" {
		return nil
	}
	text, err := json.Marshal(c.result)
	if err != nil {
		return err
	}
	return os.WriteFile(c.options.json, text, 0o644)
}

// checkEnd waits until no pod is pending but those that fit nowhere, and checks the rest.
func (c *churn) checkEnd(ctx context.Context) error {
	if err := c.until(ctx, func() bool { return len(c.pending)+len(c.unfit) == 0 }); err != nil {
		return errors.Join(c.unsettled(err), c.cp.Running())
	}
	refused, err := c.checkAll()
	if err != nil {
		return err
	}
	// The profile counts none as pending once these are gone.
	err = load.Each(ctx, len(refused), c.options.workers, func(ctx context.Context, i int) error { return c.deletePod(ctx, refused[i]) })
	return errors.Join(err, c.checkTotals(ctx))
}

// checkAll checks the bound pods that exist at the end, and those whose generation was not known when
// they were deleted. It returns the pods that fit nowhere.
func (c *churn) checkAll() (refused []string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := slices.Clone(c.violations)
	by, alive := map[int64]bool{}, 0
	for _, pod := range slices.AppendSeq(slices.Clone(c.doubtful), maps.Values(c.pods)) {
		if pod.Spec.NodeName == "" {
			refused = append(refused, pod.Name) // also one that deletePods had chosen when the run ended
			continue
		}
		generation, err := c.decidingGeneration(pod)
		if err != nil {
			found = append(found, err)
		}
		by[generation], alive = true, alive+1
	}
	c.total = c.binds
	if len(found) == 0 {
		c.log("%d pods were bound, each once, to nodes with enough for them; the last %d by %d generations that ran", c.binds, alive, len(by))
	}
	return refused, found.err()
}

// unsettled returns an error that names the pods which are pending at the end.
func (c *churn) unsettled(cause error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found errorList
	found.add("%d pods that fit are pending, %d that fit nowhere have no reason: %w", len(c.pending), len(c.unfit), cause)
	for name, since := range c.pending {
		found.add("pod %s fits and is pending for %s", name, time.Since(since).Round(time.Second))
	}
	return found.err()
}
