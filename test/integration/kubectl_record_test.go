package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	recorder "github.com/berthdev/berth/cmd/kubectl-berth/record"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
	"github.com/berthdev/berth/test/replay/run"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

var _ = Describe("kubectl berth record", func() {
	It("writes a log whose replay has the same decisions for all pods, while nodes and pods change, with the permissions that its help names", SpecTimeout(8*time.Minute), func(ctx SpecContext) {
		const nodes, rounds, pods = 320, 12, 32
		env, p := newTestEnv(ctx), createProfile(ctx, neverFlush)
		expectReady(ctx, p)
		apitest.Created(ctx, admin, &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: "web"}, Spec: v1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, Ports: []v1.ServicePort{{Port: 80}},
		}})
		for i := range nodes {
			createNode(ctx, recordedNode(env, i))
		}
		account := accountWithPermissions(ctx, env, recorder.Verb.Permissions)
		file := filepath.Join(GinkgoT().TempDir(), "day.jsonl")
		stop := startRecording(ctx, account, "--profile", p.Name, "--pods", fmt.Sprint(rounds*(pods+1)), file)

		var all, passed []*v1.Pod
		for round := range rounds {
			created := recordedPods(env, p, round, pods)
			var together sync.WaitGroup
			for _, pod := range created {
				together.Go(func() { defer GinkgoRecover(); Expect(admin.Create(ctx, pod)).To(Succeed()) })
			}
			passed = append(passed, changeCluster(ctx, env, p, round, nodes))
			together.Wait()
			all = append(all, created...)
		}
		DeferCleanup(func(ctx SpecContext) {
			Expect(admin.DeleteAllOf(ctx, &v1.Pod{}, client.InNamespace(env.namespace), client.GracePeriodSeconds(0))).To(Succeed())
		})
		for _, pod := range all {
			admin.ExpectBound(ctx, pod)
		}
		output := stop()
		Expect(output).NotTo(ContainSubstring("note:"))

		live := map[string]string{}
		starts := map[int]bool{}
		for _, pod := range append(all, passed...) {
			live[pod.Namespace+"/"+pod.Name] = pod.Spec.NodeName
			starts[readRecord(pod).Walk.Start] = true
		}
		Expect(len(starts)).To(BeNumerically(">", 20), "the cycles start at different nodes")
		Expect(replay(file)).To(Equal(live))
	})

	It("writes a log of a restarted manager whose replay has the same decisions, on nodes of several zones that are older than the manager", SpecTimeout(4*time.Minute), func(ctx SpecContext) {
		const nodes, pods = 40, 32
		env, p := newTestEnv(ctx), createProfile(ctx, neverFlush)
		expectReady(ctx, p)
		for i := range nodes {
			createNode(ctx, recordedNode(env, i))
		}
		bind := func(round int) []*v1.Pod {
			GinkgoHelper()
			created := recordedPods(env, p, round, pods)
			for _, pod := range created {
				Expect(admin.Create(ctx, pod)).To(Succeed())
			}
			for _, pod := range created {
				admin.ExpectBound(ctx, pod)
			}
			return created
		}
		DeferCleanup(func(ctx SpecContext) {
			Expect(admin.DeleteAllOf(ctx, &v1.Pod{}, client.InNamespace(env.namespace), client.GracePeriodSeconds(0))).To(Succeed())
		})
		bind(0)

		stopManager()
		berth = startManager(ctx)
		admin.ExpectBound(ctx, createPod(ctx, env.pod(p, "first"))) // the new manager knows the nodes
		for i := range 3 {
			By("nodes change, so that resource versions do not tell their order, and one is created")
			changed := &v1.Node{}
			changed.Name = recordedNode(env, 7*i+3).Obj().Name
			apitest.Change(ctx, admin, changed, func(n *v1.Node) { n.Labels["disk"] = "nvme" })
			createNode(ctx, recordedNode(env, nodes+i))
		}
		bind(1)

		file := filepath.Join(GinkgoT().TempDir(), "day.jsonl")
		stop := startRecording(ctx, accountWithPermissions(ctx, env, recorder.Verb.Permissions), "--profile", p.Name, "--pods", fmt.Sprint(pods), file)
		live := map[string]string{}
		for _, pod := range bind(2) {
			live[pod.Namespace+"/"+pod.Name] = pod.Spec.NodeName
		}
		Expect(stop()).NotTo(ContainSubstring("note:"))
		Expect(replay(file)).To(Equal(live))
	})
})

