package faults

import (
	"context"
	"encoding/json"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

// scene is a pod that waits for a change of a kind, and the change: objects that are deleted and
// created again under their names, or that change twice. Who misses what is between sees one
// object that turned into another one.
type scene struct {
	*testEnv
	// name is that of the scene's profile, of its node, and of what else it creates.
	name string
}

// kind is a kind of objects that scheduling depends on.
type kind struct {
	// resource is its plural name, and path that of its list.
	resource, path string
	// wait creates all but what the pods wait for, and the pods, which do not fit.
	wait func(ctx context.Context, s scene) []*corev1.Pod
	// change makes the pods fit, by at least two changes.
	change func(ctx context.Context, s scene)
}

const (
	core = "/api/v1/"
	ours = "/apis/berth.dev/v1alpha1/"
	// sceneLabel is the label of a scene's node, with the name of the scene.
	sceneLabel = "scene"
)

// kinds are all kinds.
var kinds = []kind{
	{"pods", core + "pods", waitForPods, changePods},
	{"nodes", core + "nodes", waitForNodes, changeNodes},
	{"namespaces", core + "namespaces", waitForNamespaces, changeNamespaces},
	{"persistentvolumeclaims", core + "persistentvolumeclaims", waitForClaims, changeClaims},
	{"persistentvolumes", core + "persistentvolumes", waitForVolumes, changeVolumes},
	{"resourceclaims", "/apis/resource.k8s.io/v1/resourceclaims", waitForResourceClaims, changeResourceClaims},
	{"resourceslices", "/apis/resource.k8s.io/v1/resourceslices", waitForSlices, changeSlices},
	{"deviceclasses", "/apis/resource.k8s.io/v1/deviceclasses", waitForClasses, changeClasses},
	{"podgroups", "/apis/scheduling.k8s.io/v1beta1/podgroups", waitForGroups, changeGroups},
	{"schedulingprofiles", ours + "schedulingprofiles", waitForProfiles, changeProfiles},
	{"pluginconfigs", ours + "pluginconfigs", waitForConfigs, changeConfigs},
}

// node creates the scene's node.
func (s scene) node(ctx context.Context) *corev1.Node {
	GinkgoHelper()
	return s.create(ctx, fixture.Node(s.name).Capacity("cpu", "1", "memory", "1Gi", "pods", "10").Label(sceneLabel, s.name).Obj()).(*corev1.Node)
}

// profile creates the scene's profile and waits until it runs.
func (s scene) profile(ctx context.Context, change ...func(*v1alpha1.SchedulingProfileSpec)) {
	GinkgoHelper()
	s.create(ctx, s.profileObject(change...))
	_, err := operator.UntilProgrammed(ctx, s.cp, s.name)
	Expect(err).NotTo(HaveOccurred())
}

func (s scene) profileObject(change ...func(*v1alpha1.SchedulingProfileSpec)) *v1alpha1.SchedulingProfile {
	p := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
	p.Spec.Queue.FlushAfterSeconds = new(int32(0))
	for _, c := range change {
		c(&p.Spec)
	}
	return p
}

// pod starts a pod that only the scene's node takes.
func (s scene) pod(name string) *fixture.PodBuilder {
	return podOf(s.name, s.name+"-"+name).NodeSelector(sceneLabel, s.name)
}

// create creates an object until the spec ends.
func (s scene) create(ctx context.Context, object client.Object) client.Object {
	GinkgoHelper()
	object.SetUID("")
	object.SetResourceVersion("")
	Expect(s.admin.Create(ctx, object)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		same := object.DeepCopyObject().(client.Object)
		s.remove(ctx, same)
	})
	return object
}

// remove deletes an object at once.
func (s scene) remove(ctx context.Context, object client.Object) {
	GinkgoHelper()
	err := s.admin.Get(ctx, client.ObjectKeyFromObject(object), object)
	if client.IgnoreNotFound(err) == nil && err != nil {
		return
	}
	Expect(err).NotTo(HaveOccurred())
	if len(object.GetFinalizers()) > 0 {
		object.SetFinalizers(nil)
		Expect(client.IgnoreNotFound(s.admin.Update(ctx, object))).To(Succeed())
	}
	s.admin.Remove(ctx, object)
}

// replace deletes an object and creates another one under its name.
func (s scene) replace(ctx context.Context, next client.Object) {
	GinkgoHelper()
	s.remove(ctx, next.DeepCopyObject().(client.Object))
	s.create(ctx, next)
}

// waits creates pods and waits until it is explained why they wait. Plugins can keep a pod from
// being tried: such a pod has no condition.
func (s scene) waits(ctx context.Context, pods ...*fixture.PodBuilder) (created []*corev1.Pod) {
	GinkgoHelper()
	for _, b := range pods {
		created = append(created, s.create(ctx, b.Valid()).(*corev1.Pod))
	}
	for _, pod := range created {
		Eventually(s.decision).WithArguments(ctx, pod).Should(BeElementOf(v1alpha1.ResultUnschedulable, v1alpha1.ResultGated, v1alpha1.ResultHeld), pod.Name)
	}
	return created
}

