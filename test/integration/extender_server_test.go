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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
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

// runWithExtenders runs the specs of a container with a manager that allows extenders.
// Other specs use a manager without: extenders get whole pods, so a manager that allows
// none keeps less of each pod.
func runWithExtenders() {
	BeforeAll(func(ctx SpecContext) {
		stopManager()
		config := accountConfig(ctx)
		berth = runManager(config, []string{"--enable-extenders", "--enable-extender-writes"},
			suiteOptions(manager.WithExtenderClient(localExtenderClient(config)))...)
	}, managerTimeout)
	AfterAll(func(ctx SpecContext) {
		stopManager()
		berth = startManager(ctx)
	}, managerTimeout)
}

// localExtenderClient creates clients that connect to this host whatever the extender's URL
// says. Unit tests check which addresses are allowed. The clients read their certificates
// with the manager's permissions.
func localExtenderClient(cfg *rest.Config) manager.ExtenderClient {
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

// extenderServer is an extender whose answers the spec sets. It answers 500 to a verb that
// has none.
type extenderServer struct {
	*httptest.Server

	mu         sync.Mutex
	filter     func(node string) (fits bool, why string, resolvable bool)
	prioritize func(node string) int64
	preempt    func(extenderv1.ExtenderPreemptionArgs) map[string]*extenderv1.MetaVictims
	bind       func(extenderv1.ExtenderBindingArgs) string
	podNames   []string
	// nodeNames are the nodes of all requests to filter or preempt.
	nodeNames []string
	// clientNames are the names in the client certificates of all requests.
	clientNames []string
	// openConnections is the number of open connections.
	openConnections int
}

// newExtenderServer starts an extender that has no answers. It requests a client
// certificate, and does not require one.
func newExtenderServer() *extenderServer {
	ext := &extenderServer{}
	ext.Server = httptest.NewUnstartedServer(ext)
	ext.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	ext.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		ext.set(func(ext *extenderServer) {
			switch state {
			case http.StateNew:
				ext.openConnections++
			case http.StateClosed:
				ext.openConnections--
			}
		})
	}
	ext.StartTLS()
	DeferCleanup(ext.Close)
	return ext
}

// set changes the answers.
func (ext *extenderServer) set(change func(ext *extenderServer)) {
	ext.mu.Lock()
	defer ext.mu.Unlock()
	change(ext)
}

// requestedPods returns the pods of all requests to filter or bind.
func (ext *extenderServer) requestedPods() []string {
	ext.mu.Lock()
	defer ext.mu.Unlock()
	return ext.podNames
}

// requestedNodes returns the nodes of all requests to filter or preempt.
func (ext *extenderServer) requestedNodes() []string {
	ext.mu.Lock()
	defer ext.mu.Unlock()
	return ext.nodeNames
}

// connections returns the number of open connections.
func (ext *extenderServer) connections() int {
	ext.mu.Lock()
	defer ext.mu.Unlock()
	return ext.openConnections
}

func (ext *extenderServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ext.mu.Lock()
	defer ext.mu.Unlock()
	for _, certificate := range r.TLS.PeerCertificates {
		ext.clientNames = append(ext.clientNames, certificate.DNSNames...)
	}
	w.Header().Set("Content-Type", "application/json")
	answer := ext.answer(r)
	if answer == nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (ext *extenderServer) answer(r *http.Request) any {
	var args extenderv1.ExtenderArgs
	question := json.NewDecoder(r.Body)
	switch verb := r.URL.Path; {
	case verb == "/v1/bind" && ext.bind != nil:
		var binding extenderv1.ExtenderBindingArgs
		_ = question.Decode(&binding)
		ext.podNames = append(ext.podNames, binding.PodName)
		return extenderv1.ExtenderBindingResult{Error: ext.bind(binding)}
	case verb == "/v1/preempt" && ext.preempt != nil:
		var preemption extenderv1.ExtenderPreemptionArgs
		_ = question.Decode(&preemption)
		ext.nodeNames = slices.AppendSeq(ext.nodeNames, maps.Keys(preemption.NodeNameToMetaVictims))
		return extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: ext.preempt(preemption)}
	case question.Decode(&args) != nil:
	case verb == "/v1/filter" && ext.filter != nil:
		ext.podNames = append(ext.podNames, args.Pod.Name)
		return ext.filterResult(args)
	case verb == "/v1/prioritize" && ext.prioritize != nil:
		list := extenderv1.HostPriorityList{}
		for _, name := range nodeNames(args) {
			list = append(list, extenderv1.HostPriority{Host: name, Score: ext.prioritize(name)})
		}
		return list
	}
	return nil
}

