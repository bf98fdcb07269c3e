package devices_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/support/fixture"
)

// In random histories the slices and their events are those of the tracker of
// k8s.io/dynamic-resource-allocation, which applies rules in the order of a map.
func TestSlicesAreThoseOfTheTracker(t *testing.T) {
	for seed := range uint64(5) {
		runInVirtualTime(t, func(env *testEnv) {
			factory := informers.NewSharedInformerFactory(env.cluster, 0)
			defer factory.Shutdown()
			ctx, cancel := context.WithCancel(env.t.Context())
			defer cancel()
			reference, err := tracker.StartTracker(ctx, tracker.Options{
				EnableDeviceTaintRules: true,
				SliceInformer:          resourceinformers.ToTypedResourceSliceInformer(factory.Resource().V1().ResourceSlices()),
				TaintInformer:          resourceinformers.ToTypedDeviceTaintRuleInformer(factory.Resource().V1().DeviceTaintRules()),
			})
			if err != nil {
				env.t.Fatal(err)
			}
			var ours, theirs []string
			env.onSliceEvent = func(happened fwk.ClusterEvent, before, after any) {
				ours = addSliceEvent(ours, happened, before, after)
			}
			record := func(action fwk.ActionType, before, after any) {
				theirs = addSliceEvent(theirs, fwk.ClusterEvent{Resource: fwk.ResourceSlice, ActionType: action}, before, after)
			}
			_, err = reference.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc: func(obj any) { record(fwk.Add, nil, obj) }, UpdateFunc: func(before, after any) { record(fwk.Update, before, after) },
				DeleteFunc: func(obj any) { record(fwk.Delete, obj, nil) },
			})
			if err != nil {
				env.t.Fatal(err)
			}
			factory.Start(ctx.Done())
			factory.WaitForCacheSync(ctx.Done())
			synctest.Wait()
			random := rand.New(rand.NewPCG(seed, 2))
			for step := range 60 {
				what := env.changeSliceOrRule(random)
				synctest.Wait()
				want, _ := reference.ListPatchedResourceSlices()
				got, _ := env.ResourceSlices().ListWithDeviceTaintRules()
				when := fmt.Sprintf("seed %d, step %d (%s): ", seed, step, what)
				env.want(when+"slices", sortedSlices(got), sortedSlices(want))
				slices.Sort(theirs)
				slices.Sort(ours)
				env.want(when+"events", ours, theirs)
				ours, theirs = nil, nil
			}
		})
	}
}

// addSliceEvent adds the description of an event, unless nothing changes but the order of
// taints.
func addSliceEvent(events []string, happened fwk.ClusterEvent, before, after any) []string {
	before, after = sortedTaints(before), sortedTaints(after)
	_, old := describeObject(before)
	if _, current := describeObject(after); old == current {
		return events
	}
	return append(events, describe(happened, before, after))
}

// changeSliceOrRule writes or deletes a slice or a rule.
func (env *testEnv) changeSliceOrRule(random *rand.Rand) string {
	ctx, resource := env.t.Context(), env.cluster.ResourceV1()
	node, rule := fmt.Sprint("n", random.IntN(3)), fmt.Sprint("r", random.IntN(3))
	switch random.IntN(6) {
	case 0:
		_ = resource.ResourceSlices().Delete(ctx, driver+"-"+node, metav1.DeleteOptions{})
		return "delete slice " + node
	case 1:
		_ = resource.DeviceTaintRules().Delete(ctx, rule, metav1.DeleteOptions{})
		return "delete rule " + rule
	case 2, 3:
		slice := fixture.ResourceSlice(node, driver)
		for i := range random.IntN(4) {
			slice.Device(fmt.Sprint("d", i), nil)
			if random.IntN(3) == 0 {
				slice.Taint("own", "", resourceapi.DeviceTaintEffectNoExecute)
			}
		}
		env.write(slice.Obj())
		return "write slice " + node
	}
	pick := func(prefix string) string { return []string{"", prefix + "0", prefix + "1"}[random.IntN(3)] }
	env.write(fixture.DeviceTaintRule(rule, driver, pick("n"), pick("d"), taint(fmt.Sprint("t", random.IntN(2)))))
	return "write rule " + rule
}

// sortedTaints returns a copy of a slice with its taints in order; obj if it is no slice.
func sortedTaints(obj any) any {
	slice, ok := obj.(*resourceapi.ResourceSlice)
	if !ok {
		return obj
	}
	slice = slice.DeepCopy()
	for i := range slice.Spec.Devices {
		slices.SortFunc(slice.Spec.Devices[i].Taints, func(a, b resourceapi.DeviceTaint) int { return cmp.Compare(a.Key, b.Key) })
	}
	return slice
}

func sortedSlices(list []*resourceapi.ResourceSlice) []string {
	described := []string{}
	for _, slice := range list {
		name, state := describeObject(sortedTaints(slice))
		described = append(described, name+": "+state)
	}
	slices.Sort(described)
	return described
}
