package dynamicresources

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/devices"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
)

// testEnv is the plugin with Devices over a fake cluster, in virtual time.
type testEnv struct {
	*Plugin
	t       *testing.T
	ctx     context.Context
	cluster *fakecluster.Cluster
	events  *events.FakeRecorder
	// group is the state of the group whose cycle decides the pods; nil for none.
	group *framework.GroupCycleState
}

// handle is the Handle of the plugin.
type handle struct {
	fwk.Handle
	profile string
	devices framework.Devices
	events  events.EventRecorderLogger
}

func (h handle) ProfileName() string                       { return h.profile }
func (h handle) Devices() framework.Devices                { return h.devices }
func (h handle) EventRecorder() events.EventRecorderLogger { return h.events }

// runTest runs test in a synctest bubble with a cluster of objects.
func runTest(t *testing.T, test func(env *testEnv), objects ...runtime.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cluster := fakecluster.New(objects...)
		ctx, cancel := context.WithCancel(t.Context())
		env := &testEnv{t: t, ctx: ctx, cluster: cluster, events: events.NewFakeRecorder(10)}
		d := devices.New(devices.Options{Client: cluster, Clock: clock.RealClock{}})
		factory := informers.NewSharedInformerFactory(cluster, 0)
		kinds := factory.Resource().V1()
		synced, err := d.UseInformers(devices.Informers{
			Claims: kinds.ResourceClaims().Informer(), Slices: kinds.ResourceSlices().Informer(), Classes: kinds.DeviceClasses().Informer(),
			Rules: kinds.DeviceTaintRules().Informer(),
		})
		if err != nil {
			t.Fatal(err)
		}
		args := &configv1.DynamicResourcesArgs{}
		Default(args)
		plugin, err := New(ctx, args, handle{profile: t.Name(), devices: d, events: env.events})
		if err != nil {
			t.Fatal(err)
		}
		env.Plugin = plugin.(*Plugin)
		factory.Start(ctx.Done())
		toolscache.WaitForCacheSync(ctx.Done(), synced...)
		synctest.Wait()
		test(env)
		cancel()
		factory.Shutdown()
	})
}

// want fails the test if got is not want.
func (env *testEnv) want(what string, got, want any) {
	env.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		env.t.Errorf("%s (-want,+got):\n%s", what, diff)
	}
}

// attempt is the result of the scheduling cycle of a pod up to Score.
type attempt struct {
	state *framework.CycleState
	pod   *v1.Pod
	// preFilter is the status of PreFilter, if that was not Success.
	preFilter string
	// rejections, given and score are by node. given are the allocated devices.
	rejections map[string]string
	given      map[string][]string
	score      map[string]int64
}

// evaluate runs PreFilter, Filter and Score for nodes.
func (env *testEnv) evaluate(pod *v1.Pod, nodes ...*v1.Node) attempt {
	env.t.Helper()
	a := attempt{state: framework.NewCycleState(), pod: pod, rejections: map[string]string{}, given: map[string][]string{}, score: map[string]int64{}}
	a.state.SetGroup(env.group)
	if _, status := env.PreFilter(env.ctx, a.state, pod, nil); !status.IsSuccess() {
		a.preFilter = statusText(status)
		return a
	}
	for _, node := range nodes {
		info := framework.NewNodeInfo()
		info.SetNode(node)
		if status := env.Filter(env.ctx, a.state, pod, info); !status.IsSuccess() {
			a.rejections[node.Name] = statusText(status)
			continue
		}
		data, err := getStateData(a.state)
		if err != nil {
			env.t.Fatal(err)
		}
		on, _, err := data.resultsOn(env.ctx, node.Name)
		if err != nil {
			env.t.Fatal(err)
		}
		for i := range on.results {
			a.given[node.Name] = append(a.given[node.Name], devicesOf(&on.results[i])...)
		}
		score, status := env.Score(env.ctx, a.state, pod, info)
		if !status.IsSuccess() {
			env.t.Errorf("Score: %v", status)
		}
		a.score[node.Name] = score
	}
	return a
}

// reserve runs Reserve and fails the test unless it succeeds.
func (env *testEnv) reserve(a attempt, node string) {
	env.t.Helper()
	if status := env.Reserve(env.ctx, a.state, a.pod, node); !status.IsSuccess() {
		env.t.Fatalf("Reserve: %v", status)
	}
}

// bindingMetrics returns the status, number and seconds of the waits for binding conditions.
func (env *testEnv) bindingMetrics() (found string) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(framework.Metrics()...)
	families, err := registry.Gather()
	if err != nil {
		env.t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range m.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if family.GetName() == "scheduler_dra_bindingconditions_wait_duration_seconds" && labels["profile"] == env.handle.ProfileName() {
				found += fmt.Sprint(labels["status"], " ", m.GetHistogram().GetSampleCount(), " ", math.Round(m.GetHistogram().GetSampleSum()))
			}
		}
	}
	return found
}

// claims returns the claims in the API server: "name device reserved-for".
func (env *testEnv) claims() (list []string) {
	for _, claim := range env.cluster.ResourceClaims() {
		text := claim.Name
		if claim.Status.Allocation != nil {
			text += fmt.Sprint(" ", devicesOf(claim.Status.Allocation))
		}
		for _, consumer := range claim.Status.ReservedFor {
			text += " " + consumer.Name
		}
		list = append(list, text)
	}
	slices.Sort(list)
	return list
}

func devicesOf(allocation *resourceapi.AllocationResult) (names []string) {
	for i := range allocation.Devices.Results {
		names = append(names, allocation.Devices.Results[i].Device)
	}
	return names
}

// statusText returns the code and the reasons of a status.
func statusText(status *fwk.Status) string {
	if status == nil {
		return "Success"
	}
	text := status.Code().String()
	for _, reason := range status.Reasons() {
		text += ": " + reason
	}
	return text
}

const driver = "gpu.example.com"

// gpus returns a node's slice with a small and a large device of model a, and one of b.
func gpus(node string) *fixture.ResourceSliceBuilder {
	return fixture.ResourceSlice(node, driver).
		Device("a-small", fixture.Attributes{"model": "a"}, "memory", "40Gi").
		Device("a-large", fixture.Attributes{"model": "a"}, "memory", "80Gi").
		Device("b-large", fixture.Attributes{"model": "b"}, "memory", "80Gi")
}

const (
	modelA = `device.attributes["gpu.example.com"].model == "a"`
	modelB = `device.attributes["gpu.example.com"].model == "b"`
	large  = `device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) >= 0`
)

func class() *resourceapi.DeviceClass {
	return fixture.DeviceClass("gpu").Selector(`device.driver == "gpu.example.com"`).Obj()
}

func claim(name string) *fixture.ResourceClaimBuilder { return fixture.ResourceClaim(name) }

func pod(name string, claims ...string) *v1.Pod {
	builder := fixture.Pod(name)
	for _, claim := range claims {
		builder.ResourceClaim(claim)
	}
	return builder.Obj()
}

func node(name string) *v1.Node { return fixture.Node(name).Obj() }
