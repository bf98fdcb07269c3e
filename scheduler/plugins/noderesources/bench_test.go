package noderesources

import (
	"math/rand/v2"
	"testing"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/scheduler/framework/counts"
	"github.com/berthdev/berth/scheduler/framework/podclass"
)

const (
	// benchNodes is the number of nodes, benchWindow how many of them kube-scheduler
	// evaluates for a pod by default.
	benchNodes, benchWindow = 5000, 500
)

// benchColumns returns nodes of 4 CPU and 32Gi with the requests of one pod, or with
// random requests.
func benchColumns(random bool) *counts.Columns {
	rng := rand.New(rand.NewPCG(1, 1))
	columns := &counts.Columns{Rows: make([]counts.Row, benchNodes)}
	for i := range columns.Rows {
		cpu, memory := int64(100), int64(500<<20)
		if random {
			cpu, memory = rng.Int64N(3000), rng.Int64N(30<<30)
		}
		columns.Rows[i] = counts.Row{
			AllocatableCPU: 4000, AllocatableMemory: 32 << 30, AllowedPods: 110, Pods: 1,
			RequestedCPU: cpu, RequestedMemory: memory, NonZeroCPU: cpu, NonZeroMemory: memory,
		}
	}
	return columns
}

// BenchmarkNewShape measures what the first pod of a class costs at least: whether it
// fits on each of 500 nodes, and the nodes' scores by NodeResourcesFit and
// NodeResourcesBalancedAllocation. "arithmetic" is the formulas alone, "batch" is the
// batch forms of the plugins. µs/pod are to be compared with the shape "first" of
// test/perf, in which almost all nodes are equal.
func BenchmarkNewShape(b *testing.B) {
	for i, name := range []string{"nodes=equal", "nodes=different"} {
		columns := benchColumns(i == 1)
		b.Run("arithmetic/"+name, func(b *testing.B) {
			scores := make([]int64, benchWindow)
			runNewShapes(b, func(slots []counts.Slot, cpu, memory int64) { bareArithmetic(columns, slots, scores, cpu, memory) })
		})
		b.Run("batch/"+name, func(b *testing.B) { runNewShapes(b, batchForms(b, columns)) })
	}
}

// runNewShapes calls evaluate for pods that all have other requests, each with the next
// nodes.
func runNewShapes(b *testing.B, evaluate func(slots []counts.Slot, cpu, memory int64)) {
	slots := make([]counts.Slot, benchNodes)
	for i := range slots {
		slots[i] = counts.Slot(i)
	}
	pod := 0
	for b.Loop() {
		at := pod * benchWindow % benchNodes
		evaluate(slots[at:at+benchWindow], int64(50+pod%100), int64(300+pod%1000)<<20)
		pod++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/1000/float64(b.N), "µs/pod")
	b.ReportMetric(0, "ns/op")
}

// bareArithmetic sums the scores of the nodes on which the pod fits.
func bareArithmetic(columns *counts.Columns, slots []counts.Slot, scores []int64, cpu, memory int64) {
	rows := columns.Rows
	for i, slot := range slots {
		row := &rows[slot]
		if row.Pods >= row.AllowedPods || cpu > row.AllocatableCPU-row.RequestedCPU || memory > row.AllocatableMemory-row.RequestedMemory {
			scores[i] = -1
			continue
		}
		usedCPU, usedMemory := row.NonZeroCPU+cpu, row.NonZeroMemory+memory
		fit := (quotient((row.AllocatableCPU-usedCPU)*100, row.AllocatableCPU) + quotient((row.AllocatableMemory-usedMemory)*100, row.AllocatableMemory)) / 2
		with := balanceOfTwo(fraction(row.RequestedCPU+cpu, row.AllocatableCPU), fraction(row.RequestedMemory+memory, row.AllocatableMemory))
		without := balanceOfTwo(fraction(row.RequestedCPU, row.AllocatableCPU), fraction(row.RequestedMemory, row.AllocatableMemory))
		scores[i] = fit + scoreOfBalances(with, without)
	}
}

// batchForms returns a call of the batch forms of both plugins.
func batchForms(b *testing.B, columns *counts.Columns) func(slots []counts.Slot, cpu, memory int64) {
	args := configv1.NodeResourcesFitArgs{}
	DefaultFit(&args)
	strategy := newStrategy(args.ScoringStrategy, deviceClasses{})
	resources := newScoredResources(args.ScoringStrategy.Resources, false, deviceClasses{})
	codes, scores := make([]podclass.RejectionCode, benchWindow), make([]int64, benchWindow)
	return func(slots []counts.Slot, cpu, memory int64) {
		requests := scoredRequests{cpu, memory}
		(&fitBatchFilter{columns, podRequest{cpu: cpu, memory: memory}}).Filter(slots, codes)
		(&fitBatchScore{columns, &strategy, requests}).Score(slots, scores)
		(&balancedBatchScore{columns, resources, requests}).Score(slots, scores)
		if codes[0] != podclass.NotRejected {
			b.Fatalf("the first node is rejected with %d, want one on which the pod fits", codes[0])
		}
	}
}
