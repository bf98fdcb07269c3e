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
)

const (
	// BalancedName is how profiles name Balanced.
	BalancedName = "NodeResourcesBalancedAllocation"

	balancedPreScoreStateKey fwk.StateKey = BalancedName + "/score"
)

// Balanced is the plugin NodeResourcesBalancedAllocation: it prefers nodes
// whose resources the pod would bring to more equal shares of use.
type Balanced struct{ resources scoredResources }

var (
	_ fwk.PreScorePlugin      = (*Balanced)(nil)
	_ fwk.ScorePlugin         = (*Balanced)(nil)
	_ fwk.SignPlugin          = (*Balanced)(nil)
	_ framework.ReadsDeclarer = (*Balanced)(nil)
)

// NewBalanced builds the plugin from defaulted
// *configv1.NodeResourcesBalancedAllocationArgs. The error says what is wrong
// with them.
func NewBalanced(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	typed, ok := args.(*configv1.NodeResourcesBalancedAllocationArgs)
	if !ok {
		return nil, fmt.Errorf("args: is a %T, want a %T", args, typed)
	}
	if errs := ValidateBalanced(typed, nil); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return &Balanced{resources: newScoredResources(typed.Resources, false)}, nil
}

// DefaultBalanced fills in cpu and memory, and a weight of 1.
func DefaultBalanced(args *configv1.NodeResourcesBalancedAllocationArgs) {
	defaultResources(&args.Resources)
}

// ValidateBalanced says what is wrong with defaulted args.
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
			errs = append(errs, field.Invalid(at.Child("weight"), resource.Weight, "must be 1: shares are not weighed here"))
		}
	}
	return errs
}

// Name returns BalancedName.
func (*Balanced) Name() string { return BalancedName }

// Reads says what the score depends on.
func (*Balanced) Reads() framework.Reads {
	return framework.Reads{Pod: framework.PodRequests, Score: framework.NodeAllocatable | framework.NodeRequested}
}

// SignPod signs the pod with its requests.
func (*Balanced) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return signRequests(pod), nil
}

// PreScore adds up what the pod is scored with. It skips Score for a pod that
// asks for nothing: such pods change no share, and would all go to one node.
func (b *Balanced) PreScore(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	asked := b.resources.requestsOf(pod)
	if asked.isZero() {
		return fwk.NewStatus(fwk.Skip)
	}
	state.Write(balancedPreScoreStateKey, asked)
	return nil
}

// Score compares the balance of the node with the pod and without it: about 75
// where the pod makes no difference, up to 100 where it helps, down to 50
// where it harms.
func (b *Balanced) Score(_ context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	asked := getPreScoreState(state, balancedPreScoreStateKey, b.resources, pod)
	if asked.isZero() {
		return 0, nil
	}
	var withRoom, withoutRoom [maxInlineResources]float64
	with, without := withRoom[:0], withoutRoom[:0]
	for i := range b.resources.specs {
		offered, taken, counts := b.resources.nodeAmounts(node, i, asked[i])
		if counts {
			with = append(with, fraction(taken+asked[i], offered))
			without = append(without, fraction(taken, offered))
		}
	}
	return scoreOfFractions(with, without), nil
}

// improvement compares the balance of the shares with the pod and without it.
func scoreOfFractions(with, without []float64) int64 {
	return scoreOfBalances(balance(with), balance(without))
}

func scoreOfBalances(with, without int64) int64 {
	const half = fwk.MaxScore / 2
	return half + (half+with-without)/2
}

// ScoreExtensions is nil: the score keeps to the range by itself.
func (*Balanced) ScoreExtensions() fwk.ScoreExtensions { return nil }

// inlineShares is up to how many resources Score allocates nothing.
const maxInlineResources = 8

// share is between 0 and 1, whatever a node says that it offers.
func fraction(used, offered int64) float64 {
	switch share := float64(used) / float64(offered); {
	case share > 1:
		return 1
	case share < 0:
		return 0
	default:
		return share
	}
}

// balance is 100 when all shares are the same and less the more they deviate
// (standard deviation). The order of the floating-point operations is that of
// k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources, as the
// truncation at the end would show any other.
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

// balanceOfTwo is balance of two shares.
func balanceOfTwo(a, b float64) int64 { return balanceOfDeviation(math.Abs((a - b) / 2)) }

func balanceOfDeviation(deviation float64) int64 {
	return int64((1 - deviation) * float64(fwk.MaxScore))
}
