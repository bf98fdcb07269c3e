package record

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/util/cert"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/state"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/kubectltest"
)

// withVersion sets the resource version of an object.
func withVersion[T state.Object](version int, object T) T {
	object.SetResourceVersion(fmt.Sprint(version))
	return object
}

func node(version int, name string) *v1.Node { return withVersion(version, fixture.Node(name).Obj()) }

func pendingPod(version int, name string) *v1.Pod {
	return withVersion(version, fixture.Pod("default/"+name).SchedulerName("batch").Obj())
}

// boundPod is a pod with a decision in its annotation.
func boundPod(version int, name, on string, w decision.Walk, edits ...func(*decision.Decision)) *v1.Pod {
	d := decision.Decision{Profile: "batch", Hash: "now", Node: on, Epoch: 1, Walk: w}
	for _, edit := range edits {
		edit(&d)
	}
	pod := fixture.Pod("default/"+name).SchedulerName(d.Profile).On(on).Annotation(v1alpha1.AnnotationDecision, decision.Annotation(d)).Obj()
	return withVersion(version, pod)
}

// orderChecksum is the checksum of nodes in this order.
func orderChecksum(names ...string) uint32 {
	order := cache.NewNodeOrder()
	for _, name := range names {
		order.Set(fixture.Node(name).Obj())
	}
	return order.Checksum()
}

// testHistory is the history of two nodes and a pod on one of them.
func testHistory() *history {
	h := newHistory("batch", "now")
	h.addInitial(node(10, "b"))
	h.addInitial(node(11, "a"))
	h.addInitial(withVersion(12, fixture.Pod("default/old").On("a").Obj()))
	h.podsVersion = 20
	return h
}

// formatOps formats a recording, an op a line.
func formatOps(r *recording) string {
	var lines []string
	for _, op := range r.ops {
		line := fmt.Sprint(op.Kind, " ", op.Object.GetName())
		if pod, is := op.Object.(*v1.Pod); is && pod.Spec.NodeName != "" {
			line += " on " + pod.Spec.NodeName
		}
		if op.Start != nil {
			line += fmt.Sprint(" from ", *op.Start)
		}
		lines = append(lines, line)
	}
	return strings.Join(append(lines, r.gaps...), "\n")
}

