package simulation

import (
	"context"
	"encoding/json"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/plugins/gangscheduling"
	"github.com/berthdev/berth/scheduler/plugins/volumebinding"
	"github.com/berthdev/berth/scheduler/queue"
)

// simVersion is Berth's version in the hashes of Blueprints.
const simVersion = "sim"

// profileSpec is what a user wrote into a profile.
type profileSpec struct {
	number        int
	paused        bool
	tier, build   string
	order         string // "": the default; else first or last
	withoutProbe  bool
	refused       bool // the spec does not compile
	backoff       int32
	withoutScores bool
	gangs         bool // GangScheduling is enabled
	bindTimeout   int  // of VolumeBinding, in seconds; 0: the default
	namesNodes    bool // explanations may name nodes
	silent        bool // no pod is explained
	failsTrial    bool // Probe fails where the spec is tried
}

// admits says whether Probe's Filter passes a node.
func (s *profileSpec) admits(node *v1.Node) bool {
	return s.withoutProbe || s.tier == "" || node.Labels[tierLabel] == s.tier
}

// profile is a SchedulingProfile and its reconciler.
type profile struct {
	sim  *simulation
	name string
	spec *profileSpec // nil: there is no such object
	// generation counts the changes of the spec.
	generation int
	*reconciled
	// hasRevisions says that it was built once.
	hasRevisions bool
}

// reconciled is what the reconciler of one process knows of a profile.
type reconciled struct {
	// observedGeneration is the last generation that was reconciled.
	observedGeneration int
	// running is the spec that runs, as far as the reconciler knows; paused says that the
	// profile holds its pods.
	running *profileSpec
	paused  bool
}

func (p *profile) setSpec(spec *profileSpec) {
	p.spec = spec
	p.generation++
	if spec != nil {
		p.sim.specs[spec.number] = spec
	}
	if p.sim.controllers.on {
		p.put()
	}
	if spec == nil {
		p.sim.logf("outside: profile %s is deleted", p.name)
		return
	}
	p.sim.logf("outside: profile %s: %+v", p.name, *spec)
}

// startReconciler starts the reconciler of a new process.
func (p *profile) startReconciler() {
	state := &reconciled{}
	p.reconciled, p.sim.reconciled = state, append(p.sim.reconciled, state)
	// Other tasks may delay a build for longer than its deadline.
	p.sim.tasks.start("reconciler of "+p.name, func() {
		for {
			p.sim.tasks.yield(func() bool { return state.observedGeneration < p.generation })
			p.reconcile()
		}
	}).ignoreDeadlines = true
}

// reconcile does as the controllers do: a pause comes before the swap and its end after it,
// and a spec that is refused changes nothing.
func (p *profile) reconcile() {
	sim := p.sim
	set := sim.sched.Profiles()
	p.observedGeneration = p.generation
	spec := p.spec
	defer sim.cover.profileChange(p)()
	sim.logf("reconciler: profile %s", p.name)
	if spec == nil {
		set.Delete(p.name)
		p.running, p.paused = nil, false
		return
	}
	if spec.paused {
		p.paused = true
		set.SetPaused(p.name, true)
	}
	blueprint, rejection := compile.Profile(compile.Input{Profile: spec.schedulingProfile(p), Registry: sim.registry(), Version: simVersion})
	if (rejection != nil) != spec.refused {
		sim.failf("profile %s: rejection %v of %+v", p.name, rejection, *spec)
	}
	if rejection != nil {
		sim.count("a rejection")
	} else {
		sim.specOf[blueprint.Hash] = spec.number
		p.hasRevisions = true // before the build, as the history does
		err := set.Apply(context.Background(), blueprint)
		if (err != nil) != (spec.build != "") {
			sim.failf("profile %s: building %+v: %v", p.name, *spec, err)
		}
		if err == nil {
			if p.running != nil {
				sim.countSwap(p.name)
			}
			p.running = spec
		}
	}
	if !spec.paused {
		set.SetPaused(p.name, false)
		p.paused = false
	}
	sim.logf("reconciler: profile %s is done", p.name)
}

// countSwap counts in which situations a profile was swapped.
func (sim *simulation) countSwap(name string) {
	sim.count("a swap")
	for _, pod := range sim.server.sortedPods() {
		if pod.Spec.SchedulerName != name {
			continue
		}
		if sim.sched.Components().Waiting.Has(pod.UID) {
			sim.count("a swap meets a pod at Permit")
		}
		if sim.sched.Components().Queue.Places()[pod.UID] == queue.Unschedulable {
			sim.count("a swap meets a refused pod")
		}
	}
	for _, r := range sim.requests {
		if r.verb == "bind" {
			sim.count("a swap meets a Binding under way")
		}
		if r.verb == writeClaimStatus {
			sim.count("a swap meets an allocation under way")
		}
	}
}

