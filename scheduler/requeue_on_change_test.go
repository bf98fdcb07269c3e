package scheduler

import (
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/swapmatrix"
)

// Three pods are unschedulable, rejected at Filter, Reserve and Permit; one is gated, and one
// is held since the profile does not allow its namespace. There is no flush, and none of the
// events that they wait for comes: only a change that concerns a pod may requeue it.
func TestWhichPodsAChangeRequeues(t *testing.T) {
	const none, another, all = "", "unclaimed unpermitted", "fitsNowhere gated unclaimed unpermitted"
	for name, row := range map[string]struct {
		change func(*swapmatrix.Spec)
		tried  string
	}{
		"a PreEnqueue plugin is added":      {withPlugin("Gate2"), none},
		"the PreEnqueue plugin is removed":  {withoutPlugin("Gate"), "gated"},
		"the PreEnqueue plugin's arguments": {withArguments("Gate", "open"), "gated"},
		"another QueueSort":                 {func(s *swapmatrix.Spec) { withoutPlugin("Sort")(s); withPlugin("Sort2")(s) }, none},
		"the QueueSort plugin's arguments":  {withArguments("Sort", "other"), none},
		"a PreFilter plugin is added":       {withPlugin("Ahead2"), another},
		"a Filter plugin is added":          {withPlugin("Fits2"), another},
		"the Filter plugin is removed":      {withoutPlugin("Fits"), "fitsNowhere " + another},
		"a PostFilter plugin is added":      {withPlugin("Room2"), "fitsNowhere"},
		"the PostFilter plugin is removed":  {withoutPlugin("Room"), none},
		"the PostFilter plugin's arguments": {withArguments("Room", "other"), "fitsNowhere"},
		"a Score plugin is added":           {withPlugin("Score2"), another},
		"the Score plugin is removed":       {withoutPlugin("Score"), another},
		"the Score plugin's weight":         {func(s *swapmatrix.Spec) { s.Plugins.MultiPoint.Enabled[4].Weight = ptr.To[int32](3) }, another},
		"the Score plugin's arguments":      {withArguments("Score", "other"), another},
		"a Reserve plugin is added":         {withPlugin("Claims2"), none},
		"the Reserve plugin is removed":     {withoutPlugin("Claims"), "unclaimed"},
		"the Reserve plugin's arguments":    {withArguments("Claims", "other"), "unclaimed"},
		"a Permit plugin is added":          {withPlugin("Permits2"), none},
		"the Permit plugin is removed":      {withoutPlugin("Permits"), "unpermitted"},
		"a PreBind plugin is added":         {withPlugin("Binds2"), none},
		"the PreBind plugin is removed":     {withoutPlugin("Binds"), none},
		"percentageOfNodesToScore":          {func(s *swapmatrix.Spec) { s.PercentageOfNodesToScore = 40 }, another},
		"the initial backoff":               {func(s *swapmatrix.Spec) { s.Queue.InitialBackoffSeconds = ptr.To[int32](2) }, none},
		"the maximum backoff":               {func(s *swapmatrix.Spec) { s.Queue.MaxBackoffSeconds = ptr.To[int32](90) }, none},
		"the flush, where it is not due":    {func(s *swapmatrix.Spec) { s.Queue.FlushAfterSeconds = ptr.To[int32](86400) }, none},
		"more namespaces":                   {func(s *swapmatrix.Spec) { s.AllowedNamespaces = namespacesLabelled("either") }, "elsewhere"},
		"all namespaces":                    {func(s *swapmatrix.Spec) { s.AllowedNamespaces = v1alpha1.AllowedNamespaces{} }, "elsewhere"},
		"fewer namespaces":                  {func(s *swapmatrix.Spec) { s.AllowedNamespaces = namespacesLabelled("none") }, none},
		"topScores":                         {func(s *swapmatrix.Spec) { s.Decisions.TopScores = ptr.To[int32](1) }, none},
		"history":                           {func(s *swapmatrix.Spec) { s.Decisions.History = ptr.To[int32](1) }, none},
		"detail Nodes":                      {func(s *swapmatrix.Spec) { s.Decisions.Detail = v1alpha1.DetailNodes }, "fitsNowhere " + another},
		"explain None":                      {func(s *swapmatrix.Spec) { s.Decisions.Explain = v1alpha1.ExplainNone }, "fitsNowhere " + another},
		"explain All":                       {func(s *swapmatrix.Spec) { s.Decisions.Explain = v1alpha1.ExplainAll }, none},
		"activation":                        {func(s *swapmatrix.Spec) { s.Activation = v1alpha1.ActivationManual }, none},
	} {
		t.Run(name, func(t *testing.T) {
			runRejecterCase(t, func(c *swapCase) {
				profileUser{c}.Edit(row.change)
				c.want("tried again", c.triedPods(), row.tried)
			})
		})
	}
	for name, row := range map[string]struct {
		change func(c *swapCase)
		tried  string
	}{
		"the generation number only": {func(c *swapCase) { profileUser{c}.Edit(nil) }, none},
		"a PluginConfig": {func(c *swapCase) {
			profileUser{c}.EditConfig("other")
		}, "fitsNowhere " + another},
		"the state, paused and resumed": {func(c *swapCase) { c.pause(true); c.pause(false) }, "fitsNowhere " + another},
		"detail Nodes, and back": {func(c *swapCase) {
			profileUser{c}.Edit(func(s *swapmatrix.Spec) { s.Decisions.Detail = v1alpha1.DetailNodes })
			profileUser{c}.Edit(func(s *swapmatrix.Spec) { s.Decisions.Detail = v1alpha1.DetailReasons })
		}, "fitsNowhere " + another},
		"a plugin, added and removed at once": {func(c *swapCase) {
			profileUser{c}.Edit(withPlugin("Permits2"))
			profileUser{c}.Edit(withoutPlugin("Permits2"))
		}, none},
		"the profile, deleted and created again": {func(c *swapCase) {
			profileUser{c}.Delete()
			profileUser{c}.Create(withoutPlugin("Gate"))
		}, all},
	} {
		t.Run(name, func(t *testing.T) {
			runRejecterCase(t, func(c *swapCase) {
				row.change(c)
				c.want("tried again", c.triedPods(), row.tried)
			})
		})
	}
}

