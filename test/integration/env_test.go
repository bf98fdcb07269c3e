package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/audit"
	"github.com/berthdev/berth/test/support/fixture"
)

// createProfile creates a profile with a generated name.
func createProfile(ctx context.Context, edits ...func(*v1alpha1.SchedulingProfileSpec)) *v1alpha1.SchedulingProfile {
	GinkgoHelper()
	p := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{GenerateName: "batch-"}}
	for _, edit := range edits {
		edit(&p.Spec)
	}
	return apitest.Created(ctx, admin, p)
}

// createPluginConfig creates arguments for NodeResourcesFit with a generated name.
func createPluginConfig(ctx context.Context, args any) *v1alpha1.PluginConfig {
	GinkgoHelper()
	return apitest.Created(ctx, admin, fitConfig(metav1.ObjectMeta{GenerateName: "binpack-"}, args))
}

func fitConfig(metadata metav1.ObjectMeta, args any) *v1alpha1.PluginConfig {
	return &v1alpha1.PluginConfig{
		ObjectMeta: metadata,
		Spec:       v1alpha1.PluginConfigSpec{Plugin: "NodeResourcesFit", Args: rawJSON(args)},
	}
}

// scoringStrategy returns NodeResourcesFit's arguments with a type of scoring strategy.
func scoringStrategy(kind string) any {
	return map[string]any{"scoringStrategy": map[string]any{
		"type": kind, "resources": []any{map[string]any{"name": "cpu", "weight": 1}},
	}}
}

func rawJSON(value any) runtime.RawExtension {
	GinkgoHelper()
	text, err := json.Marshal(value)
	Expect(err).NotTo(HaveOccurred())
	return runtime.RawExtension{Raw: text}
}

// editProfile changes a spec as `kubectl edit` does, and does not wait for the result.
func editProfile(ctx context.Context, p *v1alpha1.SchedulingProfile, change func(*v1alpha1.SchedulingProfileSpec)) {
	GinkgoHelper()
	apitest.Change(ctx, admin, p, func(p *v1alpha1.SchedulingProfile) { change(&p.Spec) })
}

func editPluginConfig(ctx context.Context, c *v1alpha1.PluginConfig, args any) {
	GinkgoHelper()
	apitest.Change(ctx, admin, c, func(c *v1alpha1.PluginConfig) { c.Spec.Args = rawJSON(args) })
}

// Edits of a profile's spec.

func enableScore(plugin string) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		s.Plugins = &v1alpha1.Plugins{Score: enablePlugin(plugin)}
	}
}

func enablePostBind(plugin string) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		s.Plugins = &v1alpha1.Plugins{PostBind: enablePlugin(plugin)}
	}
}

func enablePlugin(plugin string) v1alpha1.PluginSet {
	return v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: plugin}}}
}

func resetPlugins(s *v1alpha1.SchedulingProfileSpec) { s.Plugins = nil }

func setState(state v1alpha1.ProfileState) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) { s.State = state }
}

func referFitConfig(config string) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		s.PluginConfig = []v1alpha1.PluginArguments{{
			Name: "NodeResourcesFit", ConfigRef: &v1alpha1.PluginConfigReference{Name: config},
		}}
	}
}

func publishEvery(seconds int32) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) { s.Decisions.PublishSeconds = &seconds }
}

// currentConditions reads an object and returns its conditions as "type status reason". It
// fails while one has an older observedGeneration.
func currentConditions(ctx context.Context, object client.Object) func(g Gomega) []string {
	return func(g Gomega) []string {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
		var out []string
		for _, c := range conditions(object) {
			g.Expect(c.ObservedGeneration).To(Equal(object.GetGeneration()), c.Type)
			out = append(out, fmt.Sprint(c.Type, " ", c.Status, " ", c.Reason))
		}
		return out
	}
}

func conditions(object client.Object) []metav1.Condition {
	switch object := object.(type) {
	case *v1alpha1.SchedulingProfile:
		return object.Status.Conditions
	case *v1alpha1.PluginConfig:
		return object.Status.Conditions
	}
	return nil
}

// conditionMessage returns the message of a condition, as the object was read last.
func conditionMessage(object client.Object, condition v1alpha1.ConditionType) string {
	if c := meta.FindStatusCondition(conditions(object), string(condition)); c != nil {
		return c.Message
	}
	return ""
}

// readyConditions are the conditions of a profile that runs as specified.
var readyConditions = []string{"Accepted True Accepted", "ResolvedRefs True ResolvedRefs", "Programmed True Programmed", "Ready True Ready"}

