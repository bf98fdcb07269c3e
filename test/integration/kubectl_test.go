package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/try"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

// buildKubectlPlugin builds bin/kubectl-berth, which is in the PATH of the commands that
// specs run.
func buildKubectlPlugin(ctx SpecContext) {
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", "bin/", "./cmd/kubectl-berth")
	build.Dir, build.Stdout, build.Stderr = moduleRoot(), GinkgoWriter, GinkgoWriter
	Expect(build.Run()).To(Succeed())
}

var _ = Describe("The kubectl plugin", Ordered, func() {
	BeforeAll(buildKubectlPlugin, NodeTimeout(10*time.Minute))

	It("prints what docs/kubectl.md shows", SpecTimeout(4*time.Minute), func(ctx SpecContext) {
		for name, cpu := range map[string]string{"a-1": "4", "a-2": "8", "a-3": "16"} {
			createNode(ctx, fixture.Node(name).Capacity("cpu", cpu, "pods", "110"))
		}
		// Among nodes with the same reason the output names the first. A new manager has
		// the nodes in the order of their names and starts at the first.
		stopManager()
		berth = startManager(ctx)
		DeferCleanup(func(ctx SpecContext) {
			_, _ = kubectl(ctx, "delete", "sprof,plugcfg,deployment", "-n", "default", "--all", "--ignore-not-found")
			Expect(admin.DeleteAllOf(ctx, &v1.Pod{}, client.InNamespace("default"), client.GracePeriodSeconds(0))).To(Succeed())
		})
		deleteRevisions(ctx, "batch")
		checkPage(ctx, "kubectl.md")
	})

	It("prints what docs/tour/README.md shows, in ten commands", SpecTimeout(4*time.Minute), func(ctx SpecContext) {
		for name, cpu := range map[string]string{"a-1": "4", "a-2": "8", "a-3": "16"} {
			createNode(ctx, fixture.Node(name).Capacity("cpu", cpu, "pods", "110"))
		}
		DeferCleanup(func(ctx SpecContext) {
			Expect(kubectl(ctx, "delete", "sprof/tour", "--ignore-not-found")).Error().NotTo(HaveOccurred())
			Expect(admin.DeleteAllOf(ctx, &v1.Pod{}, client.InNamespace("default"), client.GracePeriodSeconds(0))).To(Succeed())
		})
		deleteRevisions(ctx, "tour")
		record := &recording{}
		Expect(strings.Count(checkRecordedSession(ctx, "docs/tour/README.md", normalizeTimes, record), "\n$ ")).To(Equal(10))
		if *recordTour != "" {
			Expect(record.write(*recordTour, "The tour of Berth")).To(Succeed())
		}
	})

	It("finds offline what the conditions say", minute, func(ctx SpecContext) {
		p := createProfile(ctx, enableScore("NodeResourceFit"), referFitConfig("nowhere"))
		Eventually(currentConditions(ctx, p)).Should(ContainElements("Accepted False UnknownPlugin", "ResolvedRefs False PluginConfigNotFound"))
		written := shell(ctx, "kubectl get sprof "+p.Name+" -o yaml | kubectl berth lint -f - 2>/dev/null || true")
		Expect(written).To(ContainSubstring("Accepted=False (UnknownPlugin):"))
		Expect(written).To(ContainSubstring("ResolvedRefs=False (PluginConfigNotFound):"))
		for line := range strings.Lines(written) {
			if fault, ok := strings.CutPrefix(line, "  "); ok {
				messages := conditionMessage(p, v1alpha1.ConditionAccepted) + conditionMessage(p, v1alpha1.ConditionResolvedRefs)
				Expect(messages).To(ContainSubstring(strings.TrimSpace(fault)))
			}
		}
	})

	It("warns about a profile whose name another scheduler serves", minute, func(ctx SpecContext) {
		env := newTestEnv(ctx)
		createNode(ctx, env.node("n"))
		pod := apitest.Created(ctx, admin, fixture.Pod(env.namespace+"/web").SchedulerName(env.namespace).Valid())
		file := filepath.Join(GinkgoT().TempDir(), "profile.yaml")
		Expect(os.WriteFile(file, []byte("{apiVersion: berth.dev/v1alpha1, kind: SchedulingProfile, metadata: {name: "+env.namespace+"}}\n"), 0o600)).To(Succeed())
		lint := "kubectl berth lint --warnings-as-errors -f " + file + " || echo exit code $?"
		Expect(shell(ctx, lint)).To(Equal(file + ": SchedulingProfile/" + env.namespace + " is valid\n"))
		binding := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, Target: v1.ObjectReference{Kind: "Node", Name: env.namespace + "-n"}}
		Expect(admin.SubResource("binding").Create(ctx, pod, binding)).To(Succeed())
		printed := strings.Join(strings.Fields(shell(ctx, lint)), " ")
		Expect(printed).To(ContainSubstring("another scheduler binds pods with spec.schedulerName " + env.namespace + ": 1 bound pod without Berth's annotation berth.dev/decision"))
		Expect(printed).To(HaveSuffix("exit code 1"))
		Expect(shell(ctx, strings.Replace(lint, "lint", "lint --offline", 1))).To(Equal(file + ": SchedulingProfile/" + env.namespace + " is valid\n"))
	})

	It("explains the pods of a Deployment, pending ones by their reason", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		createNode(ctx, env.node("n").Capacity("cpu", "1", "pods", "10"))
		deployment, set := createDeployment(ctx, env.namespace, p.Name)
		for name, cpu := range map[string]string{"fits": "1", "large-1": "2", "large-2": "3"} {
			pod := env.pod(p, name).Requests("cpu", cpu).Valid()
			pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
			pod.Spec.TerminationGracePeriodSeconds = new(int64(0))
			apitest.Created(ctx, admin, pod)
		}
		for name, status := range map[string]string{"fits": "True", "large-1": "False", "large-2": "False"} {
			Expect(kubectl(ctx, "wait", "-n", env.namespace, "--for=condition=PodScheduled="+status, "pod/"+name)).Error().NotTo(HaveOccurred())
		}
		output := shell(ctx, "kubectl berth explain deploy/"+deployment.Name+" -n "+env.namespace)
		Expect(output).To(HavePrefix("Deployment " + env.namespace + "/shop: 3 pods of 3 desired, 1 bound, 2 pending\n"))
		Expect(output).To(ContainSubstring("\n2 pods pending for the same reason, the oldest for "))
		Expect(output).To(ContainSubstring("Insufficient cpu"))
		one := shell(ctx, "kubectl berth explain rs/"+set.Name+" -n "+env.namespace+" -o json")
		Expect(one).To(And(ContainSubstring(`"bound": 1`), ContainSubstring(`"reason": "Unschedulable"`)))
		Expect(shell(ctx, "kubectl berth explain deploy/none -n "+env.namespace+" || echo exit code $?")).To(HaveSuffix("use -n for another namespace\nexit code 2\n"))
	})

	It("works with the permission to get pods only", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		createNode(ctx, env.node("n"))
		pod := createPod(ctx, env.pod(p, "web"))
		admin.ExpectBound(ctx, pod)
		for _, line := range []string{
			"create role tenant -n " + env.namespace + " --verb=get --resource=pods",
			"create rolebinding tenant -n " + env.namespace + " --role=tenant --user=tenant",
		} {
			Expect(kubectl(ctx, strings.Fields(line)...)).Error().NotTo(HaveOccurred())
		}
		expectAllowed(ctx, "tenant", env.namespace, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}})
		output := shell(ctx, filepath.Join("bin", "kubectl-berth")+" explain pod/web --as=tenant -n "+env.namespace)
		Expect(output).To(ContainSubstring("Profile    " + p.Name))
		Expect(output).To(ContainSubstring("Cannot read the SchedulingProfiles"))
		checked := shell(ctx, "kubectl berth check --as=tenant -n "+env.namespace+" || echo exit code $?")
		Expect(checked).To(MatchRegexp(`explain: you may not get schedulingdecisions\.berth\.dev`))
		Expect(checked).To(MatchRegexp(`(?m)^error  leader +Lease berth-system/berth-manager: .* is forbidden`))
		Expect(checked).To(HaveSuffix("could not check crds, leader, profiles, pods: see the lines that begin with error\nexit code 2\n"))
	})
})

