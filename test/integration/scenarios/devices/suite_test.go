// Package devices tests pods with ResourceClaims on a real kube-apiserver, with
// kube-controller-manager's resource claim controller. Berth is the shipped manager, a
// process with the permissions of its ServiceAccount.
package devices

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/faultproxy"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

const (
	// eventuallyTimeout is the timeout of Eventually, pollingInterval how often it polls.
	eventuallyTimeout = 60 * time.Second
	pollingInterval   = 50 * time.Millisecond
	// profileName is the name of the profile of most pods, gangProfileName of the one that
	// schedules groups.
	profileName, gangProfileName = "usual", "gangs"
	// driver publishes the devices, and is the name of their class.
	driver = "gpu.example.com"
)

// specTimeout is the timeout of a scenario.
const specTimeout = SpecTimeout(4 * time.Minute)

var (
	cp    *controlplane.ControlPlane
	admin apitest.API
	// proxy is between berth and the API server.
	proxy *faultproxy.Proxy
	berth *operator.Manager
	// binary and kubeconfig are what startBerth uses.
	binary, kubeconfig string
)

func TestDevices(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "devices")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(eventuallyTimeout)
	SetDefaultEventuallyPollingInterval(pollingInterval)
	var err error
	binary, err = operator.Build(ctx)
	Expect(err).NotTo(HaveOccurred())
	cp, err = controlplane.Start(ctx, controlplane.Options{
		ControllerManager: true,
		Controllers:       []string{"resourceclaim-controller", "serviceaccount-controller"},
		APIServerArgs: []string{
			// No controller runs that would remove the taint from nodes that are not ready.
			"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
			// One worker may need more than a request's 60 seconds to delete 10,000 slices.
			"--delete-collection-workers=16",
		},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
	config := rest.CopyConfig(cp.Config())
	config.QPS = -1
	admin.Client, err = client.New(config, client.Options{Scheme: operator.Scheme()})
	Expect(err).NotTo(HaveOccurred())

	Expect(operator.Install(ctx, cp)).To(Succeed())
	account, err := operator.AccountConfig(ctx, cp)
	Expect(err).NotTo(HaveOccurred())
	proxy, err = faultproxy.Start(account)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { proxy.Stop() })
	kubeconfig, err = cp.WriteKubeconfig("proxied", proxy.Config(account))
	Expect(err).NotTo(HaveOccurred())
	startBerth(ctx)
	// Unschedulable pods are requeued by events only.
	var spec v1alpha1.SchedulingProfileSpec
	spec.Queue.FlushAfterSeconds = new(int32(0))
	gangs := spec.DeepCopy()
	gangs.Plugins = &v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "GangScheduling"}}}}
	for name, spec := range map[string]v1alpha1.SchedulingProfileSpec{profileName: spec, gangProfileName: *gangs} {
		Expect(operator.ApplyProfile(ctx, cp, name, spec)).To(Succeed())
		Expect(operator.UntilProgrammed(ctx, cp, name)).Error().NotTo(HaveOccurred())
	}
}, NodeTimeout(15*time.Minute))

// startBerth starts the manager, and waits until it is ready.
func startBerth(ctx context.Context) {
	GinkgoHelper()
	var err error
	berth, err = operator.StartWith(cp, binary, kubeconfig, "--default-profile=")
	Expect(err).NotTo(HaveOccurred())
	Expect(berth.Until(ctx, berth.Ready)).To(Succeed())
}

// testEnv is the namespace of one scenario.
type testEnv struct{ namespace string }

// newTestEnv creates the namespace, the device class, and the nodes n0, n1 and so on, each
// with four devices. When the scenario ends it deletes all that it made.
func newTestEnv(ctx context.Context, nodes int) testEnv {
	GinkgoHelper()
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	Expect(admin.Create(ctx, namespace)).To(Succeed())
	env := testEnv{namespace.Name}
	DeferCleanup(func(ctx SpecContext) {
		Expect(admin.DeleteAllOf(ctx, &v1.Pod{}, client.InNamespace(env.namespace), client.GracePeriodSeconds(0))).To(Succeed())
		Expect(admin.DeleteAllOf(ctx, &resourceapi.ResourceClaim{}, client.InNamespace(env.namespace))).To(Succeed())
		for _, kind := range []client.Object{&v1.Node{}, &resourceapi.ResourceSlice{}, &resourceapi.DeviceClass{}} {
			// A request ends after 60 seconds, in which 10,000 slices may not all be deleted.
			Eventually(func() error { return admin.DeleteAllOf(ctx, kind) }).WithTimeout(3 * time.Minute).Should(Succeed())
		}
		Eventually(func(g Gomega) []resourceapi.ResourceClaim {
			var left resourceapi.ResourceClaimList
			g.Expect(admin.List(ctx, &left)).To(Succeed())
			return left.Items
		}).Should(BeEmpty(), "the controller removes the finalizer from claims that no pod uses")
	}, NodeTimeout(4*time.Minute))
	env.create(ctx, deviceClass(driver, fmt.Sprintf("device.driver == %q", driver)))
	for i := range nodes {
		env.addNode(ctx, fmt.Sprint("n", i))
	}
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

func deviceClass(name, expression string) *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}},
	}
}

