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
)

// What the API server is told of a profile, and what it tells.

// send writes the spec, in a new profile where there is none.
func (c *cell) send() {
	if c.profile == nil {
		c.profile = &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: c.name}, Spec: *c.spec.DeepCopy()}
		c.Expect(admin.Create(c.ctx, c.profile)).To(Succeed())
		return
	}
	c.eventually(func(g Gomega) {
		c.read(g)
		c.profile.Spec = *c.spec.DeepCopy()
		g.Expect(admin.Update(c.ctx, c.profile)).To(Succeed())
	}, "the profile is written")
}

func (c *cell) read(g Gomega) {
	g.Expect(admin.Get(c.ctx, client.ObjectKeyFromObject(c.profile), c.profile)).To(Succeed())
}

// says wants a condition of the profile, as it was read last, to be about what
// is written.
func (c *cell) says(g Gomega, kind v1alpha1.ConditionType, status metav1.ConditionStatus) {
	found := meta.FindStatusCondition(c.profile.Status.Conditions, string(kind))
	g.Expect(found).To(HaveValue(SatisfyAll(
		HaveField("Status", status), HaveField("ObservedGeneration", c.profile.Generation))), string(kind))
}

// untilItRuns waits until the status says that what was asked for runs, under
// another hash than not, and that it is paused where it is.
func (c *cell) untilItRuns(asked time.Time, not string) {
	c.eventually(func(g Gomega) {
		c.read(g)
		c.says(g, v1alpha1.ConditionProgrammed, metav1.ConditionTrue)
		ready := metav1.ConditionTrue
		if c.Paused {
			ready = metav1.ConditionFalse
		}
		c.says(g, v1alpha1.ConditionReady, ready)
		g.Expect(c.profile.Status.Programmed).To(HaveValue(SatisfyAll(
			HaveField("Hash", Not(Equal(not))), HaveField("Generation", c.profile.Generation))))
	}, "it runs as written")
	c.over(time.Now())
	c.runs = stamp{c.profile.Status.Programmed.Hash, c.profile.Status.Programmed.Generation}
	c.history = append(c.history, ran{stamp: c.runs, from: asked})
}

// over says that what ran runs no more.
func (c *cell) over(now time.Time) {
	for i := range c.history {
		if c.history[i].until.IsZero() {
			c.history[i].until = now
		}
	}
}

// untilGone waits until the manager serves the name no more.
func (c *cell) untilGone() {
	c.eventually(func(g Gomega) {
		_, runs := berth.Scheduler().Profiles().Running(c.name)
		g.Expect(runs).To(BeFalse())
	}, "the profile is gone")
}

// revisions are the hashes in the profile's history.
func (c *cell) revisions() map[string]bool {
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