// decision returns the result in a pod's SchedulingDecision; "" where there is none.
func (s scene) decision(ctx context.Context, pod *corev1.Pod) (v1alpha1.DecisionResult, error) {
	var d v1alpha1.SchedulingDecision
	err := s.admin.Get(ctx, client.ObjectKeyFromObject(pod), &d)
	return d.Status.Result, client.IgnoreNotFound(err)
}

// foreign is the name of a scheduler that does not run: its pods are created with their node.
const foreign = "another"

func waitForPods(ctx context.Context, s scene) []*corev1.Pod {
	GinkgoHelper()
	s.node(ctx)
	s.profile(ctx)
	s.create(ctx, podOf(foreign, s.name+"-there").Requests("cpu", "800m").On(s.name).Valid())
	return s.waits(ctx, s.pod("waits").Requests("cpu", "500m"))
}

func changePods(ctx context.Context, s scene) {
	GinkgoHelper()
	s.replace(ctx, podOf(foreign, s.name+"-there").Requests("cpu", "700m").On(s.name).Valid())
	s.replace(ctx, podOf(foreign, s.name+"-there").Requests("cpu", "100m").On(s.name).Valid())
}

func waitForNodes(ctx context.Context, s scene) []*corev1.Pod {
	GinkgoHelper()
	s.node(ctx)
	s.profile(ctx)
	return s.waits(ctx, s.pod("waits").Requests("cpu", "2"))
}

func changeNodes(ctx context.Context, s scene) {
	GinkgoHelper()
	s.replace(ctx, fixture.Node(s.name).Capacity("cpu", "1500m", "memory", "1Gi", "pods", "10").Label(sceneLabel, s.name).Obj())
	s.replace(ctx, fixture.Node(s.name).Capacity("cpu", "2", "memory", "1Gi", "pods", "10").Label(sceneLabel, s.name).Obj())
}

func waitForNamespaces(ctx context.Context, s scene) []*corev1.Pod {
	GinkgoHelper()
	s.node(ctx)
	s.profile(ctx, func(p *v1alpha1.SchedulingProfileSpec) {
		p.AllowedNamespaces = v1alpha1.AllowedNamespaces{
			From: v1alpha1.NamespacesSelector, Selector: &v1alpha1.NamespaceSelector{MatchLabels: map[string]string{s.name: "allowed"}},
		}
	})
	return s.waits(ctx, s.pod("waits"))
}

func changeNamespaces(ctx context.Context, s scene) {
	GinkgoHelper()
	for _, value := range []string{"not-yet", "allowed"} {
		apitest.Change(ctx, s.admin, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, func(n *corev1.Namespace) { n.Labels[s.name] = value })
	}
}

// claim returns a claim that is bound to a volume.
func (s scene) claim(volume string) *corev1.PersistentVolumeClaim {
	return fixture.Claim(namespace+"/"+s.name, "").BoundTo(volume).Obj()
}

// volume returns the scene's volume, which nodes with that label have.
func (s scene) volume(value string) *corev1.PersistentVolume {
	return fixture.Volume(s.name, "").NodeAffinity(sceneLabel, value).BoundTo(s.claim(s.name)).
		Mutate(func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID, v.Spec.ClaimRef.ResourceVersion = "", "" }).Obj()
}

func waitForClaims(ctx context.Context, s scene) []*corev1.Pod {
	GinkgoHelper()
	s.node(ctx)
	s.profile(ctx)
	s.create(ctx, s.volume(s.name))
	return s.waits(ctx, s.pod("waits").Claim(s.name))
}

func changeClaims(ctx context.Context, s scene) {
	GinkgoHelper()
	s.create(ctx, s.claim("elsewhere"))
	s.replace(ctx, s.claim(s.name))
}

func waitForVolumes(ctx context.Context, s scene) []*corev1.Pod {
	GinkgoHelper()
	s.node(ctx)
	s.profile(ctx)
	s.create(ctx, s.claim(s.name))
	s.create(ctx, s.volume("elsewhere"))
	return s.waits(ctx, s.pod("waits").Claim(s.name))
}

func changeVolumes(ctx context.Context, s scene) {
	GinkgoHelper()
	s.replace(ctx, s.volume("nowhere"))
	s.replace(ctx, s.volume(s.name))
}

// driver is the name of the scene's driver of devices.
func (s scene) driver() string { return s.name + ".example.com" }

// slice returns the devices of the scene's node.
func (s scene) slice(model string) client.Object {
	return fixture.ResourceSlice(s.name, s.driver()).Device("d0", fixture.Attributes{"model": model}).Obj()
}

// class returns the scene's class, of devices of a model.
func (s scene) class(model string) client.Object {
	return fixture.DeviceClass(s.name).Selector(fmt.Sprintf(`device.driver == %q && device.attributes[%[1]q].model == %q`, s.driver(), model)).Obj()
}

