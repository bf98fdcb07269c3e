package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

// buildPlugin builds bin/kubectl-berth, which is on the PATH of what specs run.
func buildPlugin(ctx SpecContext) {
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", "bin/", "./cmd/kubectl-berth")
	build.Dir, build.Stdout, build.Stderr = moduleRoot(), GinkgoWriter, GinkgoWriter
	Expect(build.Run()).To(Succeed())
}

var _ = Describe("The kubectl plugin", Ordered, func() {
	BeforeAll(buildPlugin, NodeTimeout(10*time.Minute))

	It("prints what docs/kubectl.md shows", SpecTimeout(4*time.Minute), func(ctx SpecContext) {
		for name, cpu := range map[string]string{"a-1": "4", "a-2": "8", "a-3": "16"} {
			aNode(ctx, fixture.Node(name).Capacity("cpu", cpu, "pods", "110"))
		}
		// Of nodes that are refused for one reason the first is named: a new Manager tries
		// those that are there by name, and begins at the first.
		stopManager()
		berth = startManager(ctx)
		DeferCleanup(func(ctx SpecContext) {
			_, _ = kubectl(ctx, "delete", "sprof,plugcfg,deployment", "-n", "default", "--all", "--ignore-not-found")
			Expect(admin.DeleteAllOf(ctx, &v1.Pod{}, client.InNamespace("default"), client.GracePeriodSeconds(0))).To(Succeed())
		})
		forget(ctx, "batch")
		expectPage(ctx, "kubectl.md")
	})

	It("shows Berth in the ten commands of docs/tour/README.md", SpecTimeout(4*time.Minute), func(ctx SpecContext) {
		for name, cpu := range map[string]string{"a-1": "4", "a-2": "8", "a-3": "16"} {
			aNode(ctx, fixture.Node(name).Capacity("cpu", cpu, "pods", "110"))
		}
		DeferCleanup(func(ctx SpecContext) {
			Expect(kubectl(ctx, "delete", "sprof/tour", "--ignore-not-found")).Error().NotTo(HaveOccurred())
			Expect(admin.DeleteAllOf(ctx, &v1.Pod{}, client.InNamespace("default"), client.GracePeriodSeconds(0))).To(Succeed())
		})
		forget(ctx, "tour")
		Expect(strings.Count(expectPlayed(ctx, "docs/tour/README.md", timeless), "\n$ ")).To(Equal(10))
	})

	It("says offline what the conditions say", minute, func(ctx SpecContext) {
		p := aProfile(ctx, scoring("NodeResourceFit"), fitFrom("nowhere"))
		Eventually(now(ctx, p)).Should(ContainElements("Accepted False UnknownPlugin", "ResolvedRefs False PluginConfigNotFound"))
		written := shell(ctx, "kubectl get sprof "+p.Name+" -o yaml | kubectl berth lint -f - 2>/dev/null || true")
		Expect(written).To(ContainSubstring("Accepted=False (UnknownPlugin):"))
		Expect(written).To(ContainSubstring("ResolvedRefs=False (PluginConfigNotFound):"))
		for line := range strings.Lines(written) {
			if fault, ok := strings.CutPrefix(line, "  "); ok {
				said := message(p, v1alpha1.ConditionAccepted) + message(p, v1alpha1.ConditionResolvedRefs)
				Expect(said).To(ContainSubstring(strings.TrimSpace(fault)))
			}
		}
	})

	It("warns about a name whose pods another scheduler binds", minute, func(ctx SpecContext) {
		y := aYard(ctx)
		aNode(ctx, y.node("n"))
		pod := apitest.Created(ctx, admin, fixture.Pod(y.name+"/web").SchedulerName(y.name).Valid())
		file := filepath.Join(GinkgoT().TempDir(), "profile.yaml")
		Expect(os.WriteFile(file, []byte("{apiVersion: berth.dev/v1alpha1, kind: SchedulingProfile, metadata: {name: "+y.name+"}}\n"), 0o600)).To(Succeed())
		lint := "kubectl berth lint --warnings-as-errors -f " + file + " || echo exit code $?"
		Expect(shell(ctx, lint)).To(Equal(file + ": SchedulingProfile/" + y.name + " is valid\n"))
		binding := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, Target: v1.ObjectReference{Kind: "Node", Name: y.name + "-n"}}
		Expect(admin.SubResource("binding").Create(ctx, pod, binding)).To(Succeed())
		printed := strings.Join(strings.Fields(shell(ctx, lint)), " ")
		Expect(printed).To(ContainSubstring("another scheduler binds pods with spec.schedulerName " + y.name + ": 1 bound pod without Berth's annotation berth.dev/decision"))
		Expect(printed).To(HaveSuffix("exit code 1"))
		Expect(shell(ctx, strings.Replace(lint, "lint", "lint --offline", 1))).To(Equal(file + ": SchedulingProfile/" + y.name + " is valid\n"))
	})

	It("explains the pods of a Deployment, those that wait by their reason", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		aNode(ctx, y.node("n").Capacity("cpu", "1", "pods", "10"))
		deployment, set := workload(ctx, y.name, p.Name)
		for name, cpu := range map[string]string{"fits": "1", "large-1": "2", "large-2": "3"} {
			pod := y.pod(p, name).Requests("cpu", cpu).Valid()
			pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
			pod.Spec.TerminationGracePeriodSeconds = new(int64(0))
			apitest.Created(ctx, admin, pod)
		}
		for name, status := range map[string]string{"fits": "True", "large-1": "False", "large-2": "False"} {
			Expect(kubectl(ctx, "wait", "-n", y.name, "--for=condition=PodScheduled="+status, "pod/"+name)).Error().NotTo(HaveOccurred())
		}
		said := shell(ctx, "kubectl berth explain deploy/"+deployment.Name+" -n "+y.name)
		Expect(said).To(HavePrefix("Deployment " + y.name + "/shop: 3 pods of 3 desired, 1 bound, 2 pending\n"))
		Expect(said).To(ContainSubstring("\n2 pods pending for the same reason, the oldest for "))
		Expect(said).To(ContainSubstring("Insufficient cpu"))
		one := shell(ctx, "kubectl berth explain rs/"+set.Name+" -n "+y.name+" -o json")
		Expect(one).To(And(ContainSubstring(`"bound": 1`), ContainSubstring(`"reason": "Unschedulable"`)))
		Expect(shell(ctx, "kubectl berth explain deploy/none -n "+y.name+" || echo exit code $?")).To(HaveSuffix("use -n for another namespace\nexit code 2\n"))
	})

	It("works with the rights of who may read a pod and nothing else", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		aNode(ctx, y.node("n"))
		pod := aPod(ctx, y.pod(p, "web"))
		admin.ExpectBound(ctx, pod)
		for _, line := range []string{
			"create role tenant -n " + y.name + " --verb=get --resource=pods",
			"create rolebinding tenant -n " + y.name + " --role=tenant --user=tenant",
		} {
			Expect(kubectl(ctx, strings.Fields(line)...)).Error().NotTo(HaveOccurred())
		}
		said := shell(ctx, filepath.Join("bin", "kubectl-berth")+" explain pod/web --as=tenant -n "+y.name)
		Expect(said).To(ContainSubstring("Profile    " + p.Name))
		Expect(said).To(ContainSubstring("Cannot read the SchedulingProfiles"))
		checked := shell(ctx, "kubectl berth check --as=tenant -n "+y.name+" || echo exit code $?")
		Expect(checked).To(MatchRegexp(`explain: you may not get schedulingdecisions\.berth\.dev`))
		Expect(checked).To(MatchRegexp(`(?m)^error  leader +Lease berth-system/berth-manager: .* is forbidden`))
		Expect(checked).To(HaveSuffix("could not check crds, leader, profiles, pods: see the lines that begin with error\nexit code 2\n"))
	})
})

// workload is a Deployment of three pods and its ReplicaSet; nobody makes the pods.
func workload(ctx SpecContext, namespace, profile string) (*appsv1.Deployment, *appsv1.ReplicaSet) {
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
