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

// The plugins that test/integration/outoftree runs under Berth are kube-scheduler's as they are.
var _ = frameworkruntime.Registry{
	balance.Name:      balance.New,
	clearance.Name:    clearance.New,
	coscheduling.Name: coscheduling.New,
}

// foreignHistories is how many histories a foreign plugin is part of.
const foreignHistories = 20

// A plugin of somebody else leads to the same decisions in kube-scheduler's own
// framework and in Berth's: what it refuses, in its words, what its scores come
// to, and who wins.
func TestAForeignPluginDecidesTheSame(t *testing.T) {
	var refused, scored int
	for seed := *firstSeed; seed < *firstSeed+foreignHistories; seed++ {
		g := generate.New(seed, perHistory)
		config := run.Config{Profile: run.DefaultProfile(), Plain: seed%*plainly == 0}
		config.Foreign = []framework.Registration{plugins.Register(balance.Name, balance.New, (*balance.Plugin)(nil), nil)}
		weight := int32(1 + seed%7)
		config.Profile.Spec.Plugins = &v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{
			Enabled: []v1alpha1.EnabledPlugin{{Name: balance.Name, Weight: &weight}},
		}}
		difference, err := compare.Run(config, &throng{source: source{g}, refused: &refused, scored: &scored}, nil)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if difference != nil {
			t.Fatalf("seed %d, plainly %v:\n%v", seed, config.Plain, difference)
		}
	}
	t.Logf("of %d attempts the plugin had its say in %d that failed, and scored nodes in %d", foreignHistories*perHistory, refused, scored)
	if least := foreignHistories * perHistory / 20; refused < least || scored < least {
		t.Errorf("the histories prove too little: want %d of each", least)
	}
}

// throng is a history in which nodes say how many pods they may have.
type throng struct {
	source
	refused, scored *int
}

func (c *throng) Next() (log.Op, error) {
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

func (c *throng) Tell(o *run.Outcome) {
	c.source.Tell(o)
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