func expectReady(ctx context.Context, p *v1alpha1.SchedulingProfile) {
	GinkgoHelper()
	Eventually(currentConditions(ctx, p)).Should(ConsistOf(readyConditions))
}

// managerTimeout is the timeout of what starts and ends managers beside specs, or reads what all specs
// have left.
const managerTimeout = NodeTimeout(2 * time.Minute)

// minute is the timeout of a spec.
const minute = SpecTimeout(time.Minute)

// Helpers for pods and nodes. No kubelet runs: a bound pod stays Pending.

// testEnv is a namespace, and the nodes that have its name as prefix. Each spec has its
// own, so that specs do not share objects.
type testEnv struct{ namespace string }

// newTestEnv creates the namespace. It is not deleted: no controller runs that could empty
// it.
func newTestEnv(ctx context.Context) testEnv {
	GinkgoHelper()
	ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	Expect(admin.Create(ctx, ns)).To(Succeed())
	return testEnv{ns.Name}
}

// node starts a node of the environment that has room for 110 pods and no other resources.
func (env testEnv) node(name string) *fixture.NodeBuilder {
	return fixture.Node(env.namespace + "-" + name)
}

// pod starts a pod of the environment that names the profile and requests nothing.
func (env testEnv) pod(p *v1alpha1.SchedulingProfile, name string) *fixture.PodBuilder {
	return fixture.Pod(env.namespace + "/" + name).SchedulerName(p.Name)
}

// createNode creates a node, status included, until the spec ends. Nodes and pods have
// watches of their own: a pod that is created next could be attempted before the manager
// has the node.
func createNode(ctx context.Context, node *fixture.NodeBuilder) *v1.Node {
	GinkgoHelper()
	created := apitest.Created(ctx, admin, node.Obj())
	expectObserved(created, berth.Informers().Core().V1().Nodes().Lister().Get)
	return created
}

// expectObserved waits until the suite's manager, if it runs, has the object in its
// informer. get is the lister's method.
func expectObserved[T client.Object](object client.Object, get func(name string) (T, error)) {
	GinkgoHelper()
	select {
	case <-berth.Ended:
		return
	default:
	}
	Eventually(func(g Gomega) {
		observed, err := get(object.GetName())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(observed.GetUID()).To(Equal(object.GetUID()))
	}).WithPolling(time.Millisecond).Should(Succeed())
}

// expectAllowed waits until a user has all permissions of the rules: the API server's
// authorizer learns of a new role or binding a little later. namespace is empty for rules
// of ClusterRoles that a ClusterRoleBinding grants.
func expectAllowed(ctx context.Context, user, namespace string, rules ...rbacv1.PolicyRule) {
	GinkgoHelper()
	reviews := cp.Client().AuthorizationV1().SubjectAccessReviews()
	for _, granted := range audit.Expand("", namespace, rules) {
		resource, subresource, _ := strings.Cut(granted.Resource, "/")
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: granted.Verb, Group: granted.Group, Resource: resource, Subresource: subresource, Namespace: granted.Namespace, Name: granted.Name,
		}}}
		Eventually(func(g Gomega) bool {
			answer, err := reviews.Create(ctx, review, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			return answer.Status.Allowed
		}).Should(BeTrue(), "%s may %v", user, granted)
	}
}

// accountUser returns the name of a service account as a user.
func accountUser(account *v1.ServiceAccount) string {
	return "system:serviceaccount:" + account.Namespace + ":" + account.Name
}

// createPod creates a pod until the spec ends.
func createPod(ctx context.Context, builder *fixture.PodBuilder) *v1.Pod {
	GinkgoHelper()
	return apitest.Created(ctx, admin, builder.Valid())
}

// expectReason waits until the condition PodScheduled of each pod is False with a reason.
func expectReason(ctx context.Context, reason string, pods ...*v1.Pod) {
	GinkgoHelper()
	for _, pod := range pods {
		Eventually(admin.PodScheduled(ctx, pod)).Should(HavePrefix("False "+reason), pod.Name)
		Expect(pod.Spec.NodeName).To(BeEmpty())
	}
}

// podEvents returns the Events about a pod: "type reason action by reporter: note".
func podEvents(ctx context.Context, pod *v1.Pod) func(g Gomega) []string {
	return func(g Gomega) []string {
		var list eventsv1.EventList
		g.Expect(admin.List(ctx, &list, client.InNamespace(pod.Namespace))).To(Succeed())
		var out []string
		for _, e := range list.Items {
			if e.Regarding.UID == pod.UID {
				out = append(out, fmt.Sprintf("%s %s %s by %s: %s", e.Type, e.Reason, e.Action, e.ReportingController, e.Note))
			}
		}
		return out
	}
}

