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
	"github.com/berthdev/berth/test/support/fixture"
)

func TestFilterAnswers(t *testing.T) {
	type filterAnswer struct {
		Fit                  []string
		Failed, Unresolvable extenderv1.FailedNodesMap
		Kind                 Kind
		Message              string
	}
	none := extenderv1.FailedNodesMap{}
	left := func(names ...string) extenderv1.FailedNodesMap {
		all := extenderv1.FailedNodesMap{}
		for _, name := range names {
			all[name] = `node(s) were left out by extender "gpu"`
		}
		return all
	}
	const whole, byName = false, true // the extender has no node cache, and has one
	for name, test := range map[string]struct {
		cacheCapable bool
		answer       string
		want         filterAnswer
	}{
		"node names, in the order of the answer": {byName, `{"NodeNames": ["c", "a"], "FailedNodes": {"b": "no gpu"}}`,
			filterAnswer{Fit: []string{"c", "a"}, Failed: extenderv1.FailedNodesMap{"b": "no gpu"}, Unresolvable: none}},
		"whole nodes": {whole, `{"Nodes": {"items": [{"metadata": {"name": "b"}}]}, "FailedAndUnresolvableNodes": {"a": "never", "c": "never"}}`,
			filterAnswer{Fit: []string{"b"}, Failed: none, Unresolvable: extenderv1.FailedNodesMap{"a": "never", "c": "never"}}},
		"with a node cache whole nodes are read where there are no names": {byName, `{"Nodes": {"items": [{"metadata": {"name": "b"}}]}}`,
			filterAnswer{Fit: []string{"b"}, Failed: none, Unresolvable: left("a", "c")}},
		"without a node cache whole nodes are read, not the other names beside them": {whole,
			`{"Nodes": {"items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}, "NodeNames": ["a", "b", ""], "FailedNodes": {"c": "busy"}, "Error": ""}`,
			filterAnswer{Fit: []string{"a", "b"}, Failed: extenderv1.FailedNodesMap{"c": "busy"}, Unresolvable: none}},
		"with a node cache node names are read, not the other nodes beside them": {byName,
			`{"Nodes": {"items": [{"metadata": {"name": "kube-apiserver"}}]}, "NodeNames": ["a"]}`,
			filterAnswer{Fit: []string{"a"}, Failed: none, Unresolvable: left("b", "c")}},
		"with a node cache no name means that no node fits, whatever the nodes beside it": {byName,
			`{"Nodes": {"items": [{"metadata": {"name": "a"}}]}, "NodeNames": []}`,
			filterAnswer{Failed: none, Unresolvable: left("a", "b", "c")}},
		"without a node cache names alone mean that no node fits": {whole, `{"NodeNames": ["a"]}`,
			filterAnswer{Failed: none, Unresolvable: left("a", "b", "c")}},
		"without a node cache neither field means that no node fits": {whole, `{}`,
			filterAnswer{Failed: none, Unresolvable: left("a", "b", "c")}},
		"with a node cache neither field means that no node fits": {byName, `{"NodeNames": null, "Nodes": null, "Error": ""}`,
			filterAnswer{Failed: none, Unresolvable: left("a", "b", "c")}},
		"nodes without items": {whole, `{"Nodes": {}, "NodeNames": ["a"]}`,
			filterAnswer{Failed: none, Unresolvable: left("a", "b", "c")}},
		"unresolvable takes precedence": {byName, `{"NodeNames": ["a", "b"], "FailedNodes": {"c": "busy"}, "FailedAndUnresolvableNodes": {"c": "broken"}}`,
			filterAnswer{Fit: []string{"a", "b"}, Failed: none, Unresolvable: extenderv1.FailedNodesMap{"c": "broken"}}},
		"nodes without a reason": {byName, `{"NodeNames": ["a"]}`,
			filterAnswer{Fit: []string{"a"}, Failed: none, Unresolvable: left("b", "c")}},
		"no node fits": {whole, `{"FailedNodes": {"a": "x", "b": "x", "c": "x", "elsewhere": "y"}}`,
			filterAnswer{Failed: extenderv1.FailedNodesMap{"a": "x", "b": "x", "c": "x"}, Unresolvable: none}},
		"a long reason of several lines": {byName, `{"NodeNames": ["a", "b"], "FailedNodes": {"c": "` + strings.Repeat("x", 300) + `\n"}}`,
			filterAnswer{Fit: []string{"a", "b"}, Failed: extenderv1.FailedNodesMap{"c": strings.Repeat("x", 256) + "…"}, Unresolvable: none}},

		"an error": {whole, `{"Error": "out of\norder"}`, filterAnswer{Kind: Failed, Message: "out of order"}},
		"a node that is not in the request": {byName, `{"NodeNames": ["a", "d"]}`,
			filterAnswer{Kind: False, Message: "the answer names a node that is not in the request, or one twice"}},
		"a whole node that is not in the request": {whole, `{"Nodes": {"items": [{"metadata": {"name": "kube-apiserver"}}]}}`,
			filterAnswer{Kind: False, Message: "the answer names a node that is not in the request, or one twice"}},
		"a node twice": {byName, `{"NodeNames": ["a", "a"]}`,
			filterAnswer{Kind: False, Message: "the answer names a node that is not in the request, or one twice"}},
		"a node that fits and does not": {byName, `{"NodeNames": ["a"], "FailedNodes": {"a": "no"}}`,
			filterAnswer{Kind: False, Message: "the answer says that a node fits and that it does not"}},
		"incomplete JSON":   {byName, `{"NodeNames": ["a"`, filterAnswer{Kind: Garbled, Message: "the answer is not the expected JSON"}},
		"two JSON values":   {byName, `{"NodeNames": ["a"]} {"NodeNames": ["b"]}`, filterAnswer{Kind: Garbled, Message: "the answer is not the expected JSON"}},
		"another JSON type": {byName, `[1, 2]`, filterAnswer{Kind: Garbled, Message: "the answer is not the expected JSON"}},
		"an empty body":     {byName, ``, filterAnswer{Kind: Garbled, Message: "the answer is not the expected JSON"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, answer(test.answer)).config()
			c.NodeCacheCapable = test.cacheCapable
			fit, no, never, err := client(t, c, localOptions()).Filter(pod(), nodes("a", "b", "c"))
			got := filterAnswer{Fit: nodeNames(fit), Failed: no, Unresolvable: never}
			if err != nil {
				got.Kind, got.Message = failureOf(t, err)
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
	for name, test := range map[string]struct {
		answer string
		want   extenderv1.HostPriorityList
		kind   Kind
	}{
		"scores":                            {`[{"Host": "a", "Score": 0}, {"host": "b", "score": 10}]`, extenderv1.HostPriorityList{{Host: "a"}, {Host: "b", Score: 10}}, Answered},
		"no score":                          {`[]`, extenderv1.HostPriorityList{}, Answered},
		"more than 10":                      {`[{"Host": "a", "Score": 11}]`, nil, False},
		"less than 0":                       {`[{"Host": "a", "Score": -1}]`, nil, False},
		"the largest integer":               {`[{"Host": "a", "Score": 9223372036854775807}]`, nil, False},
		"a number beyond float64":           {`[{"Host": "a", "Score": 1e400}]`, nil, Garbled},
		"a fraction":                        {`[{"Host": "a", "Score": 1.5}]`, nil, Garbled},
		"not a number":                      {`[{"Host": "a", "Score": NaN}]`, nil, Garbled},
		"a node twice":                      {`[{"Host": "a", "Score": 1}, {"Host": "a", "Score": 1}]`, nil, False},
		"a node that is not in the request": {`[{"Host": "z", "Score": 1}, {"Host": "a", "Score": 2}]`, extenderv1.HostPriorityList{{Host: "a", Score: 2}}, Answered},
		"a node that is not in the request, twice and beyond the range": {`[{"Host": "", "Score": 11}, {"Host": "b", "Score": 10}, {"Host": "", "Score": -1}]`,
			extenderv1.HostPriorityList{{Host: "b", Score: 10}}, Answered},
	} {
		t.Run(name, func(t *testing.T) {
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
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		change  func(*Config, *Options)
		kind    Kind
		message string
	}{
		"status 500": {handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, kind: Refused, message: "status 500, want 200"},
		"status 204": {handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, kind: Refused, message: "status 204, want 200"},
		"a redirect to the cloud metadata": {handler: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusTemporaryRedirect)
		}, kind: Refused, message: "it redirects (status 307), which is not followed"},
		"a redirect to another extender": {handler: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, another.config().URL+"/filter", http.StatusPermanentRedirect)
		}, kind: Refused, message: "it redirects (status 308), which is not followed"},
		"an HTML page": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, `{"NodeNames": ["a"]}`)
		}, kind: Garbled, message: "the Content-Type of the answer is not JSON"},
		"an answer beyond the limit": {handler: func(w http.ResponseWriter, _ *http.Request) {
			spaces := []byte(strings.Repeat(" ", 1<<20))
			for range 8 {
				if _, err := w.Write(spaces); err != nil {
					return
				}
			}
			_, _ = io.WriteString(w, `{"NodeNames": ["a"]}`)
		}, kind: Garbled},
		"an incomplete answer": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"NodeNames"`)
		}, kind: Garbled, message: "the answer is incomplete"},
		"a certificate for another name": {handler: answer(`{"NodeNames": ["a"]}`),
			change: func(c *Config, _ *Options) { c.ServerName = "elsewhere.example" }, kind: Unreachable, message: "it cannot be reached, or its certificate cannot be verified"},
		"a certificate of another CA": {handler: answer(`{"NodeNames": ["a"]}`),
			change: func(c *Config, _ *Options) { c.CABundle = otherCA }, kind: Unreachable, message: "it cannot be reached, or its certificate cannot be verified"},
		"no answer in time": {handler: answer(`{"NodeNames": ["a"]}`),
			change: func(_ *Config, o *Options) { o.Deadline = expiredDeadline }, kind: Late, message: "no answer within 1h0m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, test.handler)
			c, o := s.config(), localOptions()
			if test.change != nil {
				test.change(&c, &o)
			}
			_, _, _, err := client(t, c, o).Filter(pod(), nodes("a"))
			kind, message := failureOf(t, err)
			if kind != test.kind || test.message != "" && message != test.message {
				t.Errorf("%s: %q, want %s: %q", kind, message, test.kind, test.message)
			}
			if err != nil && strings.Contains(err.Error(), "127.0.0.1") {
				t.Errorf("%v contains the address", err)
			}
		})
	}
}

// otherCA signed no certificate of a server here.
var otherCA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: selfSigned().Raw})

// The caller goes on when a server hangs, and a late answer is dropped.
func TestCallersDoNotWaitForAHangingExtender(t *testing.T) {
	received, release := make(chan struct{}), make(chan struct{})
	s := serve(t, func(http.ResponseWriter, *http.Request) {
		close(received)
		<-release
	})
	t.Cleanup(func() { close(release) }) // before the server closes
	o := localOptions()
	o.Deadline = func(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		go func() { <-received; cancel() }()
		return ctx, cancel
	}
	if kind, message := failureOf(t, filterError(client(t, s.config(), o))); kind != Late || message != "no answer within 1h0m0s" {
		t.Errorf("%s %q", kind, message)
	}
}

func TestAReplacedProfileDoesNotWaitForAnswers(t *testing.T) {
	life, end := context.WithCancel(t.Context())
	end()
	c, err := New(life, "batch", serve(t, answer(`{}`)).config(), localOptions())
	if err != nil {
		t.Fatal(err)
	}
	if kind, message := failureOf(t, filterError(c)); kind != Late || message != "the profile was replaced before it answered" {
		t.Errorf("%s %q", kind, message)
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
	for name, test := range map[string]struct {
		answer  string
		want    []string
		message string
	}{
		"the victims of the plan":           {answer: `{"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "low"}]}}}`, want: []string{"low"}},
		"other victims":                     {answer: `{"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "lower"}]}}}`, want: []string{"lower"}},
		"a node that is not in the request": {answer: `{"NodeNameToMetaVictims": {"b": {"Pods": [{"UID": "low"}]}}}`, message: "the answer names a node that is not in the request"},
		"a victim of another node":          {answer: `{"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "x"}]}}}`, message: "the answer names a victim that is not on the node, or one twice"},
		"a victim twice":                    {answer: `{"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "low"}, {"UID": "low"}]}}}`, message: "the answer names a victim that is not on the node, or one twice"},
		"a victim of equal priority":        {answer: `{"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "equal"}]}}}`, message: "the answer names a victim whose priority is not lower than the pod's"},
		"null as a victim":                  {answer: `{"NodeNameToMetaVictims": {"a": {"Pods": [null]}}}`, message: "the answer names a victim that is not on the node, or one twice"},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, answer(test.answer)).config()
			got, err := client(t, c, localOptions()).ProcessPreemption(preemptor, planned, nodeLister{nodes: map[string]fwk.NodeInfo{"a": node}})
			if _, message := failureOf(t, err); message != test.message {
				t.Fatalf("%q, want %q", message, test.message)
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

// nodeLister holds nodes by name.
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
			t.Errorf("request %s", s.requests[i])
		}
	}
}

func TestIsInterestedByManagedResources(t *testing.T) {
	c := serve(t, answer(`{}`)).config()
	c.Managed = []string{"example.com/gpu"}
	extender := client(t, c, localOptions())
	limited := fixture.Pod("p").Obj()
	limited.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Limits: fixture.Resources("example.com/gpu", "1")}}}
	for name, test := range map[string]struct {
		pod  *v1.Pod
		want bool
	}{
		"another resource":  {fixture.Pod("p").Requests("cpu", "1").Obj(), false},
		"the resource":      {fixture.Pod("p").Requests("example.com/gpu", "1").Obj(), true},
		"an init container": {fixture.Pod("p").InitRequests("example.com/gpu", "1").Obj(), true},
		"a limit alone":     {limited, true},
	} {
		if got := extender.IsInterested(test.pod); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
	c.Managed = nil
	if !client(t, c, localOptions()).IsInterested(pod()) {
		t.Error("an extender without managed resources is not called for every pod")
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
		t.Errorf("requests %v", s.requests)
	}
	if kind, message := failureOf(t, client(t, serve(t, answer(`{"Error": "no"}`)).config(), localOptions()).Bind(binding)); kind != Failed || message != "no" {
		t.Errorf("%s %q", kind, message)
	}
}
