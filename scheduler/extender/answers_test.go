package extender

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
)

func TestFilterAnswers(t *testing.T) {
	type said struct {
		Fit                  []string
		Failed, Unresolvable extenderv1.FailedNodesMap
		Kind                 Kind
		Told                 string
	}
	none := extenderv1.FailedNodesMap{}
	for sentence, test := range map[string]struct {
		answer string
		want   said
	}{
		"names, in the answer's order": {`{"NodeNames": ["c", "a"], "FailedNodes": {"b": "no gpu"}}`,
			said{Fit: []string{"c", "a"}, Failed: extenderv1.FailedNodesMap{"b": "no gpu"}, Unresolvable: none}},
		"whole nodes": {`{"Nodes": {"items": [{"metadata": {"name": "b"}}]}, "FailedAndUnresolvableNodes": {"a": "never", "c": "never"}}`,
			said{Fit: []string{"b"}, Failed: none, Unresolvable: extenderv1.FailedNodesMap{"a": "never", "c": "never"}}},
		"both ways, the same": {`{"Nodes": {"items": [{"metadata": {"name": "b"}}, {"metadata": {"name": "a"}}, {"metadata": {"name": "c"}}]}, "NodeNames": ["a", "b", "c"]}`,
			said{Fit: []string{"a", "b", "c"}, Failed: none, Unresolvable: none}},
		"what is unresolvable outranks the other": {`{"NodeNames": ["a", "b"], "FailedNodes": {"c": "busy"}, "FailedAndUnresolvableNodes": {"c": "broken"}}`,
			said{Fit: []string{"a", "b"}, Failed: none, Unresolvable: extenderv1.FailedNodesMap{"c": "broken"}}},
		"nodes left out without a word": {`{"NodeNames": ["a"]}`,
			said{Fit: []string{"a"}, Failed: none, Unresolvable: extenderv1.FailedNodesMap{"b": `node(s) were left out by extender "gpu"`, "c": `node(s) were left out by extender "gpu"`}}},
		"no node fits": {`{"FailedNodes": {"a": "x", "b": "x", "c": "x", "elsewhere": "y"}}`,
			said{Failed: extenderv1.FailedNodesMap{"a": "x", "b": "x", "c": "x"}, Unresolvable: none}},
		"reasons without end, in many lines": {`{"NodeNames": ["a", "b"], "FailedNodes": {"c": "` + strings.Repeat("x", 300) + `\n"}}`,
			said{Fit: []string{"a", "b"}, Failed: extenderv1.FailedNodesMap{"c": strings.Repeat("x", 256) + "…"}, Unresolvable: none}},

		"an error": {`{"Error": "out of\norder"}`, said{Kind: Failed, Told: "out of order"}},
		"a node that nobody asked about": {`{"NodeNames": ["a", "d"]}`,
			said{Kind: False, Told: "the answer names a node that was not asked about, or one twice"}},
		"a node in full that nobody asked about": {`{"Nodes": {"items": [{"metadata": {"name": "kube-apiserver"}}]}}`,
			said{Kind: False, Told: "the answer names a node that was not asked about, or one twice"}},
		"a node twice": {`{"NodeNames": ["a", "a"]}`,
			said{Kind: False, Told: "the answer names a node that was not asked about, or one twice"}},
		"a node that fits and does not": {`{"NodeNames": ["a"], "FailedNodes": {"a": "no"}}`,
			said{Kind: False, Told: "the answer says of a node that it fits and that it does not"}},
		"both ways, not the same": {`{"Nodes": {"items": [{"metadata": {"name": "b"}}]}, "NodeNames": ["a"]}`,
			said{Kind: False, Told: "the answer's Nodes and NodeNames are not the same nodes"}},
		"nothing":        {`{}`, said{Kind: False, Told: "the answer names neither nodes that fit nor such that do not"}},
		"half of it":     {`{"NodeNames": ["a"`, said{Kind: Garbled, Told: "the answer is not the JSON that was asked for"}},
		"more than it":   {`{"NodeNames": ["a"]} {"NodeNames": ["b"]}`, said{Kind: Garbled, Told: "the answer is not the JSON that was asked for"}},
		"something else": {`[1, 2]`, said{Kind: Garbled, Told: "the answer is not the JSON that was asked for"}},
		"no byte":        {``, said{Kind: Garbled, Told: "the answer is not the JSON that was asked for"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := client(t, serve(t, answer(test.answer)).config(), localOptions())
			fit, no, never, err := c.Filter(pod(), nodes("a", "b", "c"))
			got := said{Fit: nodeNames(fit), Failed: no, Unresolvable: never}
			if err != nil {
				got.Kind, got.Told = failureOf(t, err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReasonsOfAnExtenderAreBounded(t *testing.T) {
	why, names := map[string]string{}, []string{}
	for i := range 40 {
		name := "n" + string(rune('A'+i))
		names, why[name] = append(names, name), "reason of "+name
	}
	text, _ := json.Marshal(map[string]any{"FailedNodes": why})
	_, no, _, err := client(t, serve(t, answer(string(text))).config(), localOptions()).Filter(pod(), nodes(names...))
	reasons := map[string]bool{}
	for _, reason := range no {
		reasons[reason] = true
	}
	if err != nil || len(no) != 40 || len(reasons) != 17 {
		t.Errorf("%d nodes, %d reasons (%v), want 40 and 17", len(no), len(reasons), err)
	}
}

func TestPrioritizeAnswers(t *testing.T) {
	for sentence, test := range map[string]struct {
		answer string
		want   extenderv1.HostPriorityList
		kind   Kind
	}{
		"scores":                {`[{"Host": "a", "Score": 0}, {"host": "b", "score": 10}]`, extenderv1.HostPriorityList{{Host: "a"}, {Host: "b", Score: 10}}, Answered},
		"no score":              {`[]`, extenderv1.HostPriorityList{}, Answered},
		"more than 10":          {`[{"Host": "a", "Score": 11}]`, nil, False},
		"less than 0":           {`[{"Host": "a", "Score": -1}]`, nil, False},
		"so much that it wraps": {`[{"Host": "a", "Score": 9223372036854775807}]`, nil, False},
		"more than a number":    {`[{"Host": "a", "Score": 1e400}]`, nil, Garbled},
		"a part of a score":     {`[{"Host": "a", "Score": 1.5}]`, nil, Garbled},
		"no number":             {`[{"Host": "a", "Score": NaN}]`, nil, Garbled},
		"a node twice":          {`[{"Host": "a", "Score": 1}, {"Host": "a", "Score": 1}]`, nil, False},
		"a node of nobody's":    {`[{"Host": "z", "Score": 1}]`, nil, False},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, weight, err := client(t, serve(t, answer(test.answer)).config(), localOptions()).Prioritize(pod(), nodes("a", "b"))
			if kind, _ := failureOf(t, err); kind != test.kind {
				t.Fatalf("%s (%v), want %s", kind, err, test.kind)
			}
			if err == nil && (weight != 3 || cmp.Diff(&test.want, got) != "") {
				t.Errorf("weight %d, scores %v", weight, got)
			}
		})
	}
}

func TestExtenderFailures(t *testing.T) {
	another := serve(t, answer(`{"NodeNames": ["a"]}`))
	for sentence, test := range map[string]struct {
		handler http.HandlerFunc
		change  func(*Config, *Options)
		kind    Kind
		told    string
	}{
		"it says that it is broken": {handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, kind: Refused, told: "status 500, want 200"},
		"it says 204":               {handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, kind: Refused, told: "status 204, want 200"},
		"it redirects to the metadata": {handler: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusTemporaryRedirect)
		}, kind: Refused, told: "it redirects (status 307), which is not followed"},
		"it redirects to another extender": {handler: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, another.config().URL+"/filter", http.StatusPermanentRedirect)
		}, kind: Refused, told: "it redirects (status 308), which is not followed"},
		"it answers a page": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, `{"NodeNames": ["a"]}`)
		}, kind: Garbled, told: "the answer says that it is not JSON"},
		"it answers without end": {handler: func(w http.ResponseWriter, _ *http.Request) {
			spaces := []byte(strings.Repeat(" ", 1<<20))
			for range 8 {
				if _, err := w.Write(spaces); err != nil {
					return
				}
			}
			_, _ = io.WriteString(w, `{"NodeNames": ["a"]}`)
		}, kind: Garbled},
		"it breaks off": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"NodeNames"`)
		}, kind: Garbled, told: "the answer breaks off"},
		"it is somebody else": {handler: answer(`{"NodeNames": ["a"]}`),
			change: func(c *Config, _ *Options) { c.ServerName = "elsewhere.example" }, kind: Unreachable, told: "it cannot be reached, or is not who it should be"},
		"nobody vouches for it": {handler: answer(`{"NodeNames": ["a"]}`),
			change: func(c *Config, _ *Options) { c.CABundle = otherCA }, kind: Unreachable, told: "it cannot be reached, or is not who it should be"},
		"it is too slow": {handler: answer(`{"NodeNames": ["a"]}`),
			change: func(_ *Config, o *Options) { o.Deadline = expiredDeadline }, kind: Late, told: "no answer within 1h0m0s"},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := serve(t, test.handler)
			c, o := s.config(), localOptions()
			if test.change != nil {
				test.change(&c, &o)
			}
			_, _, _, err := client(t, c, o).Filter(pod(), nodes("a"))
			kind, told := failureOf(t, err)
			if kind != test.kind || test.told != "" && told != test.told {
				t.Errorf("%s: %q, want %s: %q", kind, told, test.kind, test.told)
			}
			if err != nil && strings.Contains(err.Error(), "127.0.0.1") {
				t.Errorf("%v tells where it is", err)
			}
		})
	}
}

// otherAuthority vouches for nobody here.
var otherCA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: selfSigned().Raw})

// A server that hangs holds nobody up: whoever asked goes on, and what comes
// later is dropped.
func TestCallersDoNotWaitForAHangingExtender(t *testing.T) {
	heard, let := make(chan struct{}), make(chan struct{})
	s := serve(t, func(http.ResponseWriter, *http.Request) {
		close(heard)
		<-let
	})
	t.Cleanup(func() { close(let) }) // before the server closes
	o := localOptions()
	o.Deadline = func(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		go func() { <-heard; cancel() }()
		return ctx, cancel
	}
	if kind, told := failureOf(t, filterError(client(t, s.config(), o))); kind != Late || told != "no answer within 1h0m0s" {
		t.Errorf("%s %q", kind, told)
	}
}

func TestAReplacedProfileDoesNotWaitForAnswers(t *testing.T) {
	life, end := context.WithCancel(t.Context())
	end()
	c, err := New(life, "batch", serve(t, answer(`{}`)).config(), localOptions())
	if err != nil {
		t.Fatal(err)
	}
	if kind, told := failureOf(t, filterError(c)); kind != Late || told != "the profile was replaced before it answered" {
		t.Errorf("%s %q", kind, told)
	}
}

func TestPreemptAnswers(t *testing.T) {
	node := nodes("a")[0]
	for _, p := range []*v1.Pod{
		fixture.Pod("low").UID("low").Priority(1).Obj(), fixture.Pod("lower").UID("lower").Priority(0).Obj(), fixture.Pod("equal").UID("equal").Priority(10).Obj(),
	} {
		info, err := framework.NewPodInfo(p)
		if err != nil {
			t.Fatal(err)
		}
		node.AddPodInfo(info)
	}
	preemptor := fixture.Pod("web").Priority(10).Obj()
	planned := map[string]*extenderv1.Victims{"a": {Pods: []*v1.Pod{node.GetPods()[0].GetPod()}}}
	for sentence, test := range map[string]struct {
		answer string
		want   []string
		told   string
	}{
		"those of the plan":            {answer: `{"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "low"}]}}}`, want: []string{"low"}},
		"others":                       {answer: `{"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "lower"}]}}}`, want: []string{"lower"}},
		"nobody on a node of nobody's": {answer: `{"NodeNameToMetaVictims": {"b": {"Pods": [{"UID": "low"}]}}}`, told: "the answer names a node that was not asked about"},
		"nobody of another node":       {answer: `{"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "x"}]}}}`, told: "the answer names a victim that is not on the node, or one twice"},
		"nobody twice":                 {answer: `{"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "low"}, {"UID": "low"}]}}}`, told: "the answer names a victim that is not on the node, or one twice"},
		"nobody of the same rank":      {answer: `{"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "equal"}]}}}`, told: "the answer names a victim that is as important as the pod, or more"},
		"nobody at all, by null":       {answer: `{"NodeNameToMetaVictims": {"a": {"Pods": [null]}}}`, told: "the answer names a victim that is not on the node, or one twice"},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := serve(t, answer(test.answer)).config()
			got, err := client(t, c, localOptions()).ProcessPreemption(preemptor, planned, nodeLister{nodes: map[string]fwk.NodeInfo{"a": node}})
			if _, told := failureOf(t, err); told != test.told {
				t.Fatalf("%q, want %q", told, test.told)
			}
			var names []string
			for _, victims := range got {
				for _, p := range victims.Pods {
					names = append(names, p.Name)
				}
			}
			if diff := cmp.Diff(test.want, names); diff != "" {
				t.Errorf("victims (-want +got):\n%s", diff)
			}
		})
	}
}

