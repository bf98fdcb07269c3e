package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/try"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

var _ = Describe("kubectl berth try", func() {
	It("says where a pod goes that is created next, and writes nothing, with the rights that its help names", SpecTimeout(3*time.Minute), func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx, neverFlushing)
		expectReady(ctx, p)
		for i, zone := range []string{"a", "a", "b", "b", "c"} {
			node := y.node(fmt.Sprint("n", i)).Zone(zone).Label(v1.LabelHostname, fmt.Sprint(y.name, "-n", i)).Capacity("cpu", fmt.Sprint(2+i), "memory", fmt.Sprint(4+3*i, "Gi"))
			if i == 3 {
				node = node.Taint("dedicated", "batch", v1.TaintEffectNoSchedule).Label("disk", "ssd")
			}
			aNode(ctx, node)
		}
		account := anAccount(ctx, y, try.Verb.Permissions)

		certain, nowhere := 0, 0
		for _, pod := range oneOfEachKind(y, p) {
			By(pod.Obj().Name)
			answer, notes := tried(ctx, account, pod.Valid())
			Expect(notes).To(BeEmpty(), "the rights suffice")
			_, err := kubectl(ctx, "get", "pod", "-n", y.name, pod.Obj().Name)
			Expect(err).To(MatchError(ContainSubstring("NotFound")), "nothing was written")

			real := aPod(ctx, pod)
			if answer.Node == "" {
				Eventually(admin.Standing(ctx, real)).Should(Equal("False Unschedulable: " + answer.Message))
				admin.Remove(ctx, real)
				Eventually(waiting(p)).Should(HaveField("Unschedulable", 0))
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
		Expect(certain).To(BeNumerically(">=", 15), "an answer that names every node is none")
		Expect(nowhere).To(BeNumerically(">=", 2))
	})

	It("names every node that a tie may fall on, and none that it may not", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx, neverFlushing)
		expectReady(ctx, p)
		aNode(ctx, y.node("small").Capacity("cpu", "2"))
		alike := []string{aNode(ctx, y.node("a").Capacity("cpu", "8")).Name, aNode(ctx, y.node("b").Capacity("cpu", "8")).Name}
		for i := range 3 {
			pod := y.pod(p, fmt.Sprint("pod", i)).Requests("cpu", "1")
			answer, _ := tried(ctx, cp.Kubeconfig(), pod.Valid())
			Expect(answer.OneOf).To(Equal(alike))
			real := aPod(ctx, pod)
			admin.ExpectBound(ctx, real)
			Expect(alike).To(ContainElement(real.Spec.NodeName))
			admin.Remove(ctx, real)
			Eventually(berth.Scheduler().Components().Cache.IsAssigned).WithArguments(real.UID).Should(BeFalse())
		}
	})
})

// oneOfEachKind are twenty pods that ask for different things.
func oneOfEachKind(y yard, p *v1alpha1.SchedulingProfile) []*fixture.PodBuilder {
	pod := func(name, cpu string) *fixture.PodBuilder {
		return y.pod(p, name).Label("app", name).Requests("cpu", cpu, "memory", "100Mi")
	}
	host, zone := v1.LabelHostname, v1.LabelTopologyZone
	dedicated := fixture.NodeSelectorTerm(fixture.In("disk", "ssd"))
	return []*fixture.PodBuilder{
		y.pod(p, "besteffort"),
		pod("small", "100m"),
		pod("large", "3"),
		pod("huge", "64"),
		pod("tolerant", "1").Tolerate("dedicated", "batch", v1.TaintEffectNoSchedule),
		pod("picky", "100m").Tolerate("dedicated", "batch", v1.TaintEffectNoSchedule).RequireNodeAffinity(dedicated),
		pod("repelled", "100m").RequireNodeAffinity(dedicated),
		pod("prefers", "100m").PreferNodeAffinity(100, fixture.NodeSelectorTerm(fixture.In(zone, "b"))),
		pod("selected", "200m").NodeSelector(zone, "c"),
		pod("company", "100m").RequirePodAffinity(fixture.PodAffinityTerm(zone, "app", "selected")),
		pod("alone", "100m").RequirePodAntiAffinity(fixture.PodAffinityTerm(host, "app", "large")),
		pod("shy", "100m").PreferPodAntiAffinity(100, fixture.PodAffinityTerm(zone, "app", "alone")),
		pod("friendly", "100m").PreferPodAffinity(100, fixture.PodAffinityTerm(zone, "app", "small")),
		pod("spread", "100m").Spread(fixture.HardSpreadConstraint(zone, "app", "spread")),
		pod("rather", "100m").Spread(fixture.SoftSpreadConstraint(host, "app", "selected")),
		pod("port", "100m").HostPort("", v1.ProtocolTCP, 8080),
		pod("again", "100m").Label("app", "port").HostPort("", v1.ProtocolTCP, 8080),
		pod("named", "100m").RequireNodeAffinity(fixture.NodeNameTerm(y.name + "-n1")),
		pod("init", "100m").InitRequests("cpu", "2"),
		pod("memory", "100m").Requests("cpu", "100m", "memory", "6Gi"),
	}
}

// anAccount creates one with these rights and no others, wherever they are
// needed, and returns its kubeconfig.
func anAccount(ctx context.Context, y yard, rights []verb.Permission) string {
	GinkgoHelper()
	var rules []rbacv1.PolicyRule
	for _, r := range rights {
		rules = append(rules, rbacv1.PolicyRule{Verbs: r.Verbs, APIGroups: []string{r.Group}, Resources: []string{r.Resource}})
	}
	account := apitest.Created(ctx, admin, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: y.name, Name: "user"}})
	role := apitest.Created(ctx, admin, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: y.name + "-user"}, Rules: rules})
	apitest.Created(ctx, admin, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: y.name + "-user"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	})
	kubeconfig, err := cp.ServiceAccountKubeconfig(ctx, account.Namespace, account.Name)
	Expect(err).NotTo(HaveOccurred())
	return kubeconfig
}

// tried runs the verb on a pod that is not there, and returns its answer for it
// and its notes.
func tried(ctx context.Context, kubeconfig string, pod *v1.Pod) (try.Pod, []string) {
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
