package integration

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/extender"
	"github.com/berthdev/berth/test/fixture"
)

// hereOnly makes clients of extenders that are all on this host, whatever they
// are called: where they may be is shown without an API server.
func hereOnly(life context.Context, profile string, c extender.Config) (fwk.Extender, error) {
	return extender.New(life, profile, c, extender.Options{
		Allow: func(netip.AddrPort) error { return nil },
		Lookup: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		},
		Log: ctrl.Log.WithName("extender"),
	})
}

// voice is an extender whose answers a spec gives it; nil: it says 500.
type voice struct {
	*httptest.Server

	mu         sync.Mutex
	filter     func(node string) (fits bool, why string, resolvable bool)
	prioritize func(node string) int64
	bind       func(extenderv1.ExtenderBindingArgs) string
	heard      []string
}

// aVoice starts one that answers nothing yet.
func aVoice() *voice {
	v := &voice{}
	v.Server = httptest.NewTLSServer(v)
	DeferCleanup(v.Close)
	return v
}

// says changes its answers.
func (v *voice) says(change func(v *voice)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	change(v)
}

// pods are those that it was asked about, in turn.
func (v *voice) pods() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.heard
}

func (v *voice) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	var args extenderv1.ExtenderArgs
	var answer any
	switch verb := r.URL.Path; {
	case verb == "/v1/bind" && v.bind != nil:
		var binding extenderv1.ExtenderBindingArgs
		_ = json.NewDecoder(r.Body).Decode(&binding)
		v.heard = append(v.heard, binding.PodName)
		answer = extenderv1.ExtenderBindingResult{Error: v.bind(binding)}
	case json.NewDecoder(r.Body).Decode(&args) != nil:
	case verb == "/v1/filter" && v.filter != nil:
		v.heard = append(v.heard, args.Pod.Name)
		answer = v.filtered(*args.NodeNames)
	case verb == "/v1/prioritize" && v.prioritize != nil:
		list := extenderv1.HostPriorityList{}
		for _, name := range *args.NodeNames {
			list = append(list, extenderv1.HostPriority{Host: name, Score: v.prioritize(name)})
		}
		answer = list
	}
	if answer == nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (v *voice) filtered(names []string) extenderv1.ExtenderFilterResult {
	fit := []string{}
	result := extenderv1.ExtenderFilterResult{FailedNodes: extenderv1.FailedNodesMap{}, FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{}}
	for _, name := range names {
		switch fits, why, resolvable := v.filter(name); {
		case fits:
			fit = append(fit, name)
		case resolvable:
			result.FailedNodes[name] = why
		default:
			result.FailedAndUnresolvableNodes[name] = why
		}
	}
	result.NodeNames = &fit
	return result
}

// only lets one node through.
func only(node *v1.Node) func(string) (bool, string, bool) {
	return func(name string) (bool, string, bool) { return name == node.Name, "the rack is locked", true }
}

// extendedBy adds an extender to a profile.
func extendedBy(v *voice, verbs v1alpha1.ExtenderVerbs, edits ...func(*v1alpha1.Extender)) func(*v1alpha1.SchedulingProfileSpec) {
	e := v1alpha1.Extender{
		Name: "rack", URL: "https://rack.example:" + v.URL[strings.LastIndex(v.URL, ":")+1:] + "/v1", Verbs: verbs, NodeCacheCapable: true,
		TLS: v1alpha1.ExtenderTLS{CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: v.Certificate().Raw}), ServerName: "example.com"},
	}
	for _, edit := range edits {
		edit(&e)
	}
	return func(s *v1alpha1.SchedulingProfileSpec) { s.Extenders = []v1alpha1.Extender{e} }
}

var (
	filters    = v1alpha1.ExtenderVerbs{Filter: "filter"}
	binds      = v1alpha1.ExtenderVerbs{Bind: "bind"}
	mayIgnored = func(e *v1alpha1.Extender) { e.FailurePolicy = v1alpha1.FailurePolicyIgnore }
)

// binder binds as an extender that may.
func binder(ctx context.Context) func(extenderv1.ExtenderBindingArgs) string {
	return func(args extenderv1.ExtenderBindingArgs) string {
		err := admin.SubResource("binding").Create(ctx, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: args.PodNamespace, Name: args.PodName}},
			&v1.Binding{ObjectMeta: metav1.ObjectMeta{UID: args.PodUID}, Target: v1.ObjectReference{Kind: "Node", Name: args.Node}})
		if err != nil {
			return err.Error()
		}
		return ""
	}
}

// racking lets a pod ask for what the extender manages: the API server wants a
// limit as well.
func racking(pod *fixture.PodBuilder) *fixture.PodBuilder {
	return pod.Requests("example.com/rack", "1").Mutate(func(pod *v1.Pod) {
		pod.Spec.Containers[0].Resources.Limits = fixture.Resources("example.com/rack", "1")
	})
}
