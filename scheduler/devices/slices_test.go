package devices_test

import (
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

const driver = "gpu.example.com"

// slices describes the slices with taints, in the order of the list.
func (env *testEnv) slices() []string {
	env.t.Helper()
	list, err := env.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		env.t.Fatal(err)
	}
	var described []string
	for _, slice := range list {
		name, state := describeObject(slice)
		described = append(described, name+": "+state)
	}
	return described
}

func taint(key string) resourceapi.DeviceTaint {
	return resourceapi.DeviceTaint{Key: key, Effect: resourceapi.DeviceTaintEffectNoSchedule}
}

// write creates or updates an object as another client would, and waits for its events.
func (env *testEnv) write(obj any) {
	env.t.Helper()
	ctx, resource := env.t.Context(), env.cluster.ResourceV1()
	var err error
	switch obj := obj.(type) {
	case *resourceapi.ResourceSlice:
		if _, err = resource.ResourceSlices().Create(ctx, obj, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			_, err = resource.ResourceSlices().Update(ctx, obj, metav1.UpdateOptions{})
		}
	case *resourceapi.DeviceTaintRule:
		if _, err = resource.DeviceTaintRules().Create(ctx, obj, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			_, err = resource.DeviceTaintRules().Update(ctx, obj, metav1.UpdateOptions{})
		}
	case *resourceapi.DeviceClass:
		if _, err = resource.DeviceClasses().Create(ctx, obj, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			_, err = resource.DeviceClasses().Update(ctx, obj, metav1.UpdateOptions{})
		}
	}
	if err != nil {
		env.t.Fatal(err)
	}
	synctest.Wait()
}

func TestSlicesHaveTheTaintsOfRules(t *testing.T) {
	n1 := fixture.ResourceSlice("n1", driver).Device("d0", nil).Device("d1", nil)
	n2 := fixture.ResourceSlice("n2", driver).Device("d0", nil).Taint("own", "", resourceapi.DeviceTaintEffectNoSchedule)
	other := fixture.ResourceSlice("n1", "other.example.com").Device("d0", nil)
	runInVirtualTime(t, func(env *testEnv) {
		const n1Name, n2Name, otherName = "gpu.example.com-n1", "gpu.example.com-n2", "other.example.com-n1"
		env.want("slices", env.slices(), []string{n1Name + ": d0 d1", n2Name + ": d0+own", otherName + ": d0"})

		env.write(fixture.DeviceTaintRule("b", driver, "", "d0", taint("b")))
		env.want("slices with a rule", env.slices(), []string{n1Name + ": d0+b d1", n2Name + ": d0+own+b", otherName + ": d0"})
		env.wantEvents("of the rule", "ResourceSliceUpdate "+n1Name+": d0 d1 -> d0+b d1", "ResourceSliceUpdate "+n2Name+": d0+own -> d0+own+b")

		env.write(fixture.DeviceTaintRule("a", driver, "n1", "", taint("a")))
		env.want("slices with two rules", env.slices()[0], n1Name+": d0+a+b d1+a")
		env.wantEvents("of the second rule", "ResourceSliceUpdate "+n1Name+": d0+b d1 -> d0+a+b d1+a")

		env.write(fixture.DeviceTaintRule("a", driver, "n2", "", taint("a")))
		env.want("slices after the rule has moved", env.slices()[:2], []string{n1Name + ": d0+b d1", n2Name + ": d0+own+a+b"})
		env.wantEvents("of the move", "ResourceSliceUpdate "+n1Name+": d0+a+b d1+a -> d0+b d1", "ResourceSliceUpdate "+n2Name+": d0+own+b -> d0+own+a+b")

		moved := fixture.DeviceTaintRule("a", driver, "n2", "", taint("a"))
		moved.Labels = map[string]string{"x": "y"}
		env.write(moved)
		env.wantEvents("of a rule that taints the same")

		env.write(n1.Device("d2", nil).Obj())
		env.want("slice with a new device", env.slices()[0], n1Name+": d0+b d1 d2")
		env.wantEvents("of the slice", "ResourceSliceUpdate "+n1Name+": d0+b d1 -> d0+b d1 d2")

		for _, name := range []string{"a", "b"} {
			if err := env.cluster.ResourceV1().DeviceTaintRules().Delete(env.t.Context(), name, metav1.DeleteOptions{}); err != nil {
				env.t.Fatal(err)
			}
		}
		if err := env.cluster.ResourceV1().ResourceSlices().Delete(env.t.Context(), otherName, metav1.DeleteOptions{}); err != nil {
			env.t.Fatal(err)
		}
		synctest.Wait()
		env.want("slices without rules", env.slices(), []string{n1Name + ": d0 d1 d2", n2Name + ": d0+own"})
	}, n1.Obj(), n2.Obj(), other.Obj())
}

func TestARuleWithoutSelectorTaintsNothing(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		rule := fixture.DeviceTaintRule("none", driver, "", "", taint("x"))
		rule.Spec.DeviceSelector = nil
		env.write(rule)
		env.want("slices", env.slices(), []string{"gpu.example.com-n1: d0"})
		rule = rule.DeepCopy()
		rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{}
		env.write(rule)
		env.want("slices with a rule for all devices", env.slices(), []string{"gpu.example.com-n1: d0+x"})
	}, fixture.ResourceSlice("n1", driver).Device("d0", nil).Obj())
}

func TestClassesOfExtendedResources(t *testing.T) {
	old := fixture.DeviceClass("old").ExtendedResource("example.com/gpu")
	runInVirtualTime(t, func(env *testEnv) {
		backing := func(resource v1.ResourceName) string {
			if class := env.DeviceClassResolver().GetDeviceClass(resource); class != nil {
				return class.Name
			}
			return ""
		}
		env.want("class", backing("example.com/gpu"), "old")
		env.want("class by its own name", backing("deviceclass.resource.kubernetes.io/old"), "old")
		env.write(fixture.DeviceClass("new").CreationOrder(1).ExtendedResource("example.com/gpu").Obj())
		env.want("newer class", backing("example.com/gpu"), "new")
		env.write(old.ExtendedResource("example.com/other").Obj())
		env.want("class of another resource", backing("example.com/other"), "old")
		if err := env.cluster.ResourceV1().DeviceClasses().Delete(env.t.Context(), "old", metav1.DeleteOptions{}); err != nil {
			env.t.Fatal(err)
		}
		synctest.Wait()
		env.want("deleted class", backing("example.com/other"), "")
		env.wantEvents("of classes", "DeviceClassAdd new: none -> exists", "DeviceClassUpdate old: exists -> exists", "DeviceClassDelete old: exists -> none")
		list, err := env.DeviceClasses().List()
		if err != nil || len(list) != 1 || list[0].Name != "new" {
			env.t.Errorf("got %v, %v", list, err)
		}
		if _, err := env.DeviceClasses().Get("new"); err != nil {
			env.t.Error(err)
		}
	}, old.Obj())
}