// fourDevices returns the devices of a node: the models a and b, each with 40 and with 80
// GiB of memory.
func fourDevices(node string) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-" + driver},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, ResourceSliceCount: 1},
		},
	}
	for _, model := range []string{"a", "b"} {
		for _, size := range []string{"40Gi", "80Gi"} {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{
				Name:       model + "-" + map[string]string{"40Gi": "small", "80Gi": "large"}[size],
				Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: &model}},
				Capacity:   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse(size)}},
			})
		}
	}
	return slice
}

// requestOf returns a claim's spec with one request, for one device that the expression
// selects; empty for any device.
func requestOf(class, expression string) resourceapi.ResourceClaimSpec {
	exactly := &resourceapi.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}
	if expression != "" {
		exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
	}
	return resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "gpu", Exactly: exactly}}}}
}

func (env testEnv) claim(name string, spec resourceapi.ResourceClaimSpec) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: name}, Spec: spec}
}

func (env testEnv) template(name string, spec resourceapi.ResourceClaimSpec) *resourceapi.ResourceClaimTemplate {
	return &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: name},
		Spec:       resourceapi.ResourceClaimTemplateSpec{Spec: spec},
	}
}

// pod returns a pod whose only container uses the claim.
func (env testEnv) pod(name string, claim v1.PodResourceClaim) *v1.Pod {
	claim.Name = "gpu"
	return fixture.Pod(env.namespace + "/" + name).SchedulerName(profileName).Mutate(func(pod *v1.Pod) {
		pod.Spec.ResourceClaims = []v1.PodResourceClaim{claim}
		pod.Spec.Containers = []v1.Container{{Name: "c0", Image: "none", Resources: v1.ResourceRequirements{Claims: []v1.ResourceClaim{{Name: "gpu"}}}}}
	}).Valid()
}

// devicesOf returns the devices that a claim has, as node/device, and the pods for which it
// is reserved.
func (env testEnv) devicesOf(ctx context.Context, claim string) func(Gomega) (devices, pods []string) {
	return func(g Gomega) (devices, pods []string) {
		var is resourceapi.ResourceClaim
		g.Expect(admin.Get(ctx, client.ObjectKey{Namespace: env.namespace, Name: claim}, &is)).To(Succeed())
		if is.Status.Allocation != nil {
			for _, result := range is.Status.Allocation.Devices.Results {
				devices = append(devices, result.Pool+"/"+result.Device)
			}
		}
		for _, consumer := range is.Status.ReservedFor {
			pods = append(pods, consumer.Name)
		}
		return devices, pods
	}
}

// claimOf returns the name of the claim that the controller made for a pod.
func claimOf(ctx context.Context, pod *v1.Pod) string {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.Status.ResourceClaimStatuses).NotTo(BeEmpty())
	}).Should(Succeed())
	return *pod.Status.ResourceClaimStatuses[0].ResourceClaimName
}

// expectUnschedulable waits until a pod's condition and an Event have a text.
func expectUnschedulable(ctx context.Context, text string, pods ...*v1.Pod) {
	GinkgoHelper()
	for _, pod := range pods {
		expectFailed(ctx, pod, v1.PodReasonUnschedulable, text)
	}
}

// expectFailed waits until a pod's condition has a reason and a text, and an Event the text.
func expectFailed(ctx context.Context, pod *v1.Pod, reason, text string) {
	GinkgoHelper()
	Eventually(admin.PodScheduled(ctx, pod)).Should(And(HavePrefix("False "+reason), ContainSubstring(text)), pod.Name)
	Eventually(func(g Gomega) (notes []string) {
		var list eventsv1.EventList
		g.Expect(admin.List(ctx, &list, client.InNamespace(pod.Namespace))).To(Succeed())
		for _, event := range list.Items {
			if event.Regarding.UID == pod.UID && event.Reason == "FailedScheduling" {
				notes = append(notes, event.Note)
			}
		}
		return notes
	}).Should(ContainElement(ContainSubstring(text)), "Events of "+pod.Name)
}
