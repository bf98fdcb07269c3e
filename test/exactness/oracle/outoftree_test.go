package main

import (
	"hash/fnv"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/exactness/oracle/compare"
	"github.com/berthdev/berth/test/integration/outoftree/balance"
	"github.com/berthdev/berth/test/integration/outoftree/clearance"
	"github.com/berthdev/berth/test/integration/outoftree/coscheduling"
	"github.com/berthdev/berth/test/replay/generate"
	"github.com/berthdev/berth/test/replay/run"
)

// kube-scheduler accepts the plugins of test/integration/outoftree without changes.
var _ = frameworkruntime.Registry{
	balance.Name:      balance.New,
	clearance.Name:    clearance.New,
	coscheduling.Name: coscheduling.New,
}

// outOfTreeHistories is the number of histories with an out-of-tree plugin.
const outOfTreeHistories = 20

// An out-of-tree plugin leads to the same decisions in kube-scheduler's framework and in
// Berth's: its refusals, messages and scores, and the chosen node.
func TestAnOutOfTreePluginDecidesTheSame(t *testing.T) {
	var refused, scored int
	for seed := *firstSeed; seed < *firstSeed+outOfTreeHistories; seed++ {
		g := generate.New(seed, perHistory)
		config := run.Config{Profile: run.DefaultProfile(), Reference: seed%*referenceEvery == 0}
		config.OutOfTree = []framework.Registration{plugins.Register(balance.Name, balance.New, (*balance.Plugin)(nil), nil)}
		weight := int32(1 + seed%7)
		config.Profile.Spec.Plugins = &v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{
			Enabled: []v1alpha1.EnabledPlugin{{Name: balance.Name, Weight: &weight}},
		}}
		difference, err := compare.Run(config, &maxPodsSource{source: source{g}, refused: &refused, scored: &scored}, nil)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if difference != nil {
			t.Fatalf("seed %d, reference %v:\n%v", seed, config.Reference, difference)
		}
	}
	t.Logf("of %d attempts, the plugin refused nodes in %d that failed, and scored nodes in %d", outOfTreeHistories*perHistory, refused, scored)
	if least := outOfTreeHistories * perHistory / 20; refused < least || scored < least {
		t.Errorf("the histories test too little: want %d of each", least)
	}
}

// maxPodsSource is a history in which nodes have the label of balance.
type maxPodsSource struct {
	source
	refused, scored *int
}

func (c *maxPodsSource) Next() (log.Op, error) {
	op, err := c.source.Next()
	if node, is := op.Object.(*v1.Node); is && err == nil {
		most := fnv.New32a()
		_, _ = most.Write([]byte(node.Name))
		node = node.DeepCopy()
		if node.Labels == nil {
			node.Labels = map[string]string{}
		}
		node.Labels[balance.MaxPodsLabel] = strconv.Itoa(int(most.Sum32() % 4))
		op.Object = node
	}
	return op, err
}

func (c *maxPodsSource) Observe(o *run.Outcome) {
	c.source.Observe(o)
	if o.Err != nil && strings.Contains(o.Err.Error(), "had as many pods as they may") {
		*c.refused++
	}
	for _, scores := range o.Scores {
		if _, has := scores[balance.Name]; has {
			*c.scored++
			break
		}
	}
}