// recordedNode is the ith node: in one of five zones, with a name that does not follow the
// order of creation.
func recordedNode(env testEnv, i int) *fixture.NodeBuilder {
	node := env.node(fmt.Sprintf("n%03d", (i*37)%1000)).Zone(env.namespace+string(rune('a'+i%5))).
		Capacity("cpu", fmt.Sprint(4+i%3*4), "memory", fmt.Sprint(8+i%4*8, "Gi"), "pods", "110").
		Label("disk", []string{"ssd", "hdd"}[i%2])
	node.Mutate(func(n *v1.Node) { n.Labels[v1.LabelHostname] = n.Name })
	if i%11 == 0 {
		node.Taint("dedicated", "batch", v1.TaintEffectNoSchedule)
	}
	return node
}

// recordedPods returns pods of several kinds.
func recordedPods(env testEnv, p *v1alpha1.SchedulingProfile, round, n int) (pods []*v1.Pod) {
	host, zone := v1.LabelHostname, v1.LabelTopologyZone
	for i := range n {
		pod := env.pod(p, fmt.Sprintf("r%02d-%02d", round, i)).Requests("cpu", fmt.Sprint(100+50*(i%5), "m"), "memory", "128Mi")
		switch i % 8 {
		case 0:
			pod.Label("app", "web")
		case 1:
			pod.Label("app", "spread").Spread(fixture.HardSpreadConstraint(zone, "app", "spread"))
		case 2:
			pod.Label("app", "alone").RequirePodAntiAffinity(fixture.PodAffinityTerm(host, "app", "alone"))
		case 3:
			pod.Label("app", "shy").PreferPodAntiAffinity(50, fixture.PodAffinityTerm(zone, "app", "web"))
		case 4:
			pod.RequireNodeAffinity(fixture.NodeSelectorTerm(fixture.In("disk", "ssd"))).Tolerate("dedicated", "batch", v1.TaintEffectNoSchedule)
		case 5:
			pod.PreferNodeAffinity(30, fixture.NodeSelectorTerm(fixture.In("disk", "hdd"))).Label("app", "rather").Spread(fixture.SoftSpreadConstraint(host, "app", "rather"))
		case 6:
			pod.Requests("cpu", "3")
		}
		pods = append(pods, pod.Valid())
	}
	return pods
}

// changeCluster adds, deletes and changes nodes, creates a pod that fits on no node, so
// that the next cycle starts elsewhere, and deletes a bound pod.
func changeCluster(ctx context.Context, env testEnv, p *v1alpha1.SchedulingProfile, round, nodes int) (passed *v1.Pod) {
	GinkgoHelper()
	createPod(ctx, env.pod(p, fmt.Sprint("huge", round)).Requests("cpu", "640"))
	short := createPod(ctx, env.pod(p, fmt.Sprint("short", round)).Requests("cpu", "100m"))
	admin.ExpectBound(ctx, short)
	admin.Remove(ctx, short)
	createNode(ctx, recordedNode(env, nodes+round))
	deleted := recordedNode(env, 20+round).Obj()
	Expect(admin.Delete(ctx, deleted)).To(Succeed())
	changed := &v1.Node{}
	changed.Name = recordedNode(env, 100+round).Obj().Name
	apitest.Change(ctx, admin, changed, func(n *v1.Node) { n.Labels["disk"] = "nvme"; n.Spec.Unschedulable = round%2 == 0 })
	return short
}

// startRecording runs `kubectl berth record` and returns a function that waits for its end
// and returns its output.
func startRecording(ctx context.Context, kubeconfig string, args ...string) func() string {
	GinkgoHelper()
	flags := cluster.NewFlags()
	flags.AddFlags(pflag.NewFlagSet("kubectl-berth", pflag.ContinueOnError))
	*flags.KubeConfig = kubeconfig
	out := gbytes.NewBuffer()
	cmd := recorder.New(verb.Env{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: out}, Open: flags.Open, Now: time.Now,
	})
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	Eventually(out).Should(gbytes.Say("Recording profile"))
	return func() string {
		GinkgoHelper()
		var err error
		Eventually(done).Should(Receive(&err))
		Expect(err).NotTo(HaveOccurred(), "%s", out.Contents())
		return string(out.Contents())
	}
}

// replay replays a log and returns the node of each pod.
func replay(file string) map[string]string {
	GinkgoHelper()
	var out, errOut bytes.Buffer
	code := run.Command("replay", []string{"--profile", file + ".profile.yaml", file}, run.Streams{In: strings.NewReader(""), Out: &out, Err: &errOut}, run.OpenBerth)
	Expect(code).To(BeZero(), errOut.String())
	nodes := map[string]string{}
	for line := range strings.Lines(out.String()) {
		var decided struct{ Pod, Node string }
		Expect(json.Unmarshal([]byte(line), &decided)).To(Succeed())
		nodes[decided.Pod] = decided.Node
	}
	return nodes
}