// createDeployment creates a Deployment of three pods and its ReplicaSet. No controller
// creates the pods.
func createDeployment(ctx SpecContext, namespace, profile string) (*appsv1.Deployment, *appsv1.ReplicaSet) {
	GinkgoHelper()
	labels, three := map[string]string{"app": "shop"}, int32(3)
	template := v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: v1.PodSpec{
		SchedulerName: profile, Containers: []v1.Container{{Name: "web", Image: "web"}},
	}}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"}, Spec: appsv1.DeploymentSpec{
		Replicas: &three, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
	}}
	Expect(admin.Create(ctx, deployment)).To(Succeed())
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop-1", OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment")),
	}}, Spec: appsv1.ReplicaSetSpec{Replicas: &three, Selector: deployment.Spec.Selector, Template: template}}
	Expect(admin.Create(ctx, set)).To(Succeed())
	return deployment, set
}

const (
	rollbackConfig = `
apiVersion: berth.dev/v1alpha1
kind: PluginConfig
metadata: {name: NAME}
spec:
  plugin: NodeResourcesFit
  args: {scoringStrategy: {type: TYPE, resources: [{name: cpu, weight: 1}]}}
---`
	rollbackProfile = `
apiVersion: berth.dev/v1alpha1
kind: SchedulingProfile
metadata: {name: NAME}
spec:
  plugins: {score: {enabled: [{name: NodeResourcesFit, weight: WEIGHT}]}}
  pluginConfig: [{name: NodeResourcesFit, configRef: {name: NAME}}]
---`
)

