package scheduler

import (
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/cells"
	"github.com/berthdev/berth/test/fixture"
)

// Three pods were refused, at Filter, Reserve and Permit, one is gated, and one
// is of a namespace that the profile does not take. No flush comes, and no event
// that any of them waits for. Whom a change does not touch is not tried again.
func TestWhichPodsAChangeRequeues(t *testing.T) {
	const nobody, another, everybody = "", "unclaimed unpermitted", "fitsNowhere gated unclaimed unpermitted"
	for sentence, row := range map[string]struct {
		change func(*cells.Spec)
		tried  string
	}{
		"a PreEnqueue plugin comes":              {withPlugin("Gate2"), nobody},
		"the PreEnqueue plugin goes":             {withoutPlugin("Gate"), "gated"},
		"the PreEnqueue plugin's arguments":      {withArguments("Gate", "open"), "gated"},
		"another QueueSort":                      {func(s *cells.Spec) { withoutPlugin("Sort")(s); withPlugin("Sort2")(s) }, nobody},
		"the QueueSort plugin's arguments":       {withArguments("Sort", "other"), nobody},
		"a PreFilter plugin comes":               {withPlugin("Ahead2"), another},
		"a Filter plugin comes":                  {withPlugin("Fits2"), another},
		"the Filter plugin goes":                 {withoutPlugin("Fits"), "fitsNowhere " + another},
		"a PostFilter plugin comes":              {withPlugin("Room2"), "fitsNowhere"},
		"the PostFilter plugin goes":             {withoutPlugin("Room"), nobody},
		"the PostFilter plugin's arguments":      {withArguments("Room", "other"), "fitsNowhere"},
		"a Score plugin comes":                   {withPlugin("Score2"), another},
		"the Score plugin goes":                  {withoutPlugin("Score"), another},
		"the Score plugin's weight":              {func(s *cells.Spec) { s.Plugins.MultiPoint.Enabled[4].Weight = ptr.To[int32](3) }, another},
		"the Score plugin's arguments":           {withArguments("Score", "other"), another},
		"a Reserve plugin comes":                 {withPlugin("Claims2"), nobody},
		"the Reserve plugin goes":                {withoutPlugin("Claims"), "unclaimed"},
		"the Reserve plugin's arguments":         {withArguments("Claims", "other"), "unclaimed"},
		"a Permit plugin comes":                  {withPlugin("Permits2"), nobody},
		"the Permit plugin goes":                 {withoutPlugin("Permits"), "unpermitted"},
		"a PreBind plugin comes":                 {withPlugin("Binds2"), nobody},
		"the PreBind plugin goes":                {withoutPlugin("Binds"), nobody},
		"the sample of nodes that are looked at": {func(s *cells.Spec) { s.PercentageOfNodesToScore = 40 }, another},
		"the initial backoff":                    {func(s *cells.Spec) { s.Queue.InitialBackoffSeconds = ptr.To[int32](2) }, nobody},
		"the longest backoff":                    {func(s *cells.Spec) { s.Queue.MaxBackoffSeconds = ptr.To[int32](90) }, nobody},
		"the flush, where it is not due":         {func(s *cells.Spec) { s.Queue.FlushAfterSeconds = ptr.To[int32](86400) }, nobody},
		"more namespaces":                        {func(s *cells.Spec) { s.AllowedNamespaces = namespacesLabelled("either") }, "elsewhere"},
		"all namespaces":                         {func(s *cells.Spec) { s.AllowedNamespaces = v1alpha1.AllowedNamespaces{} }, "elsewhere"},
		"fewer namespaces":                       {func(s *cells.Spec) { s.AllowedNamespaces = namespacesLabelled("none") }, nobody},
		"how many scores are told":               {func(s *cells.Spec) { s.Decisions.TopScores = ptr.To[int32](1) }, nobody},
		"how much history is kept":               {func(s *cells.Spec) { s.Decisions.History = ptr.To[int32](1) }, nobody},
		"that nodes may be named":                {func(s *cells.Spec) { s.Decisions.Detail = v1alpha1.DetailNodes }, "fitsNowhere " + another},
		"that nobody is explained":               {func(s *cells.Spec) { s.Decisions.Explain = v1alpha1.ExplainNone }, "fitsNowhere " + another},
		"that who is bound is explained":         {func(s *cells.Spec) { s.Decisions.Explain = v1alpha1.ExplainAll }, nobody},
		"who may switch it on":                   {func(s *cells.Spec) { s.Activation = v1alpha1.ActivationManual }, nobody},
	} {
		t.Run("when this changes: "+sentence, func(t *testing.T) {
			runRejecterCase(t, func(c *swapCase) {
				profileUser{c}.Edit(row.change)
				c.want("tried again", c.triedPods(), row.tried)
			})
		})
	}
	for sentence, row := range map[string]struct {
		change func(c *swapCase)
		tried  string
	}{
		"nothing but the number": {func(c *swapCase) { profileUser{c}.Edit(nil) }, nobody},
		"a PluginConfig": {func(c *swapCase) {
			profileUser{c}.EditConfig("other")
		}, "fitsNowhere " + another},
		"the state, there and back": {func(c *swapCase) { c.pause(true); c.pause(false) }, "fitsNowhere " + another},
		"that nodes may be named, taken back": {func(c *swapCase) {
			profileUser{c}.Edit(func(s *cells.Spec) { s.Decisions.Detail = v1alpha1.DetailNodes })
			profileUser{c}.Edit(func(s *cells.Spec) { s.Decisions.Detail = v1alpha1.DetailReasons })
		}, "fitsNowhere " + another},
		"there and back at once": {func(c *swapCase) {
			profileUser{c}.Edit(withPlugin("Permits2"))
			profileUser{c}.Edit(withoutPlugin("Permits2"))
		}, nobody},
		"the profile, deleted and created anew": {func(c *swapCase) {
			profileUser{c}.Delete()
			profileUser{c}.Create(withoutPlugin("Gate"))
		}, everybody},
	} {
		t.Run("when this changes: "+sentence, func(t *testing.T) {
			runRejecterCase(t, func(c *swapCase) {
				row.change(c)
				c.want("tried again", c.triedPods(), row.tried)
			})
		})
	}
}