func TestOrderOfTheLog(t *testing.T) {
	const begin = "apply b\napply a\napply old on a\n"
	two := orderChecksum("b", "a")
	walk := func(seq, start, nodes, pods int) decision.Walk {
		return decision.Walk{Seq: uint64(seq), Start: start, Order: two, Nodes: uint64(nodes), Pods: uint64(pods)}
	}
	elsewhere := func(d *decision.Decision) { d.Profile, d.Hash = "other", "then" }
	for name, c := range map[string]struct {
		changes []state.Object
		deleted map[int]bool
		want    string
	}{
		"decisions come as they were made, not as they were bound": {
			changes: []state.Object{pendingPod(21, "p"), pendingPod(22, "q"), boundPod(23, "q", "b", walk(2, 1, 11, 12)), boundPod(24, "p", "a", walk(1, 0, 11, 12))},
			want:    begin + "schedule p from 0\nschedule q from 1",
		},
		"failed attempts change the index at which the next one starts": {
			changes: []state.Object{pendingPod(21, "p"), pendingPod(22, "q"), boundPod(23, "p", "a", walk(4, 0, 11, 12)), boundPod(24, "q", "b", walk(9, 1, 11, 12))},
			want:    begin + "schedule p from 0\nschedule q from 1",
		},
		"a bind that was not observed follows the decision, one that was precedes it": {
			changes: []state.Object{pendingPod(21, "p"), pendingPod(22, "q"), pendingPod(23, "r"), boundPod(24, "p", "a", walk(1, 0, 11, 12)),
				boundPod(25, "q", "b", walk(2, 0, 11, 12)), boundPod(26, "r", "b", walk(3, 0, 11, 24))},
			want: begin + "schedule p from 0\nschedule q from 0\napply p on a\nschedule r from 0",
		},
		"a change of a node precedes the first decision that had observed it": {
			changes: []state.Object{pendingPod(21, "p"), node(22, "a"), pendingPod(23, "q"), pendingPod(24, "r"), boundPod(25, "p", "a", walk(1, 0, 11, 12)),
				boundPod(26, "q", "b", walk(2, 0, 11, 25)), boundPod(27, "r", "b", walk(3, 0, 22, 25))},
			want: begin + "schedule p from 0\napply p on a\nschedule q from 0\napply a\nschedule r from 0",
		},
		"a deleted pod frees its resources once that was observed": {
			changes: []state.Object{pendingPod(21, "p"), pendingPod(22, "q"), withVersion(23, fixture.Pod("default/old").On("a").Obj()),
				boundPod(24, "p", "a", walk(1, 0, 11, 12)), boundPod(25, "q", "a", walk(2, 0, 11, 23))},
			deleted: map[int]bool{2: true},
			want:    begin + "schedule p from 0\ndelete old on a\nschedule q from 0",
		},
		"the placement of another profile is recorded in order": {
			changes: []state.Object{pendingPod(21, "p"), withVersion(22, fixture.Pod("default/q").SchedulerName("other").Obj()), pendingPod(23, "r"),
				boundPod(24, "p", "a", walk(1, 0, 11, 12)), boundPod(25, "r", "a", walk(3, 1, 11, 12)), boundPod(26, "q", "b", walk(2, 1, 11, 12), elsewhere)},
			want: begin + "schedule p from 0\napply q on b\nschedule r from 1",
		},
		"a bind of another scheduler is recorded once it was observed": {
			changes: []state.Object{pendingPod(21, "p"), pendingPod(22, "x"), withVersion(23, fixture.Pod("default/x").SchedulerName("batch").On("b").Obj()), boundPod(24, "p", "a", walk(1, 0, 11, 23))},
			want:    begin + "apply x on b\nschedule p from 0",
		},
		"a decision that had not observed the initial state is recorded as a placement": {
			changes: []state.Object{pendingPod(21, "p"), pendingPod(22, "q"), boundPod(23, "p", "a", walk(1, 0, 10, 12)), boundPod(24, "q", "a", walk(2, 0, 11, 12))},
			want:    begin + "apply p on a\nschedule q from 0",
		},
		"another leader ends the log": {
			changes: []state.Object{pendingPod(21, "p"), pendingPod(22, "q"), boundPod(23, "p", "a", walk(7, 0, 11, 12)),
				boundPod(24, "q", "a", walk(1, 0, 11, 12), func(d *decision.Decision) { d.Epoch = 2 })},
			want: begin + "schedule p from 0\nleader epoch 2 follows epoch 1: the log ends there",
		},
		"a change of nodes that was not received ends the log": {
			changes: []state.Object{pendingPod(21, "p"), pendingPod(22, "q"), boundPod(23, "p", "a", walk(1, 0, 11, 12)), boundPod(24, "q", "a", walk(2, 0, 99, 12))},
			want:    begin + "schedule p from 0\n1 decision had observed changes of nodes that were not received here: the log ends before",
		},
		"a decision with an unknown order is recorded as a placement": {
			changes: []state.Object{pendingPod(21, "p"), pendingPod(22, "q"), boundPod(23, "p", "a", walk(1, 0, 11, 12)),
				boundPod(24, "q", "b", decision.Walk{Seq: 2, Order: two + 1, Nodes: 11, Pods: 12})},
			want: begin + "schedule p from 0\napply q on b\n1 decision not replayed: the order of nodes could not be inferred after a change of nodes",
		},
		"a decision whose start a user has changed is recorded as a placement": {
			changes: []state.Object{pendingPod(21, "p"), pendingPod(22, "q"), boundPod(23, "p", "a", walk(1, -1, 11, 12)), boundPod(24, "q", "a", walk(2, 0, 11, 23))},
			want:    begin + "apply p on a\nschedule q from 0",
		},
		"a nominated pod is recorded": {
			changes: []state.Object{pendingPod(21, "p"), withVersion(22, fixture.Pod("default/n").SchedulerName("batch").NominatedNodeName("b").Obj()), boundPod(23, "p", "a", walk(1, 0, 11, 22))},
			want:    begin + "apply n\nschedule p from 0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := testHistory()
			for i, o := range c.changes {
				h.addChange(o, c.deleted[i])
			}
			r, err := h.buildLog()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, formatOps(r)); diff != "" {
				t.Errorf("the log (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestTheOrderOfNodesIsInferred(t *testing.T) {
	aged := func(version, age int, name string) *v1.Node {
		return withVersion(version, fixture.Node(name).CreationOrder(age).Obj())
	}
	for name, c := range map[string]struct {
		nodes []*v1.Node
		live  []string
		known bool
	}{
		"they were created one after another and did not change": {[]*v1.Node{aged(3, 0, "a"), aged(1, 0, "b"), aged(2, 0, "c")}, []string{"b", "c", "a"}, true},
		"they existed when Berth started":                        {[]*v1.Node{aged(3, 3, "a"), aged(1, 2, "b"), aged(2, 1, "c")}, []string{"a", "b", "c"}, true},
		"some existed, some were created later":                  {[]*v1.Node{aged(9, 2, "a"), aged(8, 1, "b"), aged(1, 4, "c"), aged(2, 3, "d")}, []string{"a", "b", "d", "c"}, true},
		"Berth started between two creations of one second":      {[]*v1.Node{aged(1, 1, "c"), aged(2, 1, "b"), aged(3, 2, "a"), aged(4, 2, "0")}, []string{"a", "b", "c", "0"}, true},
		"the order cannot be inferred":                           {[]*v1.Node{aged(3, 1, "a"), aged(1, 2, "b"), aged(2, 3, "c")}, []string{"c", "a", "b"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory("batch", "now")
			for _, n := range c.nodes {
				h.addInitial(n)
			}
			h.nodesVersion = 9 // the version of the list
			h.addChange(pendingPod(20, "p"), false)
			h.addChange(boundPod(21, "p", "a", decision.Walk{Seq: 1, Order: orderChecksum(c.live...), Nodes: 9}), false)
			r, err := h.buildLog()
			if (err == nil) != c.known {
				t.Fatalf("error %v, want known: %v", err, c.known)
			}
			if !c.known {
				return
			}
			want := "apply " + strings.Join(c.live, "\napply ") + "\nschedule p from 0"
			if diff := cmp.Diff(want, formatOps(r)); diff != "" {
				t.Errorf("the log (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestTheGivenOrderOfNodesIsTriedFirst(t *testing.T) {
	file := filepath.Join(t.TempDir(), "order")
	for name, c := range map[string]struct {
		text  string
		live  []string
		known bool
	}{
		"as JSON":            {`{"time":"2026-03-01T12:00:00Z","nodes":["c","a","b"]}`, []string{"c", "a", "b"}, true},
		"as text":            {"3 nodes at 2026-03-01T12:00:00Z\nc\na\nb\n", []string{"c", "a", "b"}, true},
		"with deleted nodes": {`{"nodes":["gone","c","a","b"]}`, []string{"c", "a", "b"}, true},
		"without a new node": {`{"nodes":["c","a"]}`, []string{"c", "a", "b"}, true},
		"of another process": {`{"nodes":["b","c","a"]}`, []string{"c", "a", "b"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			h := newHistory("batch", "now")
			var err error
			if h.nodeOrder, err = readOrder(file); err != nil {
				t.Fatal(err)
			}
			for i, name := range []string{"a", "b", "c"} { // neither the age nor the version tells the order
				h.addInitial(withVersion(i+1, fixture.Node(name).Obj()))
			}
			h.addChange(pendingPod(20, "p"), false)
			h.addChange(boundPod(21, "p", "a", decision.Walk{Seq: 1, Order: orderChecksum(c.live...), Nodes: 9}), false)
			h.nodesVersion = 9
			r, err := h.buildLog()
			if (err == nil) != c.known {
				t.Fatalf("error %v, want known: %v", err, c.known)
			}
			if !c.known {
				return
			}
			want := "apply " + strings.Join(c.live, "\napply ") + "\nschedule p from 0"
			if diff := cmp.Diff(want, formatOps(r)); diff != "" {
				t.Errorf("the log (-want,+got):\n%s", diff)
			}
		})
	}
	for _, text := range []string{"", "{}", "404 page not found\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if order, err := readOrder(file); err == nil {
			t.Errorf("%q was read as the order %v", text, order)
		}
	}
}

func TestALogWithoutDecisionsIsNotWritten(t *testing.T) {
	var out strings.Builder
	o := &options{}
	r := &recording{notReplayed: 2, gaps: []string{"leader epoch 2 follows epoch 1: the log ends there"}}
	err := o.writeLog(&out, &state.Profile{Source: &v1alpha1.SchedulingProfile{}, Name: "batch"}, newHistory("batch", "now"), r)
	const want = "profile batch made no decision that can be replayed: no log is written; leader epoch 2 follows epoch 1: the log ends there"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if out.Len() > 0 {
		t.Errorf("the log has: %s", out.String())
	}
}

func TestAFailedRecordingKeepsTheFilesThatWereThere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "day.jsonl")
	for _, name := range []string{file, file + ".profile.yaml"} {
		if err := os.WriteFile(name, []byte("of yesterday"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := kubectltest.Profile("batch", 1)
	revision := kubectltest.Revision(p, 1)
	env := kubectltest.New(t, kubectltest.Running(p, revision, 1), revision)
	env.Fail = func(_ string, object any) error {
		if _, nodes := object.(*v1.NodeList); nodes {
			return errors.New("nodes is forbidden")
		}
		return nil
	}
	if printed := env.Run(New, file); !strings.Contains(printed, "nodes: the log needs them") {
		t.Fatal(printed)
	}
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(entries) != 2 {
		t.Errorf("files %v, %v, want the two that were there", entries, err)
	}
	for _, e := range entries {
		if text, err := os.ReadFile(filepath.Join(filepath.Dir(file), e.Name())); err != nil || string(text) != "of yesterday" {
			t.Errorf("%s has %q, %v", e.Name(), text, err)
		}
	}
}

func TestExtendersThatWereCalledAreAGap(t *testing.T) {
	authority, _, err := cert.GenerateSelfSignedCertKey("authority.example", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	withExtender := func(name string, manages ...v1alpha1.ExtenderManagedResource) func(*v1alpha1.SchedulingProfileSpec) {
		return func(spec *v1alpha1.SchedulingProfileSpec) {
			spec.Extenders = append(spec.Extenders, v1alpha1.Extender{
				Name: name, URL: "https://" + name + ".example/v1", Verbs: v1alpha1.ExtenderVerbs{Filter: "filter"},
				TLS: v1alpha1.ExtenderTLS{CABundle: authority}, ManagedResources: manages,
			})
		}
	}
	gpus := withExtender("gpus", v1alpha1.ExtenderManagedResource{Name: "example.com/gpu"})
	for name, c := range map[string]struct {
		profile *v1alpha1.SchedulingProfile
		err     error
		note    string
	}{
		"no extender":                {profile: kubectltest.Profile("batch", 1)},
		"one that was not called":    {profile: kubectltest.Profile("batch", 1, gpus)},
		"one of two that was called": {profile: kubectltest.Profile("batch", 1, gpus, withExtender("racks")), err: verb.ErrFindings, note: "extenders are not replayed: those that Berth called (racks) may"},
	} {
		t.Run(name, func(t *testing.T) {
			blueprint, rejection := compile.Profile(compile.Input{Profile: c.profile, Registry: plugins.InTree(), Extenders: compile.AllExtenders})
			if rejection != nil {
				t.Fatal(rejection.Message())
			}
			h := testHistory()
			h.addChange(pendingPod(21, "p"), false)
			h.addChange(boundPod(22, "p", "a", decision.Walk{Seq: 1, Order: orderChecksum("b", "a"), Nodes: 11, Pods: 12}), false)
			r, err := h.buildLog()
			if err != nil {
				t.Fatal(err)
			}
			var out, errOut strings.Builder
			o := &options{Env: verb.Env{IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &errOut}}}
			err = o.writeLog(io.Discard, &state.Profile{Source: c.profile, Blueprint: blueprint, Name: "batch"}, h, r)
			if printed := strings.Join(strings.Fields(errOut.String()), " "); !errors.Is(err, c.err) || !strings.Contains(printed, c.note) || c.note == "" && printed != "" {
				t.Errorf("%v and %q, want %v and %q", err, printed, c.err, c.note)
			}
		})
	}
}

func TestTheProfileIsNotWrittenToTheFileOfTheLog(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	if err := os.WriteFile("old.jsonl", []byte("of yesterday"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("old.jsonl", "link.jsonl"); err != nil {
		t.Fatal(err)
	}
	for log, profile := range map[string]string{"x.jsonl": "./x.jsonl", "old.jsonl": filepath.Join(folder, "old.jsonl"), "link.jsonl": "old.jsonl"} {
		printed := strings.Join(strings.Fields(kubectltest.New(t).Run(New, log, "--profile-out", profile)), " ")
		if !strings.Contains(printed, "--profile-out: Invalid value: ") || !strings.Contains(printed, "must be another file than that of the log") {
			t.Errorf("%s and %s: %s", log, profile, printed)
		}
	}
	if text, err := os.ReadFile("old.jsonl"); err != nil || string(text) != "of yesterday" {
		t.Errorf("the log of yesterday has %q, %v", text, err)
	}
}
