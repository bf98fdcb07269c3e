package decision

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// index is the record of a node that is known by its place alone.
func scoreOf(i int) NodeScore { return NodeScore{Score: int64(i)} }

func indexes(best []NodeScore) []int {
	var places []int
	for _, n := range best {
		places = append(places, int(n.Score))
	}
	return places
}

func TestTopNodes(t *testing.T) {
	for sentence, c := range map[string]struct {
		totals    []int64
		winner, k int
		want      []int
	}{
		"the highest totals come first":                   {totals: []int64{1, 5, 3}, winner: 1, k: 2, want: []int{1, 2}},
		"the winner comes before its equals":              {totals: []int64{5, 5, 5}, winner: 2, k: 2, want: []int{2, 0}},
		"equals keep their order":                         {totals: []int64{9, 5, 5, 5}, winner: 0, k: 3, want: []int{0, 1, 2}},
		"the winner among many equals is not passed over": {totals: []int64{5, 5, 5, 5}, winner: 3, k: 1, want: []int{3}},
		"fewer nodes than wanted are all there":           {totals: []int64{1, 2}, winner: 1, k: 5, want: []int{1, 0}},
		"none are wanted":                                 {totals: []int64{1, 2}, winner: 1, k: 0},
	} {
		t.Run(sentence, func(t *testing.T) {
			if diff := gocmp.Diff(c.want, indexes(TopNodes(c.totals, c.winner, c.k, scoreOf))); diff != "" {
				t.Errorf("best nodes (-want +got):\n%s", diff)
			}
		})
	}
}

// Sorting all is the plain twin.
func TestTopNodesAreThePrefixOfAllSorted(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		totals := make([]int64, 1+random.IntN(20))
		for i := range totals {
			totals[i] = random.Int64N(6)
		}
		winner := slices.Index(totals, slices.Max(totals))
		for i := range totals { // any of the highest may be the winner
			if totals[i] == totals[winner] && random.IntN(2) == 0 {
				winner = i
			}
		}
		all := make([]int, len(totals))
		for i := range all {
			all[i] = i
		}
		first := func(i int) int {
			if i == winner {
				return -1
			}
			return i
		}
		slices.SortFunc(all, func(a, b int) int {
			return cmp.Or(cmp.Compare(totals[b], totals[a]), cmp.Compare(first(a), first(b)))
		})
		k := random.IntN(6)
		want := all[:min(k, len(all))]
		got := indexes(TopNodes(totals, winner, k, scoreOf))
		if !slices.Equal(want, got) {
			t.Fatalf("totals %v, winner %d, k %d: got %v, want %v", totals, winner, k, got, want)
		}
	}
}
