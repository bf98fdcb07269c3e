package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/load"
)

func TestSmallRun(t *testing.T) {
	o, err := parse([]string{"--nodes=10", "--pods=40", "--swaps=2", "--limit=5m"})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(t.Context(), o, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"swap 2 of 2", "all 40 pods are there and bound", "no node is over", "counts 40 bound"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, out.String())
		}
	}
}

func TestStream(t *testing.T) {
	o, err := parse([]string{"--nodes=10", "--pods=40", "--swaps=20", "--stream=3s", "--rounds=1", "--limit=5m"})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(t.Context(), o, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"with 20 changes p99", "changed 20 times, 2 of them to a spec that was rejected", "pods are there and bound, each once"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, out.String())
		}
	}
}

func TestChurn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "soak.json")
	o, err := parse([]string{"--churn=3m", "--total=1500", "--nodes=10", "--pods=400", "--swap-every=200", "--json=" + file})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := runChurn(t.Context(), o, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r churnResult
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if r.Created != 1500 || r.Refused != 15 || r.Bound != 1485 || r.Deleted < 1000 || r.Swaps < 5 || len(r.Findings) > 0 || r.Error != "" {
		t.Errorf("%+v\n%s", r, out.String())
	}
}

// What the watch delivers is checked while the run goes on, and at its end.
func TestChurnFindsViolations(t *testing.T) {
	type version struct {
		*fixture.PodBuilder
		deleted bool
	}
	pod := func(name string) version { return version{fixture.Pod("soak/" + name), false} }
	bound := func(name string, generation int) version {
		decision := fmt.Sprintf(`{"profile":"soak","generation":%d,"hash":"a","node":"n1"}`, generation)
		return version{pod(name).On("n1").Annotation("berth.dev/decision", decision), false}
	}
	large := func(name string) version { return version{bound(name, 1).Requests("cpu", "3"), false} }
	gone := func(v version) version { return version{v.PodBuilder, true} }
	for sentence, c := range map[string]struct {
		versions []version
		want     string
	}{
		"a bound pod is correct":                      {[]version{pod("a"), bound("a", 1)}, ""},
		"a pod that was deleted unbound is no loss":   {[]version{pod("a"), gone(pod("a"))}, ""},
		"a pod that fits and is pending":              {[]version{pod("a")}, "1 pods that fit are pending"},
		"a pod that fits nowhere and has no reason":   {[]version{{pod("a").Label(unfitLabel, "true"), false}}, "1 that fit nowhere have no reason"},
		"two large pods on a node":                    {[]version{large("a"), large("b")}, "pod b was bound to n1, which then had 2 of 110 pods and 6000m of 4000m CPU"},
		"two large pods on a node, one after another": {[]version{large("a"), gone(large("a")), large("b")}, ""},
		"a pod that moves":                            {[]version{bound("a", 1), {bound("a", 1).On("n2"), false}}, `pod a was on n1 and is on "n2"`},
		"a generation that did not run":               {[]version{bound("a", 7)}, "names what did not run"},
		"one that did not run, of a deleted pod":      {[]version{bound("a", 7), gone(bound("a", 7))}, "names what did not run"},
		"a generation that is known later":            {[]version{bound("a", 8), gone(bound("a", 8))}, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			run := newChurn(&testRun{options: options{pods: 1}, out: &strings.Builder{}, began: time.Now(), generations: map[int64]string{1: "a"}})
			for _, v := range c.versions {
				run.observe(v.Obj(), v.deleted)
			}
			run.generations[8] = "a"
			_, err := run.checkAll()
			if len(run.pending)+len(run.unfit) > 0 {
				err = errors.Join(err, run.unsettled(errors.New("the end")))
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// The oldest bound pods are deleted, each once, and so are the oldest that fit nowhere.
func TestChurnDeletesTheOldestPods(t *testing.T) {
	run := newChurn(&testRun{options: options{pods: 4}, out: &strings.Builder{}, began: time.Now()})
	for _, name := range []string{"a", "b", "c", "d"} {
		run.observe(fixture.Pod("soak/"+name).On("n1").Obj(), false)
	}
	for i := range fewestRefused + 1 {
		run.refused = append(run.refused, fmt.Sprintf("unfit-%d", i))
	}
	if diff := cmp.Diff([]string{"a", "b", "unfit-0"}, run.choose()); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
	if again := run.choose(); len(again) > 0 {
		t.Errorf("%v are deleted again", again)
	}
	run.observe(fixture.Pod("soak/a").On("n1").Obj(), true)
	run.observe(fixture.Pod("soak/e").On("n1").Obj(), false)
	if diff := cmp.Diff([]string{"c"}, run.choose()); diff != "" {
		t.Errorf("after a deletion and a bind (-want,+got):\n%s", diff)
	}
}

// A run may end between the choice of a pod and its deletion.
func TestChurnDeletesAllRefusedPodsAtTheEnd(t *testing.T) {
	run := newChurn(&testRun{options: options{pods: 100}, out: &strings.Builder{}, began: time.Now()})
	var want []string
	for i := range fewestRefused + 1 {
		name := fmt.Sprintf("unfit-%02d", i)
		want = append(want, name)
		pod := fixture.Pod("soak/"+name).UID(name).Label(unfitLabel, "true").Obj()
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
		run.observe(pod, false)
	}
	if chosen := run.choose(); len(chosen) != 1 {
		t.Fatalf("%v are chosen, want one", chosen)
	}
	refused, err := run.checkAll()
	slices.Sort(refused)
	if diff := cmp.Diff(want, refused); diff != "" || err != nil {
		t.Errorf("%v (-want,+got):\n%s", err, diff)
	}
}

// Each kind of pods has its share.
func TestChurnPods(t *testing.T) {
	kinds := map[string]int{}
	for i := range 1000 {
		pod := (options{churn: time.Minute}).churnPod(i)
		switch {
		case pod.Labels[unfitLabel] != "":
			kinds["unfit"]++
		case pod.Spec.NodeSelector != nil:
			kinds["in one zone"]++
		case pod.Spec.TopologySpreadConstraints != nil:
			kinds["spread"]++
		case pod.Spec.Affinity != nil:
			kinds["apart"]++
		}
	}
	if diff := cmp.Diff(map[string]int{"unfit": 10, "in one zone": 100, "spread": 100, "apart": 100}, kinds); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
}

func TestCheckPods(t *testing.T) {
	const decision = `{"profile":"soak","generation":1,"hash":"a","node":"n1"}`
	pod := func() *fixture.PodBuilder {
		return fixture.Pod("soak/a").On("n1").Annotation("berth.dev/decision", decision)
	}
	for sentence, c := range map[string]struct {
		pods []corev1.Pod
		want string
	}{
		"a missing pod":                 {nil, "there are 0 pods, not 1"},
		"a pod that is not bound":       {[]corev1.Pod{*pod().On("").Obj()}, "pod a is not bound"},
		"a bind that was not observed":  {[]corev1.Pod{*pod().UID("other").Obj()}, "pod a is on n1, but was not seen being bound"},
		"no decision":                   {[]corev1.Pod{*pod().Annotation("berth.dev/decision", "").Obj()}, "pod a: annotation berth.dev/decision"},
		"a decision for another node":   {[]corev1.Pod{*pod().Annotation("berth.dev/decision", strings.Replace(decision, "n1", "n2", 1)).Obj()}, "its decision does not say so"},
		"a generation that did not run": {[]corev1.Pod{*pod().Annotation("berth.dev/decision", strings.Replace(decision, "1", "7", 1)).Obj()}, "or names what did not run"},
		"a correct pod":                 {[]corev1.Pod{*pod().Obj()}, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := &testRun{total: 1, out: &strings.Builder{}, began: time.Now(), generations: map[int64]string{1: "a"}}
			err := s.checkPods(c.pods, seenBinds())
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestCheckNodes(t *testing.T) {
	node := *fixture.Node("n1").Capacity("cpu", "1", "memory", "1Gi", "pods", "2").Obj()
	pod := func(name, cpu string) corev1.Pod { return *fixture.Pod(name).Requests("cpu", cpu).On("n1").Obj() }
	for sentence, c := range map[string]struct {
		pods []corev1.Pod
		want string
	}{
		"a full node is correct":       {[]corev1.Pod{pod("a", "500m"), pod("b", "500m")}, ""},
		"too much CPU":                 {[]corev1.Pod{pod("a", "600m"), pod("b", "500m")}, "node n1 offers 1 of cpu, its pods request 1100m"},
		"too many pods":                {[]corev1.Pod{pod("a", "1m"), pod("b", "1m"), pod("c", "1m")}, "node n1 offers 2 of pods, its pods request 3"},
		"a node that no longer exists": {[]corev1.Pod{*fixture.Pod("a").On("n2").Obj()}, `pods are on node "n2", which does not exist`},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := &testRun{out: &strings.Builder{}, began: time.Now()}
			err := s.checkNodes([]corev1.Node{node}, c.pods)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestParseRejectsInvalidFlags(t *testing.T) {
	for sentence, c := range map[string]struct{ flag, want string }{
		"no nodes":                       {"--nodes=0", "--nodes: must be at least 1, is 0"},
		"more pods than the nodes take":  {"--pods=600000", "--pods: 5000 nodes take at most 550000 pods, not 600000"},
		"a negative churn":               {"--churn=-1s", "--churn: must not be less than 0, is -1s"},
		"a negative stream":              {"--stream=-1s", "--stream: must not be less than 0, is -1s"},
		"no time":                        {"--limit=0s", "--limit: must be more than 0, is 0s"},
		"a Lease of half a second":       {"--lease=500ms", "--lease: must be whole seconds, at least 3s, is 500ms"},
		"a negative number of handovers": {"--handovers=-1", "--handovers: must be at least 0, is -1"},
		"a positional argument":          {"now", `unexpected argument "now": only flags are taken`},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := parse([]string{c.flag})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// seenBinds returns the observed bind of pod a to node n1.
func seenBinds() map[string]load.Bind {
	return map[string]load.Bind{"soak/a": {UID: "soak/a", Node: "n1"}}
}