func runRejecterCase(t *testing.T, test func(*swapCase)) {
	runTestWith(t, rejecterRegistry(), func(env *testEnv) {
		c := newRejecterCase(env)
		defer func() { c.stopLeading() }()
		test(c)
		synctest.Wait()
	}, node("n1"),
		fixture.Namespace("default").Label("default", "yes").Label("either", "yes").Obj(),
		fixture.Namespace("other").Label("either", "yes").Obj())
}

// A pod that a change holds or releases is not lost.
func TestWherePodsAreAfterAChange(t *testing.T) {
	for name, row := range map[string]struct {
		change func(c *swapCase)
		want   string
	}{
		"a PreEnqueue plugin that is added gates an unschedulable pod": {func(c *swapCase) { profileUser{c}.Edit(withPlugin("Gate2")) }, "2 unschedulable, 2 gated, 1 held"},
		"a pause holds all": {func(c *swapCase) { c.pause(true) }, "5 held"},
		"fewer namespaces hold all": {func(c *swapCase) {
			profileUser{c}.Edit(func(s *swapmatrix.Spec) { s.AllowedNamespaces = namespacesLabelled("none") })
		}, "5 held"},
		"other namespaces hold some": {func(c *swapCase) {
			profileUser{c}.Edit(func(s *swapmatrix.Spec) { s.AllowedNamespaces = namespacesLabelled("either") })
		}, "3 unschedulable, 1 gated"},
	} {
		t.Run(name, func(t *testing.T) {
			runRejecterCase(t, func(c *swapCase) {
				row.change(c)
				synctest.Wait()
				c.want("the queue", c.counts(), row.want)
			})
		})
	}
}

// Preemption does not help a pod while another plugin would still reject it without the
// victims. That plugin did not reject the pod, and none of its events requeues it; but its
// removal does.
func TestARejectorThatRemainsAfterPreemptionCounts(t *testing.T) {
	runWithInTreePlugins(t, func(env *testEnv) {
		env.create(podWithCPUs("bank/big", 3, 9).RequirePodAffinity(fixture.PodAffinityTerm(v1.LabelHostname, "app", "nobody")).Obj())
		env.want("the queue", env.counts(), "1 unschedulable")
		env.wantLines("calls", env.bindsAndDeletes())
		without := func(name string) *v1alpha1.Plugins {
			return &v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{Disabled: []v1alpha1.DisabledPlugin{{Name: name}}}}
		}
		env.profile("p", without("TaintToleration"))
		env.want("the queue when another plugin is removed", env.counts(), "1 unschedulable")
		env.profile("p", without("InterPodAffinity"))
		env.wantLines("calls when the plugin is removed", env.bindsAndDeletes(), "delete a", "bind big n1")
	}, nodeWithCPUs("n1", 4), podWithCPUs("shop/a", 2, 1).On("n1").Obj())
}