var _ = Describe("kubectl berth rollback", func() {
	BeforeEach(buildKubectlPlugin, NodeTimeout(10*time.Minute))

	for order, text := range map[string]string{
		"the PluginConfig first": rollbackConfig + rollbackProfile,
		"the profile first":      rollbackProfile + rollbackConfig,
	} {
		It("restores what ran before a profile and its PluginConfig were applied together, "+order, minutes, func(ctx SpecContext) {
			name := "undo-" + strings.ToLower(strings.Fields(order)[1])
			p := &v1alpha1.SchedulingProfile{}
			p.Name = name
			DeferCleanup(func(ctx SpecContext) {
				Expect(kubectl(ctx, "delete", "sprof/"+name, "plugcfg/"+name, "--ignore-not-found")).Error().NotTo(HaveOccurred())
			})
			file := filepath.Join(GinkgoT().TempDir(), "both.yaml")
			apply := func(kind, weight string) {
				GinkgoHelper()
				manifest := strings.NewReplacer("NAME", name, "TYPE", kind, "WEIGHT", weight).Replace(text)
				Expect(os.WriteFile(file, []byte(manifest), 0o600)).To(Succeed())
				Expect(kubectl(ctx, "apply", "-f", file)).Error().NotTo(HaveOccurred())
				Expect(kubectl(ctx, "wait", "--for=condition=Ready", "sprof/"+name)).Error().NotTo(HaveOccurred())
				Expect(kubectl(ctx, "wait", "--for=condition=Programmed", "plugcfg/"+name)).Error().NotTo(HaveOccurred())
				Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
			}
			countRevisions := func() int {
				GinkgoHelper()
				revisions := &appsv1.ControllerRevisionList{}
				Expect(admin.List(ctx, revisions, client.MatchingLabels{v1alpha1.LabelProfile: name})).To(Succeed())
				return len(revisions.Items)
			}
			apply("MostAllocated", "1")

			// On a machine that stalls, the second object may come too late to be one change with the first.
			const attempts = 4
			var before v1alpha1.ProgrammedProfile
			for i, added := 0, 0; added != 1; i++ {
				Expect(i).To(BeNumerically("<", attempts), "a profile and a PluginConfig that are applied together are one revision")
				before = *p.Status.Programmed
				Eventually(func(g Gomega) map[string]string { return getRevision(ctx, g, before.Revision).Annotations }).
					ShouldNot(HaveKey(v1alpha1.AnnotationProbation))
				earlier := countRevisions()
				apply([]string{"LeastAllocated", "MostAllocated"}[i%2], strconv.Itoa(2+i))
				added = countRevisions() - earlier
			}

			printed := shell(ctx, "kubectl berth rollback "+name)
			Expect(printed).To(ContainSubstring(before.Revision))
			expectReady(ctx, p)
			Expect(p.Status.Programmed.Hash).To(Equal(before.Hash), printed)

			By("undoing what other clients wrote, and nothing but the spec")
			Expect(kubectl(ctx, "label", "sprof/"+name, "owner=ml")).Error().NotTo(HaveOccurred())
			Expect(kubectl(ctx, "patch", "sprof/"+name, "--type=merge", "-p", `{"spec":{"allowedNamespaces":{"from":"Selector","selector":{"matchLabels":{"team":"a"}}}}}`)).Error().NotTo(HaveOccurred())
			printed = shell(ctx, "kubectl berth rollback "+name+" --to "+before.Revision)
			expectReady(ctx, p)
			Expect(p.Status.Programmed.Hash).To(Equal(before.Hash), printed)
			Expect(p.Spec.AllowedNamespaces.Selector).To(BeNil(), printed)
			Expect(p.Labels).To(HaveKeyWithValue("owner", "ml"))
		})
	}
})

