package swap

import (
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/swapmatrix"
)

// stamp names a generation as decisions do.
type stamp struct {
	Hash       string `json:"hash"`
	Generation int64  `json:"generation"`
}

// ran is when a stamp may have been what runs, as far as can be told from
// outside: from when it was asked for until its successor was seen.
type ran struct {
	stamp
	from, until time.Time
}

// desk is where a profile and its PluginConfig are written.
type desk struct {
	spec    swapmatrix.Spec
	profile *v1alpha1.SchedulingProfile
	config  *v1alpha1.PluginConfig
	swapmatrix.HoldState
	// refused says that what is written does not run.
	refused bool
	// runs is what runs when all is well; between are those that ran for a
	// moment while the change was made.
	runs    stamp
	between []stamp
	history []ran
}

// user does what the table of changes says.
type user struct{ *cell }

var _ swapmatrix.ProfileEditor = user{}

func (u user) Stage(edit func(*swapmatrix.Spec)) {
	if edit != nil {
		edit(&u.spec)
	}
}

func (u user) Edit(edit func(*swapmatrix.Spec)) {
	u.Stage(edit)
	asked := time.Now()
	u.send()
	u.untilItRuns(asked, "")
}

func (u user) EditRejected(edit func(*swapmatrix.Spec)) {
	u.refused = true
	u.Stage(edit)
	u.send()
	u.eventually(func(g Gomega) {
		u.read(g)
		u.says(g, v1alpha1.ConditionProgrammed, metav1.ConditionFalse)
	}, "the edit is refused")
}

func (u user) EditBriefly(edit func(*swapmatrix.Spec)) {
	u.Edit(edit)
	u.between = append(u.between, u.runs)
}

// EditTwice tells from the profile's revisions what the first of the two was.
func (u user) EditTwice(first, second func(*swapmatrix.Spec)) {
	slow := make(chan struct{})
	u.mu.Lock()
	u.slow = slow
	u.mu.Unlock()
	known, asked := u.revisions(), time.Now()
	u.Stage(first)
	u.send()
	passing := u.profile.Generation
	u.eventually(func(g Gomega) {
		u.mu.Lock()
		defer u.mu.Unlock()
		g.Expect(u.building).To(BeNumerically(">", 0))
	}, "the first is being built")
	u.Stage(second)
	u.send()
	u.mu.Lock()
	u.slow = nil
	u.mu.Unlock()
	close(slow)
	before := u.runs
	u.untilItRuns(asked, before.Hash)
	for hash := range u.revisions() {
		if !known[hash] && hash != u.runs.Hash {
			u.between = append(u.between, stamp{hash, passing})
			u.history = append(u.history, ran{stamp{hash, passing}, asked, time.Now()})
		}
	}
}

func (u user) EditConfig(mark string) {
	asked, before := time.Now(), u.runs.Hash
	u.eventually(func(g Gomega) {
		g.Expect(admin.Get(u.ctx, client.ObjectKeyFromObject(u.config), u.config)).To(Succeed())
		u.config.Spec.Args = swapmatrix.Arguments(mark)
		g.Expect(admin.Update(u.ctx, u.config)).To(Succeed())
	}, "the PluginConfig is written")
	u.untilItRuns(asked, before)
}

func (u user) DeleteConfig() {
	u.refused = true
	u.Expect(admin.Delete(u.ctx, u.config)).To(Succeed())
	u.eventually(func(g Gomega) {
		u.read(g)
		u.says(g, v1alpha1.ConditionResolvedRefs, metav1.ConditionFalse)
	}, "the PluginConfig is missed")
}

func (u user) Pause() {
	u.Paused = true
	u.Edit(func(s *swapmatrix.Spec) { s.State = v1alpha1.StatePaused })
}

// resume ends a pause. What is refused besides stays refused.
func (u user) resume() {
	u.Paused = false
	active := func(s *swapmatrix.Spec) { s.State = v1alpha1.StateActive }
	if u.refused {
		u.EditRejected(active)
	} else {
		u.Edit(active)
	}
}

func (u user) DisallowNamespace() {
	u.NamespaceDisallowed = true
	u.Edit(swapmatrix.DisallowAllNamespaces)
}

func (u user) Delete() {
	u.Paused, u.Deleted, u.spec.State = false, true, v1alpha1.StateActive
	u.Expect(admin.Delete(u.ctx, u.profile)).To(Succeed())
	u.untilGone()
	u.over(time.Now())
}

func (u user) Create(edit func(*swapmatrix.Spec)) {
	u.Deleted = false
	u.profile = nil
	u.Edit(edit)
}