// decisionRecord is the content of a bound pod's annotation.
type decisionRecord struct {
	V          int                  `json:"v"`
	Profile    string               `json:"profile"`
	Generation int64                `json:"generation"`
	Hash       string               `json:"hash"`
	Epoch      *int64               `json:"epoch"`
	Node       string               `json:"node"`
	Evaluated  int                  `json:"evaluated"`
	Feasible   int                  `json:"feasible"`
	Attempts   int                  `json:"attempts"`
	Walk       decision.Walk        `json:"walk"`
	Top        []decision.NodeScore `json:"top"`
	Devices    []string             `json:"devices"`
}

// boundRecord waits until a pod is bound and returns its annotation.
func boundRecord(ctx context.Context, pod *v1.Pod) decisionRecord {
	GinkgoHelper()
	admin.ExpectBound(ctx, pod)
	return readRecord(pod)
}

func readRecord(pod *v1.Pod) decisionRecord {
	GinkgoHelper()
	text, ok := pod.Annotations["berth.dev/decision"]
	Expect(ok).To(BeTrue(), "%s has the annotation", pod.Name)
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	var r decisionRecord
	Expect(decoder.Decode(&r)).To(Succeed(), text)
	return r
}

// queueCounts returns how many pods of a profile the scheduler has in each place.
func queueCounts(p *v1alpha1.SchedulingProfile) func() decision.QueueCounts {
	return func() decision.QueueCounts { return berth.Scheduler().QueueCounts(p.Name) }
}

// Edits of a profile's spec.

func setAnnotate(how v1alpha1.Switch) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) { s.Decisions.Annotate = how }
}

func setTopScores(topScores int32) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		s.Decisions.Detail, s.Decisions.TopScores = v1alpha1.DetailNodes, &topScores
	}
}

func setHistory(history int32) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) { s.Decisions.History = &history }
}

// neverFlush lets only events requeue an unschedulable pod.
func neverFlush(s *v1alpha1.SchedulingProfileSpec) { s.Queue.FlushAfterSeconds = new(int32(0)) }

func useScoringStrategy(kind string) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		args := rawJSON(scoringStrategy(kind))
		s.PluginConfig = []v1alpha1.PluginArguments{{Name: "NodeResourcesFit", Args: &args}}
	}
}

// podWatch keeps all versions of the environment's pods, in order. A poll would miss some.
type podWatch struct {
	mu            sync.Mutex
	versionsByUID map[types.UID][]v1.Pod
}

// watchPods watches the pods until the spec ends.
func watchPods(ctx context.Context, env testEnv) *podWatch {
	GinkgoHelper()
	w := &podWatch{versionsByUID: map[types.UID][]v1.Pod{}}
	pods, err := cp.Client().CoreV1().Pods(env.namespace).Watch(context.WithoutCancel(ctx), metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range pods.ResultChan() {
			if pod, ok := event.Object.(*v1.Pod); ok {
				w.mu.Lock()
				w.versionsByUID[pod.UID] = append(w.versionsByUID[pod.UID], *pod)
				w.mu.Unlock()
			}
		}
	}()
	DeferCleanup(func() {
		pods.Stop()
		<-done
	})
	return w
}

// versions returns the versions of one pod so far.
func (w *podWatch) versions(pod *v1.Pod) func() []v1.Pod {
	return func() []v1.Pod {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.versionsByUID[pod.UID][:len(w.versionsByUID[pod.UID]):len(w.versionsByUID[pod.UID])]
	}
}

// conditionChanges returns the values of PodScheduled that a pod has had so far.
func (w *podWatch) conditionChanges(pod *v1.Pod) func() []string {
	return func() []string {
		var out []string
		for _, version := range w.versions(pod)() {
			if now := apitest.PodScheduled(&version); now != "" && (len(out) == 0 || out[len(out)-1] != now) {
				out = append(out, now)
			}
		}
		return out
	}
}

// nodes returns the nodes that a pod has had so far.
func (w *podWatch) nodes(pod *v1.Pod) sets.Set[string] {
	nodes := sets.New[string]()
	for _, version := range w.versions(pod)() {
		nodes.Insert(version.Spec.NodeName)
	}
	return nodes.Delete("")
}
