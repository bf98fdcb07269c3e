package preemption_test

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/support/fixture"
)

// victimExtender is an extender that supports preemption.
type victimExtender struct {
	fwk.Extender
	ignorable, uninterested bool
	// answer are victims by node; nil for an error.
	answer map[string][]string
	asked  int
}

func (c *victimExtender) Name() string              { return "victims" }
func (c *victimExtender) SupportsPreemption() bool  { return true }
func (c *victimExtender) IsIgnorable() bool         { return c.ignorable }
func (c *victimExtender) IsInterested(*v1.Pod) bool { return !c.uninterested }

func (c *victimExtender) ProcessPreemption(_ *v1.Pod, planned map[string]*extenderv1.Victims, nodes fwk.NodeInfoLister) (map[string]*extenderv1.Victims, error) {
	c.asked = len(planned)
	if c.answer == nil {
		return nil, errors.New("out of order")
	}
	chosen := map[string]*extenderv1.Victims{}
	for name, victims := range c.answer {
		node, err := nodes.Get(name)
		if err != nil {
			return nil, err
		}
		chosen[name] = &extenderv1.Victims{}
		for _, victim := range victims {
			for _, pod := range node.GetPods() {
				if pod.GetPod().Name == victim {
					chosen[name].Pods = append(chosen[name].Pods, pod.GetPod())
				}
			}
		}
	}
	return chosen, nil
}

func TestExtendersChangeThePlan(t *testing.T) {
	for name, test := range map[string]struct {
		extenders []*victimExtender
		want, err string
		// budget protects the pods of the app "b".
		budget bool
	}{
		"without extenders the best plan is chosen":                  {want: "n2: b"},
		"an extender may remove a node":                              {extenders: []*victimExtender{{answer: map[string][]string{"n1": {"a"}}}}, want: "n1: a"},
		"an extender may choose other victims":                       {extenders: []*victimExtender{{answer: map[string][]string{"n1": {"a", "a2"}}}}, want: "n1: a2 a"},
		"the next extender gets the remaining plans":                 {extenders: []*victimExtender{{answer: map[string][]string{"n1": {"a"}}}, {answer: map[string][]string{"n1": {"a2"}}}}, want: "n1: a2"},
		"without a remaining plan nothing is evicted":                {extenders: []*victimExtender{{answer: map[string][]string{}}}, err: "no candidate node for preemption"},
		"the error of an extender ends the preemption":               {extenders: []*victimExtender{{}}, err: "out of order"},
		"an ignorable extender that fails is skipped":                {extenders: []*victimExtender{{ignorable: true}}, want: "n2: b"},
		"a node without victims is an error":                         {extenders: []*victimExtender{{answer: map[string][]string{"n1": {"a"}, "n2": {}}}}, err: "expected at least one victim"},
		"a node without victims of an ignorable extender is dropped": {extenders: []*victimExtender{{ignorable: true, answer: map[string][]string{"n1": {"a"}, "n2": {}}}}, want: "n1: a"},
		"an extender that is not interested is not called":           {extenders: []*victimExtender{{uninterested: true}}, want: "n2: b"},
		"budgets are counted again for other victims":                {budget: true, extenders: []*victimExtender{{answer: map[string][]string{"n1": {"a"}, "n2": {"b", "b2"}}}}, want: "n1: a"},
	} {
		t.Run(name, func(t *testing.T) {
			env := newTestEnv(t, nodes(2),
				smallPod("a", "n1", 5).Requests("cpu", "3").Obj(), smallPod("a2", "n1", 6).Obj(),
				smallPod("b", "n2", 1).Requests("cpu", "3").Obj(), smallPod("b2", "n2", 1).Label("app", "b").Obj())
			if test.budget {
				env.budgets = append(env.budgets, budget("b", "app", "b", 0))
			}
			for _, e := range test.extenders {
				env.extenders = append(env.extenders, e)
			}
			plan, err := env.plan(t, fixture.Pod("shop/p").Requests("cpu", "2").Priority(10).Obj())
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("%v, want %q", err, test.err)
			}
			if got := planString(plan); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}
