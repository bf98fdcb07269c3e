package cycle_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/replay/run"
	"github.com/berthdev/berth/test/support/badinput"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/hostile"
)

// pair is a scheduler with the cache and one without, for the same cluster.
type pair struct {
	t                 *testing.T
	cached, reference *scheduler
}

func newPair(t *testing.T) *pair {
	config := run.Config{Profile: run.DefaultProfile(), Explain: true, Preempt: true}
	p := &pair{t: t, cached: newScheduler(t, config)}
	config.Reference = true
	p.reference = newScheduler(t, config)
	return p
}

// do applies an operation to both. An attempt must end in the same way, without a panic, and
// a refusal must say who refuses the pod.
func (p *pair) do(kind log.Kind, object log.Object) *run.Outcome {
	p.t.Helper()
	op := log.Op{Kind: kind, Object: object}
	outcome, got := p.cached.do(p.t, op)
	reference, want := p.reference.do(p.t, op)
	for _, o := range []*run.Outcome{outcome, reference} {
		if o == nil || o.Err == nil {
			continue
		}
		if panicked := (*framework.PanicError)(nil); errors.As(o.Err, &panicked) {
			p.t.Fatalf("%v\n%s\nof %s", panicked, panicked.Stack, asJSON(object))
		}
		checkRefusal(p.t, o.Err, object)
	}
	if diff := cmp.Diff(withoutParsing(want), withoutParsing(got)); diff != "" {
		p.t.Fatalf("%s (-reference, +cache):\n%s\nof %s", kind, diff, asJSON(object))
	}
	return outcome
}

// parsingPattern matches why a selector does not parse. Of several invalid labels, the library
// names any: it goes through a map.
var parsingPattern = regexp.MustCompile(`(parsing pod|topology spread constraints): .*`)

func withoutParsing(line string) string { return parsingPattern.ReplaceAllString(line, "$1") }

// checkRefusal checks that an error names a plugin, or the field that this build does not
// support.
func checkRefusal(t *testing.T, err error, object log.Object) {
	t.Helper()
	unfit := (*framework.FitError)(nil)
	switch {
	case errors.As(err, &unfit):
		d := unfit.Diagnosis
		if len(d.UnschedulablePlugins)+len(d.PendingPlugins)+len(d.NarrowedBy) == 0 {
			t.Fatalf("no plugin refuses the pod: %v\nof %s", err, asJSON(object))
		}
		for name := range d.UnschedulablePlugins.Union(d.PendingPlugins) {
			if name == "" {
				t.Fatalf("a plugin without a name refuses the pod: %v\nof %s", err, asJSON(object))
			}
		}
	case strings.HasPrefix(err.Error(), "unsupported: "):
	case !strings.Contains(err.Error(), "plugin"):
		t.Fatalf("the error names no plugin: %v\nof %s", err, asJSON(object))
	}
}

// checkSums checks that both schedulers count the same on each node, and nothing negative.
func (p *pair) checkSums() {
	p.t.Helper()
	if diff := cmp.Diff(p.requested(p.reference), p.requested(p.cached)); diff != "" {
		p.t.Fatalf("requested by node and resource (-reference, +cache):\n%s", diff)
	}
}

// requested returns what the pods on each node request, as node/resource, without zeros.
func (p *pair) requested(s *scheduler) map[string]int64 {
	p.t.Helper()
	if err := s.UpdateSnapshot(); err != nil {
		p.t.Fatal(err)
	}
	all := map[string]int64{}
	for _, node := range s.Nodes() {
		name, r := node.Node().Name, node.GetRequested()
		all[name+"/cpu"], all[name+"/memory"], all[name+"/ephemeral-storage"] = r.GetMilliCPU(), r.GetMemory(), r.GetEphemeralStorage()
		for resource, amount := range r.GetScalarResources() {
			all[name+"/"+string(resource)] = amount
		}
	}
	for key, amount := range all {
		if amount < 0 {
			p.t.Fatalf("%s: the pods on the node request %d, want no negative amount", key, amount)
		}
		if amount == 0 {
			delete(all, key)
		}
	}
	return all
}

