package integration

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/berthdev/berth/api/v1alpha1"
	manager "github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/scheduler/extender"
	"github.com/berthdev/berth/test/support/fixture"
)

// allowExtenders runs the specs of a container with a manager that lets profiles have
// extenders. Other specs do without: extenders are sent whole pods, and a manager that
// allows none keeps less of them.
func allowExtenders() {
	BeforeAll(func(ctx SpecContext) {
		stopManager()
		config := accountConfig(ctx)
		berth = runManager(config, []string{"--enable-extenders", "--enable-extender-writes"},
			suiteOptions(manager.WithExtenderClient(hereOnly(config)))...)
	}, NodeTimeout(patience))
	AfterAll(func(ctx SpecContext) {
		stopManager()
		berth = startManager(ctx)
	}, NodeTimeout(patience))
}

// hereOnly makes clients of extenders that are all on this host, whatever they
// are called: where they may be is shown without an API server. Their
// certificates are read with the manager's rights.
func hereOnly(cfg *rest.Config) manager.ExtenderClient {
	lent := extender.Options{
		Certificate: manager.ClientCertificates(kubernetes.NewForConfigOrDie(cfg), namespace),
		Allow:       func(netip.AddrPort) error { return nil },
		Lookup: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		},
		Log: ctrl.Log.WithName("extender"),
	}
	return func(life context.Context, profile string, c extender.Config) (fwk.Extender, error) {
		return extender.New(life, profile, c, lent)
	}
}

// voice is an extender whose answers a spec gives it; nil: it says 500. It answers
// while the spec goes on.
type voice struct {
	*httptest.Server

	mu         sync.Mutex
	filter     func(node string) (fits bool, why string, resolvable bool)
	prioritize func(node string) int64
	preempt    func(extenderv1.ExtenderPreemptionArgs) map[string]*extenderv1.MetaVictims
	bind       func(extenderv1.ExtenderBindingArgs) string
	heard      []string
	// nodes are those that it was asked to filter, or to clear, in turn.
	nodes []string
	// callers are those who proved who they are, in turn.
	callers []string
	// open is how many connections there are.
	open int
}

// aVoice starts one that answers nothing yet. It asks each caller to prove who
// it is, and serves those who do not.
func aVoice() *voice {
	v := &voice{}
	v.Server = httptest.NewUnstartedServer(v)
	v.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	v.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		v.says(func(v *voice) {
			switch state {
			case http.StateNew:
				v.open++
			case http.StateClosed:
				v.open--
			}
		})
	}
	v.StartTLS()
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

// asked are the nodes that it was asked to filter, or to clear, in turn.
func (v *voice) asked() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.nodes
}

// connections is how many there are.
func (v *voice) connections() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.open
}

func (v *voice) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, certificate := range r.TLS.PeerCertificates {
		v.callers = append(v.callers, certificate.DNSNames...)
	}
	w.Header().Set("Content-Type", "application/json")
	answer := v.answer(r)
	if answer == nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (v *voice) answer(r *http.Request) any {
	var args extenderv1.ExtenderArgs
	question := json.NewDecoder(r.Body)
	switch verb := r.URL.Path; {
	case verb == "/v1/bind" && v.bind != nil:
		var binding extenderv1.ExtenderBindingArgs
		_ = question.Decode(&binding)
		v.heard = append(v.heard, binding.PodName)
		return extenderv1.ExtenderBindingResult{Error: v.bind(binding)}
	case verb == "/v1/preempt" && v.preempt != nil:
		var preemption extenderv1.ExtenderPreemptionArgs
		_ = question.Decode(&preemption)
		v.nodes = slices.AppendSeq(v.nodes, maps.Keys(preemption.NodeNameToMetaVictims))
		return extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: v.preempt(preemption)}
	case question.Decode(&args) != nil:
	case verb == "/v1/filter" && v.filter != nil:
		v.heard = append(v.heard, args.Pod.Name)
		return v.filtered(args)
	case verb == "/v1/prioritize" && v.prioritize != nil:
		list := extenderv1.HostPriorityList{}
		for _, name := range names(args) {
			list = append(list, extenderv1.HostPriority{Host: name, Score: v.prioritize(name)})
		}
		return list
	}
	return nil
}

// names are those of the nodes that it is asked about, by name or in full.
func names(args extenderv1.ExtenderArgs) []string {
	if args.NodeNames != nil {
		return *args.NodeNames
	}
	var all []string
	for i := range args.Nodes.Items {
		all = append(all, args.Nodes.Items[i].Name)
	}
	return all
}

// filtered answers as it was asked, by name or in full.
func (v *voice) filtered(args extenderv1.ExtenderArgs) extenderv1.ExtenderFilterResult {
	fit := []string{}
	result := extenderv1.ExtenderFilterResult{FailedNodes: extenderv1.FailedNodesMap{}, FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{}}
	for _, name := range names(args) {
		v.nodes = append(v.nodes, name)
		switch fits, why, resolvable := v.filter(name); {
		case fits:
			fit = append(fit, name)
		case resolvable:
			result.FailedNodes[name] = why
		default:
			result.FailedAndUnresolvableNodes[name] = why
		}
	}
	if args.NodeNames != nil {
		result.NodeNames = &fit
		return result
	}
	result.Nodes = &v1.NodeList{Items: slices.DeleteFunc(args.Nodes.Items, func(n v1.Node) bool { return !slices.Contains(fit, n.Name) })}
	return result
}

// extendedBy has a profile ask one extender and no other.
func extendedBy(v *voice, verbs v1alpha1.ExtenderVerbs, edits ...func(*v1alpha1.Extender)) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		s.Extenders = []v1alpha1.Extender{asExtender(v, verbs, edits...)}
	}
}

// asExtender is a voice as a profile names it.
func asExtender(v *voice, verbs v1alpha1.ExtenderVerbs, edits ...func(*v1alpha1.Extender)) v1alpha1.Extender {
	e := v1alpha1.Extender{
		Name: "rack", URL: "https://rack.example:" + v.URL[strings.LastIndex(v.URL, ":")+1:] + "/v1", Verbs: verbs, NodeCacheCapable: true,
		TLS: v1alpha1.ExtenderTLS{CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: v.Certificate().Raw}), ServerName: "example.com"},
	}
	for _, edit := range edits {
		edit(&e)
	}
	return e
}

var (
	filters    = v1alpha1.ExtenderVerbs{Filter: "filter"}
	binds      = v1alpha1.ExtenderVerbs{Bind: "bind"}
	preempts   = v1alpha1.ExtenderVerbs{Preempt: "preempt"}
	mayIgnored = func(e *v1alpha1.Extender) { e.FailurePolicy = v1alpha1.FailurePolicyIgnore }
)

// racking lets a pod ask for what the extender manages: the API server wants a
// limit as well.
func racking(pod *fixture.PodBuilder) *fixture.PodBuilder {
	return pod.Requests("example.com/rack", "1").Mutate(func(pod *v1.Pod) {
		pod.Spec.Containers[0].Resources.Limits = fixture.Resources("example.com/rack", "1")
	})
}
