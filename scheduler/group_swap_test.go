package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/plugins"
)

// lastRefuser refuses the pod a-2 at Permit while refuses is true.
type lastRefuser struct{ refuses *bool }

func (lastRefuser) Name() string { return "LastRefuser" }

func (r lastRefuser) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	if pod.Name == "a-2" && *r.refuses {
		return fwk.NewStatus(fwk.Unschedulable, "not yet"), 0
	}
	return nil, 0
}

// refuserPlugins enables GangScheduling and LastRefuser, and gives a plugin a weight.
func refuserPlugins(weight int32) *v1alpha1.Plugins {
	return &v1alpha1.Plugins{
		MultiPoint: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "LastRefuser"}, {Name: "GangScheduling"}}},
		Score:      v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "NodeResourcesFit", Weight: &weight}}},
	}
}

// Two pods of a gang of three wait at Permit for the third, and its profile changes.
func TestAGangThatWaitsAtPermitIsBoundByOneSpecOrNotAtAll(t *testing.T) {
	resume := func(env *testEnv) { env.Profiles().SetPaused("p", false) }
	for name, test := range map[string]struct {
		// change is the change, and end ends what holds the pods; nil for nothing.
		change, end func(env *testEnv)
		// bound are the pods of the gang that are bound before end.
		bound int
	}{
		"nothing changes":          {change: func(*testEnv) {}, bound: 3},
		"the profile changes":      {change: func(env *testEnv) { env.profile("p", refuserPlugins(5)) }, bound: 3},
		"it changes twice":         {change: func(env *testEnv) { env.profile("p", refuserPlugins(5)); env.profile("p", refuserPlugins(1)) }, bound: 3},
		"it is made again":         {change: func(env *testEnv) { env.Profiles().Delete("p"); env.profile("p", refuserPlugins(5)) }, bound: 3},
		"it is deleted":            {change: func(env *testEnv) { env.Profiles().Delete("p") }, end: func(env *testEnv) { env.profile("p", refuserPlugins(1)) }},
		"it is paused":             {change: func(env *testEnv) { env.Profiles().SetPaused("p", true) }, end: resume},
		"it is paused and changes": {change: func(env *testEnv) { env.Profiles().SetPaused("p", true); env.profile("p", refuserPlugins(5)) }, end: resume},
	} {
		t.Run(name, func(t *testing.T) {
			refuses := true
			registry, err := plugins.With(plugins.InTree(), plugins.Register("LastRefuser",
				func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
					return lastRefuser{&refuses}, nil
				}, lastRefuser{}, nil))
			if err != nil {
				t.Fatal(err)
			}
			runTestWith(t, registry, func(env *testEnv) {
				env.profile("p", refuserPlugins(1))
				defer env.startLeading()()
				env.create(gang("a", 3, 3)...)
				waiting := 0
				env.waitingPods.Each(func(fwk.WaitingPod) { waiting++ })
				env.want("before", fmt.Sprint(waiting, " wait, bound ", env.boundOf("a")), "2 wait, bound 0")

				test.change(env)
				refuses = false
				env.create(nodeWithCPUs("another", 1)) // an event that wakes the third
				time.Sleep(6 * time.Minute)
				synctest.Wait()
				env.want("after the change", fmt.Sprint("bound ", env.boundOf("a")), fmt.Sprint("bound ", test.bound))
				if test.end != nil {
					env.want("held", env.counts(), "3 held")
					test.end(env)
					time.Sleep(time.Minute)
					synctest.Wait()
				}
				env.want("in the end", fmt.Sprint("bound ", env.boundOf("a"), " by one spec: ", env.hashesOf("a").Len() == 1), "bound 3 by one spec: true")
			}, nodesWithCPUs(2, 8)...)
		})
	}
}

// hashesOf returns the hashes of the specs that bound the pods of a gang.
func (env *testEnv) hashesOf(gang string) sets.Set[string] {
	hashes := sets.New[string]()
	for _, pod := range env.podsOf(gang) {
		var record struct{ Hash string }
		if text, ok := pod.Annotations[v1alpha1.AnnotationDecision]; ok {
			if err := json.Unmarshal([]byte(text), &record); err != nil {
				env.t.Error(err)
			}
			hashes.Insert(record.Hash)
		}
	}
	return hashes
}