func asJSON(object any) string {
	text, err := json.Marshal(object)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// plainPod returns a pod that every node with free resources is feasible for.
func plainPod(name string) *v1.Pod { return fixture.Pod(name).Requests("cpu", "100m").Obj() }

// FuzzHostileObjects schedules pods on nodes that the API server would refuse. The scheduler
// with the cache decides as the reference does. A plain pod is not affected by them: it may
// fit nowhere, but no plugin fails for it.
func FuzzHostileObjects(f *testing.F) {
	for number := range uint64(12) {
		f.Add(hostile.Seed(number, 300))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) > 4096 {
			return
		}
		b, p := hostile.New(input), newPair(t)
		for i := range 4 {
			name := fmt.Sprint("n", i)
			node := fixture.Node(name).Zone(fmt.Sprint(i%2)).Capacity("cpu", "4", "memory", "16Gi", "pods", "20").Obj()
			if b.One(2) {
				node = b.Node(name)
			}
			p.do(log.Apply, node)
		}
		placed := hostile.List(b, 3, func() *v1.Pod { return b.Pod(fmt.Sprint("old", b.Below(200))) })
		for _, pod := range placed {
			pod.Spec.NodeName = "n3"
			p.do(log.Apply, pod)
		}
		for i := range 3 {
			p.do(log.Schedule, b.Pod(fmt.Sprint("new", i)))
			if b.One(3) {
				p.do(log.Apply, b.Node("n2"))
			}
		}
		p.checkSums()
		var unfit *framework.FitError
		if good := p.do(log.Schedule, plainPod("good")); good.Err != nil && !errors.As(good.Err, &unfit) {
			t.Fatalf("a plugin fails for a plain pod: %v", good.Err)
		}
		for _, pod := range placed {
			p.do(log.Delete, pod)
		}
		p.checkSums()
		p.do(log.Schedule, plainPod("better"))
	})
}

// FuzzStoredObjects is like FuzzHostileObjects for a pod and a node as JSON, as they may be
// stored: every quantity, number and list that the types can hold.
func FuzzStoredObjects(f *testing.F) {
	for _, p := range badinput.Pods() {
		pod := fixture.Pod("bad").Requests("cpu", "100m").Obj()
		p.Bad(pod)
		if text := asJSON(pod); len(text) < 8<<10 {
			f.Add([]byte(text), []byte(`{"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"110"}}}`))
		}
	}
	for _, node := range []string{
		`{"status":{"allocatable":{"cpu":"-4","memory":"9e40","pods":"1000000000000000000"}}}`,
		`{"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]},"status":{"allocatable":{"cpu":"0.1","example.com/gpu":"9223372036854775807"}}}`,
		`{"metadata":{"labels":{"kubernetes.io/hostname":""}},"status":{"images":[{"names":["a"],"sizeBytes":-1}]}}`,
	} {
		f.Add([]byte(asJSON(plainPod("bad"))), []byte(node))
	}
	f.Fuzz(func(t *testing.T, podText, nodeText []byte) {
		pod, node := &v1.Pod{}, &v1.Node{}
		if len(podText)+len(nodeText) > 32<<10 || json.Unmarshal(podText, pod) != nil || json.Unmarshal(nodeText, node) != nil {
			return
		}
		pod.ObjectMeta.Namespace, pod.Name, pod.UID, pod.Spec.NodeName = "default", "bad", "bad", ""
		node.Name = "n0"
		p := newPair(t)
		p.do(log.Apply, node)
		p.do(log.Apply, fixture.Node("n1").Capacity("cpu", "4", "memory", "16Gi", "pods", "20").Obj())
		if outcome := p.do(log.Schedule, pod); outcome.Node == "" {
			pod.Spec.NodeName = "n1"
			p.do(log.Delete, pod)
			p.do(log.Apply, pod)
		}
		p.checkSums()
		var unfit *framework.FitError
		if good := p.do(log.Schedule, plainPod("good")); good.Err != nil && !errors.As(good.Err, &unfit) {
			t.Fatalf("a plugin fails for a plain pod: %v", good.Err)
		}
	})
}
