package decision

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/api/v1alpha1"
)

// scoreOf returns an entry whose score is the node's index.
func scoreOf(i int) NodeScore { return NodeScore{Score: int64(i)} }

func indexes(best []NodeScore) []int {
	var all []int
	for _, n := range best {
		all = append(all, int(n.Score))
	}
	return all
}

func TestTopNodes(t *testing.T) {
	for name, c := range map[string]struct {
		totals    []int64
		winner, k int
		want      []int
	}{
		"the highest totals come first":                              {totals: []int64{1, 5, 3}, winner: 1, k: 2, want: []int{1, 2}},
		"the winner comes before its equals":                         {totals: []int64{5, 5, 5}, winner: 2, k: 2, want: []int{2, 0}},
		"equals keep their order":                                    {totals: []int64{9, 5, 5, 5}, winner: 0, k: 3, want: []int{0, 1, 2}},
		"the winner is among the k best, however many equals it has": {totals: []int64{5, 5, 5, 5}, winner: 3, k: 1, want: []int{3}},
		"fewer than k nodes are all returned":                        {totals: []int64{1, 2}, winner: 1, k: 5, want: []int{1, 0}},
		"k is 0":                                                     {totals: []int64{1, 2}, winner: 1, k: 0},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := gocmp.Diff(c.want, indexes(TopNodes(c.totals, c.winner, c.k, scoreOf))); diff != "" {
				t.Errorf("best nodes (-want +got):\n%s", diff)
			}
		})
	}
}

// Sorting all nodes is the reference implementation.
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

func TestAnAnnotationCanBeParsed(t *testing.T) {
	want := Decision{
		Result: v1alpha1.ResultBound, Profile: "batch", Generation: 7, Hash: "9f3c1a2b4d", Epoch: 3, Node: "n17", Evaluated: 500, Feasible: 412, Attempts: 2,
		Walk: Walk{Seq: 812, Start: 57, Order: 4294967295, Nodes: 1234, Pods: 18446744073709551615},
		Top:  []NodeScore{{Node: "n17", Score: 587, Plugins: map[string]int64{"NodeResourcesFit": 440}}, {Node: "n4", Score: 12}},
	}
	got, err := ParseAnnotation(Annotation(want))
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnnotationDetail(t *testing.T) {
	d := Decision{
		Profile: "batch", Generation: 7, Hash: "9f3c1a2b4d", Epoch: 3, Node: "n17", Evaluated: 500, Feasible: 412, Attempts: 2,
		Walk: Walk{Seq: 812, Start: 57, Order: 9, Nodes: 1234, Pods: 5678}, Top: []NodeScore{{Node: "n4", Score: 12}},
	}
	const walk = `"attempts":2,"walk":{"seq":812,"start":57,"order":9,"nodes":1234,"pods":5678}`
	const begin = `{"v":1,"profile":"batch","generation":7,"hash":"9f3c1a2b4d","epoch":3,"node":"n17",`
	for detail, c := range map[string]struct {
		d    Decision
		want string
	}{
		"Nodes":                 {d, begin + `"evaluated":500,"feasible":412,` + walk + `,"top":[{"node":"n4","score":12}]}`},
		"Reasons":               {d.WithoutNodes(), begin + walk + `}`},
		"Reasons, with devices": {withDevices(d.WithoutNodes(), "gpu=gpu.example.com/n17/d0"), begin + walk + `,"devices":["gpu=gpu.example.com/n17/d0"]}`},
	} {
		if diff := gocmp.Diff(c.want, Annotation(c.d)); diff != "" {
			t.Errorf("detail: %s (-want +got):\n%s", detail, diff)
		}
	}
}

func withDevices(d Decision, devices ...string) Decision {
	d.Devices = devices
	return d
}

// A claim can have 32 devices, and a pod many claims.
func TestAnAnnotationHasAsManyDevicesAsFit(t *testing.T) {
	devices := slices.Repeat([]string{"gpu=gpu.example.com/n17/a-device-with-a-long-name"}, 64)
	text := Annotation(withDevices(Decision{Profile: "batch", Node: "n17", Top: []NodeScore{{Node: "n17"}, {Node: "n4"}}}, devices...))
	d, err := ParseAnnotation(text)
	if err != nil || len(text) > maxAnnotation || len(d.Devices) < 10 || len(d.Devices) == 64 || d.Top != nil {
		t.Errorf("%d bytes with %d devices and %v, %v", len(text), len(d.Devices), d.Top, err)
	}
}

func TestParseAnnotationErrors(t *testing.T) {
	for name, text := range map[string]string{
		"it is empty":                    "",
		"it is not JSON":                 "n17",
		"it has a field of another type": `{"v":"one"}`,
		"it has a later version":         `{"v":2,"profile":"batch"}`,
		"it has no version":              `{"profile":"batch"}`,
		"it is a list":                   `[]`,
	} {
		t.Run(name, func(t *testing.T) {
			if d, err := ParseAnnotation(text); err == nil {
				t.Errorf("parsed as %+v", d)
			}
		})
	}
}
