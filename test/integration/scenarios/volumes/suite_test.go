// Package volumes tests pods with claims on a real kube-apiserver, with
// kube-controller-manager's volume controllers. Berth is the shipped manager, a process
// with the permissions of its ServiceAccount.
package volumes

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/component-helpers/storage/volume"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
	"github.com/berthdev/berth/test/support/readme"
)

const (
	// eventuallyTimeout is the timeout of Eventually, pollingInterval how often it polls.
	eventuallyTimeout = 60 * time.Second
	pollingInterval   = 50 * time.Millisecond
	// profileName is the name of the only profile.
	profileName = "usual"
)

// specTimeout is the timeout of a scenario.
const specTimeout = SpecTimeout(4 * time.Minute)

var (
	cp    *controlplane.ControlPlane
	admin apitest.API
)

func TestVolumes(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "volumes")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(eventuallyTimeout)
	SetDefaultEventuallyPollingInterval(pollingInterval)
	binary, err := operator.Build(ctx)
	Expect(err).NotTo(HaveOccurred())
	cp, err = controlplane.Start(ctx, controlplane.Options{
		ControllerManager: true,
		// Without the node controllers, which would find that no node is alive.
		Controllers: []string{
			"persistentvolume-binder-controller", "persistentvolume-protection-controller", "persistentvolumeclaim-protection-controller",
			"ephemeral-volume-controller", "serviceaccount-controller",
		},
		APIServerArgs: []string{
			// No controller runs that would remove the taint from nodes that are not ready.
			"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
		},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
	config := rest.CopyConfig(cp.Config())
	config.QPS = -1
	admin.Client, err = client.New(config, client.Options{Scheme: operator.Scheme()})
	Expect(err).NotTo(HaveOccurred())

	Expect(operator.Install(ctx, cp)).To(Succeed())
	house, err := operator.Start(ctx, cp, binary, "--default-profile=")
	Expect(err).NotTo(HaveOccurred())
	Expect(house.Until(ctx, house.Ready)).To(Succeed())
	applyProfile(ctx, 3)
}, NodeTimeout(15*time.Minute))

// applyProfile sets how many of the best nodes annotations name. A change of it swaps the
// profile and affects no decision.
func applyProfile(ctx context.Context, topScores int32) {
	GinkgoHelper()
	var spec v1alpha1.SchedulingProfileSpec
	// Unschedulable pods are requeued by events only.
	spec.Queue.FlushAfterSeconds = new(int32(0))
	spec.Decisions.TopScores = &topScores
	Expect(operator.ApplyProfile(ctx, cp, profileName, spec)).To(Succeed())
	Expect(operator.UntilProgrammed(ctx, cp, profileName)).Error().NotTo(HaveOccurred())
}

// testEnv is the namespace of one scenario, whose name is also the prefix of its classes
// and volumes.
type testEnv struct{ namespace string }

// newTestEnv creates the namespace and the nodes n0, n1 and so on, with room for 1000 pods
// each. When the scenario ends it deletes all nodes, pods, claims and volumes.
func newTestEnv(ctx context.Context, nodes int) testEnv {
	GinkgoHelper()
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	Expect(admin.Create(ctx, namespace)).To(Succeed())
	env := testEnv{namespace.Name}
	for i := range nodes {
		env.create(ctx, fixture.Node(fmt.Sprint("n", i)).Capacity("pods", "1000").Obj())
	}
	DeferCleanup(func(ctx SpecContext) {
		now := client.GracePeriodSeconds(0)
		Expect(admin.DeleteAllOf(ctx, &v1.Pod{}, client.InNamespace(env.namespace), now)).To(Succeed())
		Expect(admin.DeleteAllOf(ctx, &v1.Node{})).To(Succeed())
		Expect(admin.DeleteAllOf(ctx, &v1.PersistentVolumeClaim{}, client.InNamespace(env.namespace))).To(Succeed())
		Expect(admin.DeleteAllOf(ctx, &v1.PersistentVolume{})).To(Succeed())
		Eventually(func(g Gomega) []v1.PersistentVolume {
			var left v1.PersistentVolumeList
			g.Expect(admin.List(ctx, &left)).To(Succeed())
			return left.Items
		}).Should(BeEmpty())
	}, NodeTimeout(eventuallyTimeout))
	return env
}

// create creates objects as they are, status included.
func (env testEnv) create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		object.SetUID("")
		object.SetResourceVersion("")
		Expect(admin.Create(ctx, object)).To(Succeed())
	}
}

// volume starts a volume of a class on a node.
func (env testEnv) volume(name, class string, node int) *fixture.VolumeBuilder {
	return fixture.Volume(env.namespace+"-"+name, class).NodeAffinity(v1.LabelHostname, fmt.Sprint("n", node))
}

func (env testEnv) claim(name, class string) *fixture.ClaimBuilder {
	return fixture.Claim(env.namespace+"/"+name, class)
}

