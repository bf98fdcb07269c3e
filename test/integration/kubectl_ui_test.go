package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/ui"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
	"github.com/berthdev/berth/test/support/apitest"
)

var _ = Describe("kubectl berth ui", func() {
	It("streams profiles, nodes and why pods wait, as they change, with the permissions that its help names", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		node := createNode(ctx, env.node("n").Capacity("cpu", "4", "pods", "10"))
		large := createPod(ctx, env.pod(p, "large").Requests("cpu", "8"))
		expectReason(ctx, "Unschedulable", large)
		page := openPage(ctx, accountWithPermissions(ctx, env, ui.Verb.Permissions), env.namespace)
		Eventually(page.record("profiles", p.Name)).Should(HaveKeyWithValue("ready", "True"))
		Eventually(page.record("nodes", node.Name)).Should(HaveKeyWithValue("cpu", BeEquivalentTo(4000)))
		Eventually(page.record("decisions", env.namespace+"/large")).Should(HaveKeyWithValue("blockedBy", HavePrefix("NodeResourcesFit")))
		Expect(page.notes()).To(BeEmpty())

		small := createPod(ctx, env.pod(p, "small").Requests("cpu", "1"))
		admin.ExpectBound(ctx, small)
		Eventually(page.record("pods", env.namespace+"/small")).Should(HaveKeyWithValue("node", node.Name))
		Expect(admin.Delete(ctx, large)).To(Succeed())
		Eventually(page.record("pods", env.namespace+"/large")).Should(BeNil())
		Eventually(page.record("decisions", env.namespace+"/large")).Should(BeNil())

		explained := page.get(ctx, "/api/pods/"+env.namespace+"/small")
		Expect(explained["text"]).To(ContainSubstring("bound to node " + node.Name))
		Expect(page.get(ctx, "/api/profiles/"+p.Name+"/revisions")["running"]).NotTo(BeEmpty())
	})

	It("shows a tenant the pods of one namespace, and says what may not be listed", minute, func(ctx SpecContext) {
		env, other, p := newTestEnv(ctx), newTestEnv(ctx), createProfile(ctx)
		createNode(ctx, env.node("n").Capacity("cpu", "4", "pods", "10"))
		own := createPod(ctx, env.pod(p, "own").Requests("cpu", "8000"))
		foreign := createPod(ctx, other.pod(p, "foreign").Requests("cpu", "8000"))
		expectReason(ctx, "Unschedulable", own, foreign)
		page := openPage(ctx, tenant(ctx, env), env.namespace)
		Eventually(page.record("decisions", env.namespace+"/own")).Should(HaveKeyWithValue("result", "Unschedulable"))
		Eventually(page.notes).Should(ContainElements(
			"You may not list schedulingprofiles.berth.dev: no profile is shown.",
			"You may not list nodes: the map is empty.",
			"You may not list pods in all namespaces: those of namespace "+env.namespace+" are shown.",
			"You may not list schedulingdecisions.berth.dev in all namespaces: those of namespace "+env.namespace+" are shown.",
		))
		late := createPod(ctx, env.pod(p, "late").Requests("cpu", "8000"))
		expectReason(ctx, "Unschedulable", late)
		Eventually(page.record("pods", env.namespace+"/late")).Should(HaveKeyWithValue("reason", "Unschedulable"))
		for _, kind := range []string{"pods", "decisions"} {
			Expect(page.keys(kind)).To(HaveEach(HavePrefix(env.namespace + "/")))
		}
		Expect(page.get(ctx, "/api/pods/"+other.namespace+"/foreign")["error"]).To(ContainSubstring("is forbidden"))
	})
})

