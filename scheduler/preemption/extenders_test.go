package preemption_test

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/fixture"
)

// counsel is an extender that has a say in who is evicted.
type victimExtender struct {
	fwk.Extender
	ignorable, uninterested bool
	// answer are victims by node; nil: it fails.
	answer map[string][]string
	asked  int
}

func (c *victimExtender) Name() string              { return "counsel" }
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
	for sentence, test := range map[string]struct {
		extenders []*victimExtender
		want, err string
		// budget protects the pods of the app "b".
		budget bool
	}{
		"without any the least loss is chosen":        {want: "n2: b"},
		"one may drop a node":                         {extenders: []*victimExtender{{answer: map[string][]string{"n1": {"a"}}}}, want: "n1: a"},
		"one may choose other victims":                {extenders: []*victimExtender{{answer: map[string][]string{"n1": {"a", "a2"}}}}, want: "n1: a2 a"},
		"each hears what is left":                     {extenders: []*victimExtender{{answer: map[string][]string{"n1": {"a"}}}, {answer: map[string][]string{"n1": {"a2"}}}}, want: "n1: a2"},
		"when nothing is left nobody is evicted":      {extenders: []*victimExtender{{answer: map[string][]string{}}}, err: "no candidate node for preemption"},
		"one that fails has nobody evicted":           {extenders: []*victimExtender{{}}, err: "out of order"},
		"one that fails, and may, is passed over":     {extenders: []*victimExtender{{ignorable: true}}, want: "n2: b"},
		"a node without victims is a failure":         {extenders: []*victimExtender{{answer: map[string][]string{"n1": {"a"}, "n2": {}}}}, err: "expected at least one victim"},
		"and is passed over where it may be":          {extenders: []*victimExtender{{ignorable: true, answer: map[string][]string{"n1": {"a"}, "n2": {}}}}, want: "n1: a"},
		"one whose business it is not is not asked":   {extenders: []*victimExtender{{uninterested: true}}, want: "n2: b"},
		"budgets are counted again for other victims": {budget: true, extenders: []*victimExtender{{answer: map[string][]string{"n1": {"a"}, "n2": {"b", "b2"}}}}, want: "n1: a"},
	} {
		t.Run(sentence, func(t *testing.T) {
			town := newTestEnv(t, nodes(2),
				smallPod("a", "n1", 5).Requests("cpu", "3").Obj(), smallPod("a2", "n1", 6).Obj(),
				smallPod("b", "n2", 1).Requests("cpu", "3").Obj(), smallPod("b2", "n2", 1).Label("app", "b").Obj())
			if test.budget {
				town.budgets = append(town.budgets, budget("b", "app", "b", 0))
			}
			for _, e := range test.extenders {
				town.extenders = append(town.extenders, e)
			}
			plan, err := town.plan(t, fixture.Pod("shop/p").Requests("cpu", "2").Priority(10).Obj())
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("%v, want %q", err, test.err)
			}
			if got := planString(plan); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}