// pod returns a pod that uses the claims.
func (env testEnv) pod(name string, claims ...string) *v1.Pod {
	builder := fixture.Pod(env.namespace + "/" + name).SchedulerName(profileName)
	for _, claim := range claims {
		builder.Claim(claim)
	}
	return builder.Valid()
}

// expectAvailable waits until n volumes are Available.
func (env testEnv) expectAvailable(ctx context.Context, n int) {
	GinkgoHelper()
	Eventually(func(g Gomega) (free int) {
		var list v1.PersistentVolumeList
		g.Expect(admin.List(ctx, &list)).To(Succeed())
		for i := range list.Items {
			if list.Items[i].Status.Phase == v1.VolumeAvailable {
				free++
			}
		}
		return free
	}).Should(Equal(n))
}

// expectPhases waits until the volumes are in a phase.
func (env testEnv) expectPhases(ctx context.Context, phase v1.PersistentVolumePhase, volumes ...string) {
	GinkgoHelper()
	for _, name := range volumes {
		Eventually(func(g Gomega) v1.PersistentVolumePhase {
			var is v1.PersistentVolume
			g.Expect(admin.Get(ctx, types.NamespacedName{Name: env.namespace + "-" + name}, &is)).To(Succeed())
			return is.Status.Phase
		}).Should(Equal(phase), name)
	}
}

// waitForVolumes waits until Berth knows all volumes. It receives them in order, so it does when it
// binds a pod with the newest one, in a class of its own.
func (env testEnv) waitForVolumes(ctx context.Context) {
	GinkgoHelper()
	class := fixture.StorageClass(env.namespace+"-newest", "")
	claim := env.claim("newest", class.Name).Obj()
	pod := env.pod("newest", claim.Name)
	env.create(ctx, class, env.volume("newest", class.Name, 0).Obj(), claim, pod)
	admin.ExpectBound(ctx, pod)
	admin.Remove(ctx, pod)
}

// boundVolume returns the volume that a claim has.
func (env testEnv) boundVolume(ctx context.Context, claim string) func(Gomega) string {
	return func(g Gomega) string {
		var is v1.PersistentVolumeClaim
		g.Expect(admin.Get(ctx, types.NamespacedName{Namespace: env.namespace, Name: claim}, &is)).To(Succeed())
		return is.Spec.VolumeName
	}
}

// testProvisioner is the provisioner that runProvisioner implements.
const testProvisioner = "example.com/test"

// runProvisioner calls serve for each claim with an external provisioner again and again,
// until it returns a volume.
func (env testEnv) runProvisioner(ctx context.Context, serve func(*v1.PersistentVolumeClaim) *v1.PersistentVolume) (stop func()) {
	served := map[string]bool{}
	return env.repeat(ctx, func() {
		var claims v1.PersistentVolumeClaimList
		Expect(admin.List(ctx, &claims, client.InNamespace(env.namespace))).To(Succeed())
		for i := range claims.Items {
			claim := &claims.Items[i]
			if served[claim.Name] || !metav1.HasAnnotation(claim.ObjectMeta, volume.AnnStorageProvisioner) {
				continue
			}
			if made := serve(claim); made != nil {
				env.create(ctx, made)
				served[claim.Name] = true
			}
		}
	})
}

// repeat calls do again and again until it is stopped.
func (env testEnv) repeat(ctx context.Context, do func()) (stop func()) {
	ctx, end := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		defer GinkgoRecover()
		_ = wait.PollUntilContextCancel(ctx, pollingInterval, true, func(context.Context) (bool, error) {
			do()
			return false, nil
		})
	})
	return func() { end(); done.Wait() }
}

// provisionOnSelectedNode returns a volume on the claim's selected node, or nil while there
// is none.
func (env testEnv) provisionOnSelectedNode(claim *v1.PersistentVolumeClaim) *v1.PersistentVolume {
	node := claim.Annotations[volume.AnnSelectedNode]
	if node == "" {
		return nil
	}
	return env.provision(claim, node)
}

// provision returns a volume for the claim on a node.
func (env testEnv) provision(claim *v1.PersistentVolumeClaim, node string) *v1.PersistentVolume {
	size := claim.Spec.Resources.Requests[v1.ResourceStorage]
	return fixture.Volume(env.namespace+"-made-for-"+claim.Name, *claim.Spec.StorageClassName).
		Capacity(size.String()).NodeAffinity(v1.LabelHostname, node).BoundTo(claim).Obj()
}

// README.md must name existing specs only, and each table. test/integration checks the
// section on extenders.
var _ = ReportAfterSuite("README.md", func(report Report) {
	text, err := os.ReadFile("README.md")
	Expect(err).NotTo(HaveOccurred())
	_, section := readme.Section(string(text), "Extenders")
	Expect(readme.UnknownNames(section, report)).To(BeEmpty(), "names without a spec")
	Expect(readme.UnnamedContainers(section, report)).To(BeEmpty(), "tables without a name")
})
