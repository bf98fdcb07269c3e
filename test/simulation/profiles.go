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
)

// wish is what a user wrote into a profile.
type wish struct {
	mark          int
	paused        bool
	tier, build   string
	order         string // "": as upstream; else first or last
	withoutProbe  bool
	refused       bool // the spec does not compile
	backoff       int32
	withoutScores bool
}

// admits says whether the spec lets pods onto a node.
func (s *wish) admits(node *v1.Node) bool {
	return s.withoutProbe || s.tier == "" || node.Labels[tierLabel] == s.tier
}

// profile is a name and its reconciler, which brings to run what is wished.
type profile struct {
	world *world
	name  string
	wish  *wish // nil: there is no such object
	// edits counts the wishes, seen those that were brought to run.
	edits, seen int
	// runs is the wish that runs, as far as the reconciler was told; paused
	// says that it holds its pods.
	runs   *wish
	paused bool
	// known says that it was built once: it has revisions.
	known bool
}

func (p *profile) want(wish *wish) {
	p.wish = wish
	p.edits++
	if wish == nil {
		p.world.say("outside: profile %s is deleted", p.name)
		return
	}
	p.world.wishes[wish.mark] = wish
	p.world.say("outside: profile %s: %+v", p.name, *wish)
}

// boot starts the reconciler of a new process, which runs nothing yet.
func (p *profile) boot() {
	p.seen, p.runs, p.paused = 0, nil, false
	// Other work may keep a build waiting for longer than it may take.
	p.world.tasks.start("reconciler of "+p.name, func() {
		for {
			p.world.tasks.park(func() bool { return p.seen < p.edits })
			p.reconcile()
		}
	}).patient = true
}

// reconcile does as controllers does: a pause comes before the swap and its
// end after it, and what is refused changes nothing.
func (p *profile) reconcile() {
	w := p.world
	set := w.sched.Profiles()
	p.seen = p.edits
	wish := p.wish
	w.say("reconciler: profile %s", p.name)
	if wish == nil {
		set.Delete(p.name)
		p.runs, p.paused = nil, false
		return
	}
	if wish.paused {
		p.paused = true
		set.SetPaused(p.name, true)
	}
	blueprint, rejection := compile.Profile(compile.Input{Profile: wish.object(p), Registry: w.registry(), Version: "sim"})
	if (rejection != nil) != wish.refused {
		w.fail("profile %s: rejection %v of %+v", p.name, rejection, *wish)
	}
	if rejection != nil {
		w.count("a rejection")
	} else {
		w.markOf[blueprint.Hash] = wish.mark
		p.known = true // before the build, as the history has it
		err := set.Apply(context.Background(), blueprint)
		if (err != nil) != (wish.build != "") {
			w.fail("profile %s: building %+v: %v", p.name, *wish, err)
		}
		if err == nil {
			if p.runs != nil {
				w.countSwap(p.name)
			}
			p.runs = wish
		}
	}
	if !wish.paused {
		set.SetPaused(p.name, false)
		p.paused = false
	}
	w.say("reconciler: profile %s is done", p.name)
}

// object is the SchedulingProfile that a user would write.
func (s *wish) object(p *profile) *v1alpha1.SchedulingProfile {
	o := &v1alpha1.SchedulingProfile{}
	o.Name, o.Generation = p.name, int64(p.edits)
	o.Spec.State = v1alpha1.StateActive
	if s.paused {
		o.Spec.State = v1alpha1.StatePaused
	}
	o.Spec.Plugins = &v1alpha1.Plugins{}
	o.Spec.Queue.FlushAfterSeconds = ptr.To[int32](0)
	o.Spec.Queue.InitialBackoffSeconds = ptr.To(1 + s.backoff)
	enable(&o.Spec.Plugins.MultiPoint, witnessName)
	o.Spec.PluginConfig = append(o.Spec.PluginConfig, arguments(witnessName, map[string]any{"mark": s.mark}))
	if !s.withoutProbe {
		enable(&o.Spec.Plugins.MultiPoint, probeName)
		o.Spec.PluginConfig = append(o.Spec.PluginConfig, arguments(probeName, map[string]any{"tier": s.tier, "build": s.build}))
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

// newWish draws what a user may want.
func newWish(w *world, dice *rand.Rand) *wish {
	w.marks++
	return &wish{
		mark: w.marks, tier: tiers[dice.IntN(len(tiers))], order: []string{"", "", "first", "last"}[dice.IntN(4)],
		withoutProbe: dice.IntN(5) == 0, backoff: int32(dice.IntN(3)), withoutScores: dice.IntN(8) == 0,
	}
}

func someProfile(w *world, dice *rand.Rand) *profile { return w.profiles[dice.IntN(len(w.profiles))] }

func applyProfile(w *world, dice *rand.Rand) bool {
	someProfile(w, dice).want(newWish(w, dice))
	return true
}

func refuseProfile(w *world, dice *rand.Rand) bool {
	wish := newWish(w, dice)
	wish.refused = true
	someProfile(w, dice).want(wish)
	return true
}

func breakProfile(w *world, dice *rand.Rand) bool {
	wish := newWish(w, dice)
	wish.withoutProbe, wish.build = false, []string{"error", "panic"}[dice.IntN(2)]
	someProfile(w, dice).want(wish)
	return true
}

func pauseProfile(w *world, dice *rand.Rand) bool {
	p := someProfile(w, dice)
	if p.wish == nil {
		return false
	}
	other := *p.wish
	other.paused = !other.paused
	p.want(&other)
	return true
}

func deleteProfile(w *world, dice *rand.Rand) bool {
	p := someProfile(w, dice)
	if p.wish == nil {
		return false
	}
	p.want(nil)
	return true
}