// resourceClaim returns the scene's claim for a device of a class.
func (s scene) resourceClaim(class string) client.Object {
	return fixture.ResourceClaim(namespace+"/"+s.name).Request("r", class).Obj()
}

func (s scene) waitsForDevice(ctx context.Context, objects ...client.Object) []*corev1.Pod {
	GinkgoHelper()
	s.node(ctx)
	s.profile(ctx)
	for _, object := range objects {
		s.create(ctx, object)
	}
	return s.waits(ctx, s.pod("waits").ResourceClaim(s.name))
}

func waitForResourceClaims(ctx context.Context, s scene) []*corev1.Pod {
	GinkgoHelper()
	return s.waitsForDevice(ctx, s.slice("a"), s.class("a"), s.resourceClaim("no-such-class"))
}

func changeResourceClaims(ctx context.Context, s scene) {
	GinkgoHelper()
	s.replace(ctx, s.resourceClaim("another-class"))
	s.replace(ctx, s.resourceClaim(s.name))
}

func waitForSlices(ctx context.Context, s scene) []*corev1.Pod {
	GinkgoHelper()
	return s.waitsForDevice(ctx, s.class("a"), s.resourceClaim(s.name))
}

func changeSlices(ctx context.Context, s scene) {
	GinkgoHelper()
	s.create(ctx, s.slice("b"))
	s.replace(ctx, s.slice("a"))
}

func waitForClasses(ctx context.Context, s scene) []*corev1.Pod {
	GinkgoHelper()
	return s.waitsForDevice(ctx, s.slice("a"), s.class("b"), s.resourceClaim(s.name))
}

func changeClasses(ctx context.Context, s scene) {
	GinkgoHelper()
	s.replace(ctx, s.class("c"))
	s.replace(ctx, s.class("a"))
}

// group returns the scene's group of pods.
func (s scene) group(pods int32) client.Object {
	return &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.name},
		Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
			Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: pods},
		}},
	}
}

func waitForGroups(ctx context.Context, s scene) []*corev1.Pod {
	GinkgoHelper()
	s.node(ctx)
	s.profile(ctx, func(p *v1alpha1.SchedulingProfileSpec) {
		p.Plugins = &v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "GangScheduling"}}}}
	})
	s.create(ctx, s.group(4))
	member := func(name string) *fixture.PodBuilder {
		return s.pod(name).Mutate(func(pod *corev1.Pod) { pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &s.name} })
	}
	return s.waits(ctx, member("first"), member("second"))
}

func changeGroups(ctx context.Context, s scene) {
	GinkgoHelper()
	s.replace(ctx, s.group(3))
	s.replace(ctx, s.group(2))
}

// affinityTo returns arguments of NodeAffinity that keep pods to nodes with that label.
func affinityTo(value string) *runtime.RawExtension {
	GinkgoHelper()
	args, err := json.Marshal(map[string]any{"addedAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{
		"nodeSelectorTerms": []any{map[string]any{"matchExpressions": []any{map[string]any{"key": sceneLabel, "operator": "In", "values": []string{value}}}}},
	}}})
	Expect(err).NotTo(HaveOccurred())
	return &runtime.RawExtension{Raw: args}
}

// onlyOn lets a profile place pods on nodes with that label only.
func onlyOn(value string) func(*v1alpha1.SchedulingProfileSpec) {
	return func(p *v1alpha1.SchedulingProfileSpec) {
		p.PluginConfig = []v1alpha1.PluginArguments{{Name: "NodeAffinity", Args: affinityTo(value)}}
	}
}

func waitForProfiles(ctx context.Context, s scene) []*corev1.Pod {
	GinkgoHelper()
	s.node(ctx)
	s.profile(ctx, onlyOn("elsewhere"))
	return s.waits(ctx, s.pod("waits"))
}

func changeProfiles(ctx context.Context, s scene) {
	GinkgoHelper()
	s.replace(ctx, s.profileObject(onlyOn("nowhere")))
	s.replace(ctx, s.profileObject(onlyOn(s.name)))
}

// config returns the scene's PluginConfig.
func (s scene) config(value string) client.Object {
	return &v1alpha1.PluginConfig{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Spec:       v1alpha1.PluginConfigSpec{Plugin: "NodeAffinity", Args: *affinityTo(value)},
	}
}

func waitForConfigs(ctx context.Context, s scene) []*corev1.Pod {
	GinkgoHelper()
	s.node(ctx)
	s.create(ctx, s.config("elsewhere"))
	s.profile(ctx, func(p *v1alpha1.SchedulingProfileSpec) {
		p.PluginConfig = []v1alpha1.PluginArguments{{Name: "NodeAffinity", ConfigRef: &v1alpha1.PluginConfigReference{Name: s.name}}}
	})
	return s.waits(ctx, s.pod("waits"))
}

func changeConfigs(ctx context.Context, s scene) {
	GinkgoHelper()
	s.replace(ctx, s.config("nowhere"))
	s.replace(ctx, s.config(s.name))
}