// lister are nodes by name.
type nodeLister struct {
	fwk.NodeInfoLister
	nodes map[string]fwk.NodeInfo
}

func (l nodeLister) Get(name string) (fwk.NodeInfo, error) { return l.nodes[name], nil }

func TestFilterRequests(t *testing.T) {
	s := serve(t, answer(`{"NodeNames": ["a"]}`))
	whole := s.config()
	byName := whole
	byName.NodeCacheCapable = true
	for _, c := range []Config{whole, byName} {
		if _, _, _, err := client(t, c, localOptions()).Filter(pod(), nodes("a")); err != nil {
			t.Fatal(err)
		}
	}
	for i, wantNames := range []bool{false, true} {
		path, body, _ := strings.Cut(s.requests[i], " ")
		var args extenderv1.ExtenderArgs
		if err := json.Unmarshal([]byte(body), &args); err != nil {
			t.Fatal(err)
		}
		if path != "/v1/filter" || args.Pod.Name != "web" || (args.NodeNames != nil) != wantNames || (args.Nodes != nil) == wantNames {
			t.Errorf("asked %s", s.requests[i])
		}
	}
}

func TestIsInterestedByManagedResources(t *testing.T) {
	c := serve(t, answer(`{}`)).config()
	c.Managed = []string{"example.com/gpu"}
	extender := client(t, c, localOptions())
	limited := fixture.Pod("p").Obj()
	limited.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Limits: fixture.Resources("example.com/gpu", "1")}}}
	for sentence, test := range map[string]struct {
		pod  *v1.Pod
		want bool
	}{
		"another resource":  {fixture.Pod("p").Requests("cpu", "1").Obj(), false},
		"the resource":      {fixture.Pod("p").Requests("example.com/gpu", "1").Obj(), true},
		"an init container": {fixture.Pod("p").InitRequests("example.com/gpu", "1").Obj(), true},
		"a limit alone":     {limited, true},
	} {
		if got := extender.IsInterested(test.pod); got != test.want {
			t.Errorf("%s: %t, want %t", sentence, got, test.want)
		}
	}
	c.Managed = nil
	if !client(t, c, localOptions()).IsInterested(pod()) {
		t.Error("an extender that manages nothing is not asked about every pod")
	}
}

func TestBindRequest(t *testing.T) {
	s := serve(t, answer(`{}`))
	binding := &v1.Binding{Target: v1.ObjectReference{Kind: "Node", Name: "n1"}}
	binding.Name, binding.Namespace, binding.UID = "web", "shop", "u1"
	if err := client(t, s.config(), localOptions()).Bind(binding); err != nil {
		t.Fatal(err)
	}
	if want := `/v1/bind {"PodName":"web","PodNamespace":"shop","PodUID":"u1","Node":"n1"}`; len(s.requests) != 1 || s.requests[0] != want {
		t.Errorf("asked %v", s.requests)
	}
	if kind, told := failureOf(t, client(t, serve(t, answer(`{"Error": "no"}`)).config(), localOptions()).Bind(binding)); kind != Failed || told != "no" {
		t.Errorf("%s %q", kind, told)
	}
}
