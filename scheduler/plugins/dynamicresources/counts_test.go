package dynamicresources

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

func TestRequestsThatFindTooFewDevices(t *testing.T) {
	for name, c := range map[string]struct {
		pod     *v1.Pod
		objects []runtime.Object
		// missing are those of n1, counts those of the cluster.
		missing, counts []string
	}{
		"by the name of the claim in the pod's spec": {
			pod:     fixture.Pod("p").ResourceClaimTemplate("gpus", "template", "p-gpus-x1").Obj(),
			objects: []runtime.Object{class(), gpus("n1").Obj(), gpus("n2").Obj(), claim("p-gpus-x1").OwnedBy(fixture.Pod("p").Obj()).Request("r", "gpu", modelB).Count(2).Obj()},
			missing: []string{"gpus/r 2 1"}, counts: []string{"gpus/r 2 6 2"},
		},
		"by the extended resource": {
			pod: fixture.Pod("p").Requests(card, "5").Obj(), objects: []runtime.Object{backing(), gpus("n1").Obj()},
			missing: []string{card + "/container-1-request-0 5 3"}, counts: []string{card + "/container-1-request-0 5 3 3"},
		},
		"of alternatives the one that lacks least": {
			pod: fixture.Pod("p").ResourceClaim("c").Obj(),
			objects: []runtime.Object{class(), gpus("n1").Obj(), claim("c").RequestFirst("r",
				fixture.SubRequest("many", "gpu", 9), fixture.SubRequest("b", "gpu", 2, modelB), fixture.SubRequest("few", "gpu", 7)).Obj()},
			missing: []string{"c/r 2 1"}, counts: []string{"c/r/many 9 3 3", "c/r/b 2 3 1", "c/r/few 7 3 3"},
		},
		"not where each request finds enough": {
			pod:     fixture.Pod("p").ResourceClaim("c").Obj(),
			objects: []runtime.Object{class(), gpus("n1").Obj(), claim("c").Request("one", "gpu", modelB).Request("two", "gpu", modelB).Obj()},
			counts:  []string{"c/one 1 3 1", "c/two 1 3 1"},
		},
		"not for a claim that is allocated": {
			pod:     fixture.Pod("p").ResourceClaim("c").ResourceClaim("d").Obj(),
			objects: []runtime.Object{class(), gpus("n1").Obj(), claim("c").Request("r", "gpu").Allocated("n1", driver+"/n1/a-small").Obj(), claim("d").Request("r", "gpu").Count(4).Obj()},
			missing: []string{"d/r 4 2"}, counts: []string{"d/r 4 3 2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				a := env.evaluate(c.pod, node("n1"))
				info := framework.NewNodeInfo()
				info.SetNode(node("n1"))
				var missing, counts []string
				for _, m := range env.InsufficientResources(nil, a.state, c.pod, info) {
					missing = append(missing, fmt.Sprint(m.DeviceRequest, " ", m.Requested, " ", m.Free))
				}
				for _, n := range env.CountDevices(env.ctx, a.state, c.pod) {
					name := n.Claim + "/" + n.Request
					if n.Alternative != "" {
						name += "/" + n.Alternative
					}
					counts = append(counts, fmt.Sprint(name, " ", n.Wanted, " ", n.Published, " ", n.Free))
				}
				env.want("missing", missing, c.missing)
				env.want("counts", counts, c.counts)
			}, c.objects...)
		})
	}
}
