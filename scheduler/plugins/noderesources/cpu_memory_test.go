package noderesources

import (
	"math/rand/v2"
	"testing"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/scheduler/framework/counts"
)

func TestQuotientIsExact(t *testing.T) {
	const top = 1 << 53
	check := func(n, d int64) {
		t.Helper()
		if got := quotient(n, d); got != n/d {
			t.Fatalf("quotient(%d, %d) is %d, want %d", n, d, got, n/d)
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 1_000_000 {
		d := 1 + rng.Int64N(1<<(1+rng.IntN(53))-1)
		check(rng.Int64N(top), d)
		// Around a multiple of d rounding is most likely to cross an integer.
		multiple := rng.Int64N(top/d) * d
		for n := max(0, multiple-1); n <= multiple+1 && n < top; n++ {
			check(n, d)
		}
	}
	for _, d := range []int64{1, 2, 3, top/2 - 1, top / 2, top/2 + 1, top - 2, top - 1} {
		for _, n := range []int64{0, 1, d - 1, d, top/2 - 1, top / 2, top - 2, top - 1} {
			check(n, d)
		}
	}
}

// edgeAmounts are amounts at which the scores change how they are computed: around 0,
// exactBelow, and where 100 times the amount exceeds int64.
func edgeAmounts() []int64 {
	var all []int64
	for _, amount := range []int64{0, 1 << 30, exactBelow, 100 << 42, 1 << 53, 1 << 56, 1 << 57, 1 << 62} {
		for by := int64(-2); by <= 2; by++ {
			all = append(all, amount+by, -amount+by)
		}
	}
	return all
}

// randomAmount is of any magnitude, and an edge sometimes.
func randomAmount(rng *rand.Rand, edges []int64) int64 {
	if rng.IntN(4) == 0 {
		return edges[rng.IntN(len(edges))]
	}
	return rng.Int64N(1 << (1 + rng.IntN(50)))
}

// randomRow is a node whose amounts are often those of the node before.
func randomRow(rng *rand.Rand, edges []int64, before counts.Row) counts.Row {
	row := before
	for _, amount := range []*int64{
		&row.AllocatableCPU, &row.AllocatableMemory, &row.RequestedCPU, &row.RequestedMemory, &row.NonZeroCPU, &row.NonZeroMemory,
	} {
		if rng.IntN(3) == 0 {
			*amount = randomAmount(rng, edges)
		}
	}
	if rng.IntN(4) == 0 && row.AllocatableMemory > 0 {
		// 100 times what is free is one less than 99 times what is allocatable: the
		// quotient is close below an integer.
		row.NonZeroMemory = rng.Int64N(row.AllocatableMemory)/100 + 1
		row.AllocatableMemory = 100*row.NonZeroMemory - 1
	}
	return row
}

// The scores of cpu and memory equal those of the reference implementation, also for
// amounts that no node has.
func TestScoresOfCPUAndMemoryEqualTheReference(t *testing.T) {
	const rows = 2000
	edges, rng := edgeAmounts(), rand.New(rand.NewPCG(2, 2))
	compared := map[bool]int{} // by whether the amounts are in bounds
	for range 100 {
		columns, slots := &counts.Columns{Rows: make([]counts.Row, rows)}, make([]counts.Slot, rows)
		for i := range slots {
			slots[i] = counts.Slot(i)
			columns.Rows[i] = randomRow(rng, edges, columns.Rows[max(0, i-1)])
		}
		requests := scoredRequests{randomAmount(rng, edges), randomAmount(rng, edges)}
		if rng.IntN(2) == 0 {
			requests = scoredRequests{100, 0}
		}
		weights := []configv1.ResourceSpec{{Name: "cpu", Weight: 1 + rng.Int64N(100)}, {Name: "memory", Weight: 1 + rng.Int64N(100)}}
		fit := &fitBatchScore{columns, &newFit(t, argsWithStrategy(configv1.LeastAllocated, weights...)).strategy, requests}
		balanced := &balancedBatchScore{columns, newBalanced(t).resources, requests}
		scorer, ok := fit.cpuMemoryScorer()
		if !ok {
			t.Fatal("the default strategy and resources have no scorer")
		}
		gotFit, gotBalanced := make([]int64, rows), make([]int64, rows)
		fit.Score(slots, gotFit)
		balanced.Score(slots, gotBalanced)
		for i := range slots {
			row := &columns.Rows[i]
			var scored, all nodeResources
			scored.readCPUAndMemory(row, true)
			all.readCPUAndMemory(row, false)
			if want := fit.scoreNode(&scored); gotFit[i] != want {
				t.Fatalf("NodeResourcesFit scores %+v %d for a pod that requests %v, want %d", row, gotFit[i], requests, want)
			}
			if want := balanced.scoreNode(&all); gotBalanced[i] != want {
				t.Fatalf("NodeResourcesBalancedAllocation scores %+v %d for a pod that requests %v, want %d", row, gotBalanced[i], requests, want)
			}
			_, inBounds := scorer.score(row)
			compared[inBounds]++
		}
	}
	if compared[true] < rows || compared[false] < rows {
		t.Errorf("%d nodes within and %d out of the bounds were compared, want %d of both", compared[true], compared[false], rows)
	}
}
