package cycle

import (
	"container/heap"
	"math/rand/v2"
	"testing"
)

func TestSample(t *testing.T) {
	for name, tc := range map[string]struct {
		percentage int32
		nodes      int
		want       int
	}{
		"below 100 nodes all nodes are searched":           {0, 99, 99},
		"at 100 nodes the minimum of 100 applies":          {0, 100, 100},
		"the adaptive rule takes 42 % of 1000":             {0, 1000, 420},
		"the adaptive rule takes 10 % of 5000":             {0, 5000, 500},
		"the adaptive rule never goes below 5 %":           {0, 20000, 1000},
		"a percentage is used as given":                    {7, 5000, 350},
		"a percentage that gives too few is raised to 100": {1, 5000, 100},
		"100 % means all":                                  {100, 5000, 5000},
		"below 100 nodes the percentage is ignored":        {7, 50, 50},
		"without nodes no node is searched":                {0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := numFeasibleNodesToFind(tc.percentage, tc.nodes); got != tc.want {
				t.Errorf("numFeasibleNodesToFind(%d, %d) = %d, want %d", tc.percentage, tc.nodes, got, tc.want)
			}
		})
	}
}

// scored is kube-scheduler's heap of nodes: highest total first.
type scored []struct {
	index int
	total int64
}

func (s scored) Len() int           { return len(s) }
func (s scored) Less(i, j int) bool { return s[i].total > s[j].total }
func (s scored) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *scored) Push(any)          { panic("not used") }
func (s *scored) Pop() any          { panic("not used") }

func TestSelectHostEqualsTheRootOfAHeap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		totals := make([]int64, 1+rng.IntN(200))
		h := make(scored, len(totals))
		distinct := 1 + rng.Int64N(5)
		for i := range totals {
			totals[i] = rng.Int64N(distinct)
			h[i].index, h[i].total = i, totals[i]
		}
		heap.Init(&h)
		if got, want := selectHost(totals), h[0].index; got != want {
			t.Fatalf("selectHost(%v) = %d, want %d", totals, got, want)
		}
	}
}