// tenant creates an account that may read pods, their events and SchedulingDecisions in the
// namespace of env only, and returns its kubeconfig.
func tenant(ctx context.Context, env testEnv) string {
	GinkgoHelper()
	read, metadata := []string{"get", "list", "watch"}, metav1.ObjectMeta{Namespace: env.namespace, Name: "tenant"}
	account := apitest.Created(ctx, admin, &v1.ServiceAccount{ObjectMeta: metadata})
	role := apitest.Created(ctx, admin, &rbacv1.Role{ObjectMeta: metadata, Rules: []rbacv1.PolicyRule{
		{Verbs: read, APIGroups: []string{""}, Resources: []string{"pods", "events"}},
		{Verbs: read, APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"schedulingdecisions"}},
	}})
	apitest.Created(ctx, admin, &rbacv1.RoleBinding{
		ObjectMeta: metadata, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tenant"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	})
	expectAllowed(ctx, accountUser(account), env.namespace, role.Rules...)
	kubeconfig, err := cp.ServiceAccountKubeconfig(ctx, account.Namespace, account.Name)
	Expect(err).NotTo(HaveOccurred())
	return kubeconfig
}

// uiPage is a page of `kubectl berth ui` that reads the stream.
type uiPage struct {
	origin, token string

	mu      sync.Mutex // guards the fields below
	records map[string]map[string]map[string]any
	noted   []string
}

// openPage runs the verb until the spec ends, and returns a page that has the snapshot.
func openPage(ctx context.Context, kubeconfig, namespace string) *uiPage {
	GinkgoHelper()
	flags := cluster.NewFlags()
	flags.AddFlags(pflag.NewFlagSet("kubectl-berth", pflag.ContinueOnError))
	*flags.KubeConfig, *flags.Namespace = kubeconfig, namespace
	out, ended := gbytes.NewBuffer(), make(chan error, 1)
	cmd := ui.New(verb.Env{IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: GinkgoWriter}, Open: flags.Open, Now: time.Now})
	cmd.SetArgs([]string{})
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() { ended <- cmd.ExecuteContext(running) }()
	DeferCleanup(func() {
		stop()
		Eventually(ended).Should(Receive(BeNil()))
	})
	Eventually(out).Should(gbytes.Say("Ctrl-C"))
	url, _, _ := strings.Cut(strings.TrimPrefix(string(out.Contents()), "Berth's page is at "), "\n")
	page := &uiPage{records: map[string]map[string]map[string]any{}}
	page.origin, page.token, _ = strings.Cut(url, "/#token=")
	stream := page.request(running, "/api/stream")
	synced := make(chan struct{})
	go page.read(bufio.NewReader(stream.Body), synced)
	DeferCleanup(stream.Body.Close)
	Eventually(synced).Should(BeClosed())
	return page
}

func (page *uiPage) request(ctx context.Context, path string) *http.Response {
	GinkgoHelper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, page.origin+path, nil)
	Expect(err).NotTo(HaveOccurred())
	r.Header.Set("X-Berth-Token", page.token)
	response, err := http.DefaultClient.Do(r)
	Expect(err).NotTo(HaveOccurred())
	return response
}

// get returns the JSON of a response.
func (page *uiPage) get(ctx context.Context, path string) (answer map[string]any) {
	GinkgoHelper()
	response := page.request(ctx, path)
	defer func() { _ = response.Body.Close() }()
	Expect(json.NewDecoder(response.Body).Decode(&answer)).To(Succeed())
	return answer
}

// read reads the stream until it ends. It closes synced after the snapshot.
func (page *uiPage) read(lines *bufio.Reader, synced chan<- struct{}) {
	defer GinkgoRecover()
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return // the spec has ended
		}
		var message struct {
			Type                             string
			Profiles, Nodes, Pods, Decisions []map[string]any
			Gone                             map[string][]string
			Notes                            []string
		}
		Expect(json.Unmarshal(line, &message)).To(Succeed())
		page.mu.Lock()
		for kind, records := range map[string][]map[string]any{"profiles": message.Profiles, "nodes": message.Nodes, "pods": message.Pods, "decisions": message.Decisions} {
			if page.records[kind] == nil {
				page.records[kind] = map[string]map[string]any{}
			}
			for _, record := range records {
				key, named := record["name"].(string)
				if !named {
					key = record["key"].(string)
				}
				page.records[kind][key] = record
			}
			for _, key := range message.Gone[kind] {
				delete(page.records[kind], key)
			}
		}
		if message.Type == "synced" || message.Type == "notes" {
			page.noted = message.Notes
		}
		page.mu.Unlock()
		if message.Type == "synced" {
			close(synced)
		}
	}
}

// record returns a function that returns the newest record of a key, nil for none.
func (page *uiPage) record(kind, key string) func() map[string]any {
	return func() map[string]any {
		page.mu.Lock()
		defer page.mu.Unlock()
		return page.records[kind][key]
	}
}

func (page *uiPage) keys(kind string) (keys []string) {
	page.mu.Lock()
	defer page.mu.Unlock()
	for key := range page.records[kind] {
		keys = append(keys, key)
	}
	return keys
}

// notes returns what the page says is missing.
func (page *uiPage) notes() []string {
	page.mu.Lock()
	defer page.mu.Unlock()
	return page.noted
}
