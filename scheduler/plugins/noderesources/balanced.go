package noderesources

import (
	"context"
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
	"github.com/berthdev/berth/scheduler/framework/podclass"
)

const (
	// BalancedName is the name of Balanced in profiles.
	BalancedName = "NodeResourcesBalancedAllocation"

	balancedPreScoreStateKey fwk.StateKey = BalancedName + "/score"
)

// Balanced is the plugin NodeResourcesBalancedAllocation: it prefers nodes on which the
// fractions of used resources would be more equal with the pod than without it.
type Balanced struct{ resources scoredResources }

var (
	_ fwk.PreScorePlugin      = (*Balanced)(nil)
	_ fwk.ScorePlugin         = (*Balanced)(nil)
	_ fwk.SignPlugin          = (*Balanced)(nil)
	_ framework.ReadsDeclarer = (*Balanced)(nil)
)

// NewBalanced builds the plugin from defaulted
// *configv1.NodeResourcesBalancedAllocationArgs. It returns an error that lists the
// invalid fields.
func NewBalanced(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	typed, ok := args.(*configv1.NodeResourcesBalancedAllocationArgs)
	if !ok {
		return nil, fmt.Errorf("args: is a %T, want a %T", args, typed)
	}
	if errs := ValidateBalanced(typed, nil); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return &Balanced{resources: newScoredResources(typed.Resources, false, deviceClassesOf(handle))}, nil
}

// DefaultBalanced sets the resources cpu and memory, and a weight of 1, where they are
// unset.
func DefaultBalanced(args *configv1.NodeResourcesBalancedAllocationArgs) {
	defaultResources(&args.Resources)
}

// ValidateBalanced returns the invalid fields of defaulted args.
func ValidateBalanced(args *configv1.NodeResourcesBalancedAllocationArgs, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, resource := range args.Resources {
		at := path.Child("resources").Index(i)
		if seen.Has(resource.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), resource.Name))
		}
		seen.Insert(resource.Name)
		if resource.Weight != 1 {
			errs = append(errs, field.Invalid(at.Child("weight"), resource.Weight, "must be 1: resources are not weighted"))
		}
	}
	return errs
}

// Name returns BalancedName.
func (*Balanced) Name() string { return BalancedName }

// Reads declares which fields of pods and nodes the score depends on.
func (*Balanced) Reads() framework.Reads {
	return framework.Reads{Pod: framework.PodRequests, Score: framework.NodeAllocatable | framework.NodeRequested}
}

// SignPod signs the pod with its requests.
func (b *Balanced) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return b.resources.scorer.signRequests(pod)
}

// PreScore sums up the requests that the pod is scored with. It skips Score for a pod
// that requests nothing: such a pod changes no fraction, and all pods like it would go
// to one node.
func (b *Balanced) PreScore(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	data, err := b.resources.stateOf(pod)
	switch {
	case err != nil:
		return fwk.AsStatus(err)
	case data.requests.isZero():
		return fwk.NewStatus(fwk.Skip)
	}
	state.Write(balancedPreScoreStateKey, data)
	return nil
}

// Score compares the balance of the node with the pod and without it: about 75 where
// the pod makes no difference, up to 100 where it improves the balance, down to 50
// where it reduces it.
func (b *Balanced) Score(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	data, err := getPreScoreState(state, balancedPreScoreStateKey, b.resources, pod)
	switch {
	case err != nil:
		return 0, fwk.AsStatus(err)
	case data.requests.isZero():
		return 0, nil
	}
	var withRoom, withoutRoom [maxInlineResources]float64
	with, without := withRoom[:0], withoutRoom[:0]
	for i := range b.resources.specs {
		allocatable, requested, counts := b.resources.nodeAmounts(ctx, node, i, data)
		if counts {
			with = append(with, fraction(requested+data.requests[i], allocatable))
			without = append(without, fraction(requested, allocatable))
		}
	}
	return scoreOfFractions(with, without), nil
}

// scoreOfFractions scores a node by the fractions of its resources that are used with
// the pod and without it.
func scoreOfFractions(with, without []float64) int64 {
	return scoreOfBalances(balance(with), balance(without))
}

// scoreOfBalances scores a node by its balance with the pod and without it.
func scoreOfBalances(with, without int64) int64 {
	const half = fwk.MaxScore / 2
	return half + (half+with-without)/2
}

// ScoreExtensions returns nil: scores are from 0 to 100 without normalizing.
func (*Balanced) ScoreExtensions() fwk.ScoreExtensions { return nil }

// maxInlineResources is the number of resources up to which Score allocates nothing.
const maxInlineResources = 8

// fraction returns used/allocatable, limited to the range from 0 to 1.
func fraction(used, allocatable int64) float64 {
	switch share := float64(used) / float64(allocatable); {
	case share > 1:
		return 1
	case share < 0:
		return 0
	default:
		return share
	}
}

// balance is 100 when all fractions are equal, and decreases with their standard
// deviation. The order of the floating-point operations is that of
// k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources: the truncation at
// the end would make a different order visible.
func balance(shares []float64) int64 {
	var deviation float64
	switch n := float64(len(shares)); len(shares) {
	case 0, 1:
	case 2:
		return balanceOfTwo(shares[0], shares[1])
	default:
		var total, squares float64
		for _, share := range shares {
			total += share
		}
		mean := total / n
		for _, share := range shares {
			squares = squares + (share-mean)*(share-mean)
		}
		deviation = math.Sqrt(squares / n)
	}
	return balanceOfDeviation(deviation)
}

// balanceOfTwo is balance for two fractions.
func balanceOfTwo(a, b float64) int64 { return balanceOfDeviation(math.Abs((a - b) / 2)) }

func balanceOfDeviation(deviation float64) int64 {
	return int64((1 - deviation) * float64(fwk.MaxScore))
}

var _ podclass.BatchScorePlugin = (*Balanced)(nil)

// BatchScore returns the batch form of Score for pods of the same class as pod. It
// returns ok false if the columns do not hold all scored resources.
func (b *Balanced) BatchScore(state fwk.CycleState, pod *v1.Pod, columns *counts.Columns) (podclass.BatchScore, bool) {
	if !b.resources.allInColumns() {
		return nil, false
	}
	data, err := getPreScoreState(state, balancedPreScoreStateKey, b.resources, pod)
	if err != nil || data.requests.isZero() {
		return nil, false
	}
	return &balancedBatchScore{columns, b.resources, data.requests}, true
}

// balancedBatchScore is the batch form of Balanced.Score.
type balancedBatchScore struct {
	columns   *counts.Columns
	resources scoredResources
	requests  scoredRequests
}

// Score writes the score of each slot to scores.
func (b *balancedBatchScore) Score(slots []counts.Slot, scores []int64) podclass.ScoreResult {
	if b.resources.cpuAndMemoryOnly {
		b.scoreCPUAndMemory(slots, scores)
		return podclass.Scored
	}
	var node nodeResources
	for i, slot := range slots {
		if same := node.read(&b.columns.Rows[slot], &b.resources); same && i > 0 {
			scores[i] = scores[i-1]
		} else {
			scores[i] = b.scoreNode(&node)
		}
	}
	return podclass.Scored
}

func (b *balancedBatchScore) scoreNode(node *nodeResources) int64 {
	var with, without [maxInlineResources]float64
	n := 0
	for r := range b.requests {
		if on := &node[r]; on.allocatable != 0 {
			with[n], without[n] = fraction(on.requested+b.requests[r], on.allocatable), fraction(on.requested, on.allocatable)
			n++
		}
	}
	return scoreOfFractions(with[:n], without[:n])
}