func runRejecterCase(t *testing.T, test func(*swapCase)) {
	runTestWith(t, rejecterRegistry(), func(w *testEnv) {
		c := newRejecterCase(w)
		defer func() { c.stopLeading() }()
		test(c)
		synctest.Wait()
	}, node("n1"),
		fixture.Namespace("default").Label("default", "yes").Label("either", "yes").Obj(),
		fixture.Namespace("other").Label("either", "yes").Obj())
}

// A pod that a change holds, or lets go, is not forgotten on the way.
func TestWherePodsAreAfterAChange(t *testing.T) {
	for sentence, row := range map[string]struct {
		change func(c *swapCase)
		want   string
	}{
		"a gate that comes keeps one who sleeps": {func(c *swapCase) { profileUser{c}.Edit(withPlugin("Gate2")) }, "2 unschedulable, 2 gated, 1 parked"},
		"a pause parks all":                      {func(c *swapCase) { c.pause(true) }, "5 parked"},
		"fewer namespaces park all": {func(c *swapCase) {
			profileUser{c}.Edit(func(s *cells.Spec) { s.AllowedNamespaces = namespacesLabelled("none") })
		}, "5 parked"},
		"other namespaces park some": {func(c *swapCase) {
			profileUser{c}.Edit(func(s *cells.Spec) { s.AllowedNamespaces = namespacesLabelled("either") })
		}, "3 unschedulable, 1 gated"},
	} {
		t.Run(sentence, func(t *testing.T) {
			runRejecterCase(t, func(c *swapCase) {
				row.change(c)
				synctest.Wait()
				c.want("the queue", c.counts(), row.want)
			})
		})
	}
}

// Room that others' leaving would make is of no use while one more plugin
// refuses the pod then. None of its events wakes the pod, since it was not what
// refused it; that it goes does.
func TestARejectorThatRemainsAfterPreemptionCounts(t *testing.T) {
	runWithInTreePlugins(t, func(w *testEnv) {
		w.create(podWithCPUs("bank/big", 3, 9).RequirePodAffinity(fixture.PodAffinityTerm(v1.LabelHostname, "app", "nobody")).Obj())
		w.want("the queue", w.counts(), "1 unschedulable")
		w.wantLines("calls", w.bindsAndDeletes())
		without := func(name string) *v1alpha1.Plugins {
			return &v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{Disabled: []v1alpha1.DisabledPlugin{{Name: name}}}}
		}
		w.profile("p", without("TaintToleration"))
		w.want("the queue when another plugin goes", w.counts(), "1 unschedulable")
		w.profile("p", without("InterPodAffinity"))
		w.wantLines("calls when it goes", w.bindsAndDeletes(), "delete a", "bind big n1")
	}, nodeWithCPUs("n1", 4), podWithCPUs("shop/a", 2, 1).On("n1").Obj())
}
