package simulation

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A number of histories and a seed decide a guided run, however many processors there are.
func TestAGuidedRunHasOneCourse(t *testing.T) {
	course := func() []string {
		r := newGuidedRun(guidedOptions{histories: 2 * batchSize, seed: 11, kinds: []string{""}, known: whatExists(t)})
		r.run([]input{{Seed: 3}})
		var inputs []string
		for _, k := range r.corpus {
			inputs = append(inputs, k.String())
		}
		return inputs
	}
	first := course()
	if diff := cmp.Diff(first, course()); diff != "" {
		t.Errorf("two runs differ (-first,+second):\n%s", diff)
	}
	if !slices.ContainsFunc(first, func(in string) bool { return len(in) > 100 }) {
		t.Error("no changed input met anything new")
	}
}

func TestBuckets(t *testing.T) {
	last := uint8(0)
	for _, times := range []int{2, 3, 4, 8, 16, 32, 128} {
		before, at := bucketOf(times-1), bucketOf(times)
		if before != last || at != last+1 {
			t.Errorf("%d times are in bucket %d and %d times in %d, want %d and %d", times-1, before, times, at, last, last+1)
		}
		last = at
	}
}

func TestMinimiseKeepsEveryCell(t *testing.T) {
	r := newGuidedRun(guidedOptions{})
	r.corpus = []*kept{
		{input: input{Seed: 1}, cells: []int32{1, 2}},
		{input: input{Seed: 2}, cells: []int32{1, 2, 3, 4}},
		{input: input{Seed: 3}, cells: []int32{4, 5}},
		{input: input{Seed: 4}, cells: []int32{5}},
		{input: input{Seed: 5}},
	}
	r.minimise()
	var left []uint64
	for _, k := range r.corpus {
		left = append(left, k.Seed)
	}
	if diff := cmp.Diff([]uint64{2, 3}, left); diff != "" {
		t.Errorf("seeds that are kept (-want,+got):\n%s", diff)
	}
}

func TestTheCorpusIsReadAsItIsWritten(t *testing.T) {
	folder := t.TempDir()
	if none, err := readCorpus(folder); err != nil || none != nil {
		t.Errorf("got %v and the error %v of a folder without a corpus", none, err)
	}
	want := []input{{Seed: 1}, {Kind: "gangs", Seed: 2, Plan: []plannedAction{{createsPods, 3}, {}}, At: []intervention{{Step: 4, Seed: 5}}}}
	if err := writeCorpus(folder, []*kept{{input: want[0]}, {input: want[1]}}); err != nil {
		t.Fatal(err)
	}
	read, err := readCorpus(folder)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, read, cmp.AllowUnexported(plannedAction{})); diff != "" {
		t.Errorf("(-written,+read):\n%s", diff)
	}
}