// schedulingProfile is the object that a user would write.
func (s *profileSpec) schedulingProfile(p *profile) *v1alpha1.SchedulingProfile {
	o := &v1alpha1.SchedulingProfile{}
	o.Name, o.Generation = p.name, int64(p.generation)
	o.Spec.State = v1alpha1.StateActive
	if s.paused {
		o.Spec.State = v1alpha1.StatePaused
	}
	o.Spec.Plugins = &v1alpha1.Plugins{}
	o.Spec.Queue.FlushAfterSeconds = ptr.To[int32](0)
	o.Spec.Queue.InitialBackoffSeconds = ptr.To(1 + s.backoff)
	enable(&o.Spec.Plugins.MultiPoint, observerName)
	o.Spec.PluginConfig = append(o.Spec.PluginConfig, arguments(observerName, map[string]any{"spec": s.number}))
	if !s.withoutProbe {
		enable(&o.Spec.Plugins.MultiPoint, probeName)
		o.Spec.PluginConfig = append(o.Spec.PluginConfig, arguments(probeName, map[string]any{"tier": s.tier, "build": s.build, "failsTrial": s.failsTrial}))
	}
	if s.bindTimeout > 0 {
		o.Spec.PluginConfig = append(o.Spec.PluginConfig, arguments(volumebinding.Name, map[string]any{"bindTimeoutSeconds": s.bindTimeout}))
	}
	if s.namesNodes {
		o.Spec.Decisions.Detail = v1alpha1.DetailNodes
	}
	if s.silent {
		o.Spec.Decisions.Explain = v1alpha1.ExplainNone
	}
	if s.gangs {
		enable(&o.Spec.Plugins.MultiPoint, gangscheduling.Name)
	}
	if s.order != "" {
		enable(&o.Spec.Plugins.QueueSort, orderName)
		o.Spec.Plugins.QueueSort.Disabled = []v1alpha1.DisabledPlugin{{Name: v1alpha1.AllPlugins}}
		o.Spec.PluginConfig = append(o.Spec.PluginConfig, arguments(orderName, map[string]any{"last": s.order == "last"}))
	}
	if s.withoutScores {
		o.Spec.Plugins.Score.Disabled = []v1alpha1.DisabledPlugin{{Name: v1alpha1.AllPlugins}}
	}
	if s.refused {
		enable(&o.Spec.Plugins.Filter, "NoSuchPlugin")
	}
	return o
}

func enable(set *v1alpha1.PluginSet, name string) {
	set.Enabled = append(set.Enabled, v1alpha1.EnabledPlugin{Name: name})
}

func arguments(plugin string, values map[string]any) v1alpha1.PluginArguments {
	raw, _ := json.Marshal(values)
	return v1alpha1.PluginArguments{Name: plugin, Args: &runtime.RawExtension{Raw: raw}}
}

// newSpec draws a spec.
func newSpec(sim *simulation, random *rand.Rand) *profileSpec {
	sim.specCount++
	spec := &profileSpec{
		number: sim.specCount, tier: tiers[random.IntN(len(tiers))], order: []string{"", "", "first", "last"}[random.IntN(4)],
		withoutProbe: random.IntN(5) == 0, backoff: int32(random.IntN(3)), withoutScores: random.IntN(8) == 0,
	}
	if sim.hasGangs() {
		spec.gangs = random.IntN(8) > 0
	}
	if sim.explanations.on {
		spec.namesNodes, spec.silent = random.IntN(3) == 0, random.IntN(8) == 0
	}
	if sim.hasVolumes() {
		spec.bindTimeout = []int{0, 0, 3, 100}[random.IntN(4)]
	}
	return spec
}

func pickProfile(sim *simulation, random *rand.Rand) *profile {
	return sim.profiles[random.IntN(len(sim.profiles))]
}

func applyProfile(sim *simulation, random *rand.Rand) bool {
	pickProfile(sim, random).setSpec(newSpec(sim, random))
	return true
}

func refuseProfile(sim *simulation, random *rand.Rand) bool {
	spec := newSpec(sim, random)
	spec.refused = true
	pickProfile(sim, random).setSpec(spec)
	return true
}

func breakProfile(sim *simulation, random *rand.Rand) bool {
	spec := newSpec(sim, random)
	spec.withoutProbe, spec.build = false, []string{"error", "panic"}[random.IntN(2)]
	pickProfile(sim, random).setSpec(spec)
	return true
}

func pauseProfile(sim *simulation, random *rand.Rand) bool {
	p := pickProfile(sim, random)
	if p.spec == nil {
		return false
	}
	other := *p.spec
	other.paused = !other.paused
	p.setSpec(&other)
	return true
}

func deleteProfile(sim *simulation, random *rand.Rand) bool {
	p := pickProfile(sim, random)
	if p.spec == nil {
		return false
	}
	p.setSpec(nil)
	return true
}