// nodeNames returns the names of the nodes of a request, which has names or whole nodes.
func nodeNames(args extenderv1.ExtenderArgs) []string {
	if args.NodeNames != nil {
		return *args.NodeNames
	}
	var all []string
	for i := range args.Nodes.Items {
		all = append(all, args.Nodes.Items[i].Name)
	}
	return all
}

// filterResult answers with names or whole nodes, as the request has them.
func (ext *extenderServer) filterResult(args extenderv1.ExtenderArgs) extenderv1.ExtenderFilterResult {
	fit := []string{}
	result := extenderv1.ExtenderFilterResult{FailedNodes: extenderv1.FailedNodesMap{}, FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{}}
	for _, name := range nodeNames(args) {
		ext.nodeNames = append(ext.nodeNames, name)
		switch fits, why, resolvable := ext.filter(name); {
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

// useExtender sets the only extender of a profile.
func useExtender(ext *extenderServer, verbs v1alpha1.ExtenderVerbs, edits ...func(*v1alpha1.Extender)) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		s.Extenders = []v1alpha1.Extender{extenderSpec(ext, verbs, edits...)}
	}
}

// extenderSpec returns the server as an extender of a profile.
func extenderSpec(ext *extenderServer, verbs v1alpha1.ExtenderVerbs, edits ...func(*v1alpha1.Extender)) v1alpha1.Extender {
	e := v1alpha1.Extender{
		Name: "rack", URL: "https://rack.example:" + ext.URL[strings.LastIndex(ext.URL, ":")+1:] + "/v1", Verbs: verbs, NodeCacheCapable: true,
		TLS: v1alpha1.ExtenderTLS{CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ext.Certificate().Raw}), ServerName: "example.com"},
	}
	for _, edit := range edits {
		edit(&e)
	}
	return e
}

var (
	filterVerb     = v1alpha1.ExtenderVerbs{Filter: "filter"}
	bindVerb       = v1alpha1.ExtenderVerbs{Bind: "bind"}
	preemptVerb    = v1alpha1.ExtenderVerbs{Preempt: "preempt"}
	ignoreFailures = func(e *v1alpha1.Extender) { e.FailurePolicy = v1alpha1.FailurePolicyIgnore }
)

// requestRack adds the resource that the extender manages, with a limit since the API
// server requires one.
func requestRack(pod *fixture.PodBuilder) *fixture.PodBuilder {
	return pod.Requests("example.com/rack", "1").Mutate(func(pod *v1.Pod) {
		pod.Spec.Containers[0].Resources.Limits = fixture.Resources("example.com/rack", "1")
	})
}

// Answers of extenders. Each keeps names and UIDs instead of the objects, which the spec
// reads again meanwhile.

// onlyNodes lets these nodes pass.
func onlyNodes(nodes ...*v1.Node) func(string) (bool, string, bool) {
	let := sets.New[string]()
	for _, n := range nodes {
		let.Insert(n.Name)
	}
	return func(name string) (bool, string, bool) { return let.Has(name), "the rack is locked", true }
}

// preferNode gives one node the highest score and others this one.
func preferNode(favourite *v1.Node, others int64) func(string) int64 {
	best := favourite.Name
	return func(name string) int64 {
		if name == best {
			return extenderv1.MaxExtenderPriority
		}
		return others
	}
}

// victimOnNode answers that this pod is the only victim on this node.
func victimOnNode(node *v1.Node, of *v1.Pod) func(extenderv1.ExtenderPreemptionArgs) map[string]*extenderv1.MetaVictims {
	name, victim := node.Name, &extenderv1.MetaPod{UID: string(of.UID)}
	return func(extenderv1.ExtenderPreemptionArgs) map[string]*extenderv1.MetaVictims {
		return map[string]*extenderv1.MetaVictims{name: {Pods: []*extenderv1.MetaPod{victim}}}
	}
}

// bindAsExtender binds with the administrator's client.
func bindAsExtender(ctx context.Context) func(extenderv1.ExtenderBindingArgs) string {
	return func(args extenderv1.ExtenderBindingArgs) string {
		err := admin.SubResource("binding").Create(ctx, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: args.PodNamespace, Name: args.PodName}},
			&v1.Binding{ObjectMeta: metav1.ObjectMeta{UID: args.PodUID}, Target: v1.ObjectReference{Kind: "Node", Name: args.Node}})
		if err != nil {
			return err.Error()
		}
		return ""
	}
}
