package swap

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/operator"
	"github.com/berthdev/berth/test/support/swapmatrix"
)

// generationID identifies a generation as decisions do.
type generationID struct {
	Hash       string `json:"hash"`
	Generation int64  `json:"generation"`
}

// runPeriod is the time in which a generation may have run, as observed from outside: from
// the request for it until its successor was seen.
type runPeriod struct {
	generationID
	from, until time.Time
}

// profileState is the profile and the PluginConfig as written.
type profileState struct {
	spec    swapmatrix.Spec
	profile *v1alpha1.SchedulingProfile
	config  *v1alpha1.PluginConfig
	swapmatrix.HoldState
	// rejected says that what is written does not run.
	rejected bool
	// running is the generation that runs, and intermediate are those that ran for a moment
	// during the change.
	running      generationID
	intermediate []generationID
	history      []runPeriod
}

// editor makes the changes of the matrix.
type editor struct{ *cell }

var _ swapmatrix.ProfileEditor = editor{}

func (u editor) Stage(edit func(*swapmatrix.Spec)) {
	if edit != nil {
		edit(&u.spec)
	}
}

func (u editor) Edit(edit func(*swapmatrix.Spec)) {
	u.Stage(edit)
	asked := time.Now()
	u.writeProfile()
	u.waitUntilRuns(asked, "")
}

func (u editor) EditRejected(edit func(*swapmatrix.Spec)) {
	u.rejected = true
	u.Stage(edit)
	u.writeProfile()
	u.eventually(func(g Gomega) {
		u.readProfile(g)
		u.expectCondition(g, v1alpha1.ConditionProgrammed, metav1.ConditionFalse)
	}, "the edit is rejected")
}

func (u editor) EditBriefly(edit func(*swapmatrix.Spec)) {
	u.Edit(edit)
	u.intermediate = append(u.intermediate, u.running)
}

// EditTwice reads the first generation's hash from the profile's revisions.
func (u editor) EditTwice(first, second func(*swapmatrix.Spec)) {
	slow := make(chan struct{})
	u.mu.Lock()
	u.buildGate = slow
	u.mu.Unlock()
	known, asked := u.revisionHashes(), time.Now()
	u.Stage(first)
	u.writeProfile()
	passing := u.profile.Generation
	u.eventually(func(g Gomega) {
		u.mu.Lock()
		defer u.mu.Unlock()
		g.Expect(u.building).To(BeNumerically(">", 0))
	}, "the first is being built")
	u.Stage(second)
	u.writeProfile()
	u.mu.Lock()
	u.buildGate = nil
	u.mu.Unlock()
	close(slow)
	before := u.running
	u.waitUntilRuns(asked, before.Hash)
	for hash := range u.revisionHashes() {
		if !known[hash] && hash != u.running.Hash {
			u.intermediate = append(u.intermediate, generationID{hash, passing})
			u.history = append(u.history, runPeriod{generationID{hash, passing}, asked, time.Now()})
		}
	}
}

func (u editor) EditConfig(mark string) {
	asked, before := time.Now(), u.running.Hash
	u.eventually(func(g Gomega) {
		g.Expect(admin.Get(u.ctx, client.ObjectKeyFromObject(u.config), u.config)).To(Succeed())
		u.config.Spec.Args = swapmatrix.Arguments(mark)
		g.Expect(admin.Update(u.ctx, u.config)).To(Succeed())
	}, "the PluginConfig is written")
	u.waitUntilRuns(asked, before)
}

func (u editor) DeleteConfig() {
	u.rejected = true
	u.Expect(admin.Delete(u.ctx, u.config)).To(Succeed())
	u.eventually(func(g Gomega) {
		u.readProfile(g)
		u.expectCondition(g, v1alpha1.ConditionResolvedRefs, metav1.ConditionFalse)
	}, "the PluginConfig is missing")
}

func (u editor) Pause() {
	u.Paused = true
	u.Edit(func(s *swapmatrix.Spec) { s.State = v1alpha1.StatePaused })
}