var _ = Describe("kubectl berth try", func() {
	It("predicts the node of the next pod, and writes nothing, with the permissions that its help names", SpecTimeout(3*time.Minute), func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx, neverFlush)
		expectReady(ctx, p)
		for i, zone := range []string{"a", "a", "b", "b", "c"} {
			node := env.node(fmt.Sprint("n", i)).Zone(zone).Label(v1.LabelHostname, fmt.Sprint(env.namespace, "-n", i)).Capacity("cpu", fmt.Sprint(2+i), "memory", fmt.Sprint(4+3*i, "Gi"))
			if i == 3 {
				node = node.Taint("dedicated", "batch", v1.TaintEffectNoSchedule).Label("disk", "ssd")
			}
			createNode(ctx, node)
		}
		account := accountWithPermissions(ctx, env, try.Verb.Permissions)

		certain, nowhere := 0, 0
		for _, pod := range podsOfManyKinds(env, p) {
			By(pod.Obj().Name)
			answer, notes := runTry(ctx, account, pod.Valid())
			Expect(notes).To(BeEmpty(), "the permissions suffice")
			_, err := kubectl(ctx, "get", "pod", "-n", env.namespace, pod.Obj().Name)
			Expect(err).To(MatchError(ContainSubstring("NotFound")), "nothing was written")

			real := createPod(ctx, pod)
			if answer.Node == "" {
				Eventually(admin.PodScheduled(ctx, real)).Should(Equal("False Unschedulable: " + answer.Message))
				admin.Remove(ctx, real)
				Eventually(queueCounts(p)).Should(HaveField("Unschedulable", 0))
				nowhere++
				continue
			}
			admin.ExpectBound(ctx, real)
			if len(answer.OneOf) == 0 {
				Expect(real.Spec.NodeName).To(Equal(answer.Node))
				certain++
			} else {
				Expect(answer.OneOf).To(ContainElement(real.Spec.NodeName))
			}
		}
		Expect(certain).To(BeNumerically(">=", 15), "an answer that names all nodes does not count")
		Expect(nowhere).To(BeNumerically(">=", 2))
	})

	It("names all nodes with the highest score, and no others", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx, neverFlush)
		expectReady(ctx, p)
		createNode(ctx, env.node("small").Capacity("cpu", "2"))
		alike := []string{createNode(ctx, env.node("a").Capacity("cpu", "8")).Name, createNode(ctx, env.node("b").Capacity("cpu", "8")).Name}
		for i := range 3 {
			pod := env.pod(p, fmt.Sprint("pod", i)).Requests("cpu", "1")
			answer, _ := runTry(ctx, cp.Kubeconfig(), pod.Valid())
			Expect(answer.OneOf).To(Equal(alike))
			real := createPod(ctx, pod)
			admin.ExpectBound(ctx, real)
			Expect(alike).To(ContainElement(real.Spec.NodeName))
			admin.Remove(ctx, real)
			Eventually(berth.Scheduler().Components().Cache.IsAssigned).WithArguments(real.UID).Should(BeFalse())
		}
	})
})

// podsOfManyKinds returns twenty pods with different requirements.
func podsOfManyKinds(env testEnv, p *v1alpha1.SchedulingProfile) []*fixture.PodBuilder {
	pod := func(name, cpu string) *fixture.PodBuilder {
		return env.pod(p, name).Label("app", name).Requests("cpu", cpu, "memory", "100Mi")
	}
	host, zone := v1.LabelHostname, v1.LabelTopologyZone
	dedicated := fixture.NodeSelectorTerm(fixture.In("disk", "ssd"))
	return []*fixture.PodBuilder{
		env.pod(p, "besteffort"),
		pod("small", "100m"),
		pod("large", "3"),
		pod("huge", "64"),
		pod("tolerant", "1").Tolerate("dedicated", "batch", v1.TaintEffectNoSchedule),
		pod("affine", "100m").Tolerate("dedicated", "batch", v1.TaintEffectNoSchedule).RequireNodeAffinity(dedicated),
		pod("intolerant", "100m").RequireNodeAffinity(dedicated),
		pod("prefers", "100m").PreferNodeAffinity(100, fixture.NodeSelectorTerm(fixture.In(zone, "b"))),
		pod("selected", "200m").NodeSelector(zone, "c"),
		pod("with-selected", "100m").RequirePodAffinity(fixture.PodAffinityTerm(zone, "app", "selected")),
		pod("alone", "100m").RequirePodAntiAffinity(fixture.PodAffinityTerm(host, "app", "large")),
		pod("away-from-alone", "100m").PreferPodAntiAffinity(100, fixture.PodAffinityTerm(zone, "app", "alone")),
		pod("near-small", "100m").PreferPodAffinity(100, fixture.PodAffinityTerm(zone, "app", "small")),
		pod("spread", "100m").Spread(fixture.HardSpreadConstraint(zone, "app", "spread")),
		pod("soft-spread", "100m").Spread(fixture.SoftSpreadConstraint(host, "app", "selected")),
		pod("port", "100m").HostPort("", v1.ProtocolTCP, 8080),
		pod("again", "100m").Label("app", "port").HostPort("", v1.ProtocolTCP, 8080),
		pod("named", "100m").RequireNodeAffinity(fixture.NodeNameTerm(env.namespace + "-n1")),
		pod("init", "100m").InitRequests("cpu", "2"),
		pod("memory", "100m").Requests("cpu", "100m", "memory", "6Gi"),
	}
}

// accountWithPermissions creates an account that has these permissions in all namespaces,
// and returns its kubeconfig once the API server grants them.
func accountWithPermissions(ctx context.Context, env testEnv, rights []verb.Permission) string {
	GinkgoHelper()
	var rules []rbacv1.PolicyRule
	for _, r := range rights {
		rules = append(rules, rbacv1.PolicyRule{Verbs: r.Verbs, APIGroups: []string{r.Group}, Resources: []string{r.Resource}})
	}
	account := apitest.Created(ctx, admin, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: "user"}})
	role := apitest.Created(ctx, admin, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: env.namespace + "-user"}, Rules: rules})
	apitest.Created(ctx, admin, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: env.namespace + "-user"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	})
	expectAllowed(ctx, accountUser(account), "", rules...)
	kubeconfig, err := cp.ServiceAccountKubeconfig(ctx, account.Namespace, account.Name)
	Expect(err).NotTo(HaveOccurred())
	return kubeconfig
}

// runTry runs `kubectl berth try` on a pod that does not exist, and returns the result for
// it and the notes.
func runTry(ctx context.Context, kubeconfig string, pod *v1.Pod) (try.Pod, []string) {
	GinkgoHelper()
	flags := cluster.NewFlags()
	flags.AddFlags(pflag.NewFlagSet("kubectl-berth", pflag.ContinueOnError))
	*flags.KubeConfig, *flags.Namespace = kubeconfig, pod.Namespace
	pod.SetGroupVersionKind(v1.SchemeGroupVersion.WithKind("Pod"))
	text, err := json.Marshal(pod)
	Expect(err).NotTo(HaveOccurred())
	var out bytes.Buffer
	cmd := try.New(verb.Env{
		IOStreams: genericiooptions.IOStreams{In: bytes.NewReader(text), Out: &out, ErrOut: GinkgoWriter},
		Open:      flags.Open, Now: time.Now,
	})
	cmd.SetArgs([]string{"-f", "-", "-o", "json"})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	Expect(verb.ExitCode(cmd.ExecuteContext(ctx))).To(BeNumerically("<", verb.ExitError))
	var answer try.Result
	Expect(json.Unmarshal(out.Bytes(), &answer)).To(Succeed())
	Expect(answer.Pods).To(HaveLen(1))
	return answer.Pods[0], answer.Notes
}