// resume ends a pause. A rejected spec stays rejected.
func (u editor) resume() {
	u.Paused = false
	active := func(s *swapmatrix.Spec) { s.State = v1alpha1.StateActive }
	if u.rejected {
		u.EditRejected(active)
	} else {
		u.Edit(active)
	}
}

func (u editor) DisallowNamespace() {
	u.NamespaceDisallowed = true
	u.Edit(swapmatrix.DisallowAllNamespaces)
}

func (u editor) Delete() {
	u.Paused, u.Deleted, u.spec.State = false, true, v1alpha1.StateActive
	u.Expect(admin.Delete(u.ctx, u.profile)).To(Succeed())
	u.waitUntilGone()
	u.endPeriods(time.Now())
}

func (u editor) Create(edit func(*swapmatrix.Spec)) {
	u.Deleted = false
	u.profile = nil
	u.Edit(edit)
}

// writeProfile writes the spec, in a new profile if there is none.
func (c *cell) writeProfile() {
	if c.profile == nil {
		c.profile = &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: c.name}, Spec: *c.spec.DeepCopy()}
		c.Expect(admin.Create(c.ctx, c.profile)).To(Succeed())
		return
	}
	c.eventually(func(g Gomega) {
		c.readProfile(g)
		c.profile.Spec = *c.spec.DeepCopy()
		g.Expect(admin.Update(c.ctx, c.profile)).To(Succeed())
	}, "the profile is written")
}

func (c *cell) readProfile(g Gomega) {
	g.Expect(admin.Get(c.ctx, client.ObjectKeyFromObject(c.profile), c.profile)).To(Succeed())
}

// expectCondition expects a condition of the current generation.
func (c *cell) expectCondition(g Gomega, kind v1alpha1.ConditionType, status metav1.ConditionStatus) {
	found := meta.FindStatusCondition(c.profile.Status.Conditions, string(kind))
	g.Expect(found).To(HaveValue(SatisfyAll(
		HaveField("Status", status), HaveField("ObservedGeneration", c.profile.Generation))), string(kind))
}

// waitUntilRuns waits until the status says that the spec runs, with another hash than not,
// and that it is paused if it is.
func (c *cell) waitUntilRuns(asked time.Time, not string) {
	c.eventually(func(g Gomega) {
		c.readProfile(g)
		c.expectCondition(g, v1alpha1.ConditionProgrammed, metav1.ConditionTrue)
		ready := metav1.ConditionTrue
		if c.Paused {
			ready = metav1.ConditionFalse
		}
		c.expectCondition(g, v1alpha1.ConditionReady, ready)
		g.Expect(c.profile.Status.Programmed).To(HaveValue(SatisfyAll(
			HaveField("Hash", Not(Equal(not))), HaveField("Generation", c.profile.Generation))))
	}, "it runs as written")
	c.endPeriods(time.Now())
	c.running = generationID{c.profile.Status.Programmed.Hash, c.profile.Status.Programmed.Generation}
	c.history = append(c.history, runPeriod{generationID: c.running, from: asked})
}

// endPeriods ends the period of what ran until now.
func (c *cell) endPeriods(now time.Time) {
	for i := range c.history {
		if c.history[i].until.IsZero() {
			c.history[i].until = now
		}
	}
}

// waitUntilGone waits until the manager no longer serves the name.
func (c *cell) waitUntilGone() {
	c.eventually(func(g Gomega) {
		_, runs := berth.Scheduler().Profiles().Running(c.name)
		g.Expect(runs).To(BeFalse())
	}, "the profile is gone")
}

// revisionHashes returns the hashes in the profile's history.
func (c *cell) revisionHashes() map[string]bool {
	var list appsv1.ControllerRevisionList
	c.Expect(admin.List(context.WithoutCancel(c.ctx), &list, client.InNamespace(operator.Namespace))).To(Succeed())
	hashes := map[string]bool{}
	for _, r := range list.Items {
		if hash, its := strings.CutPrefix(r.Name, c.name+"-"); its {
			hashes[hash] = true
		}
	}
	return hashes
}
