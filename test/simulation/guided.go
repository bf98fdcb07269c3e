package simulation

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A guided run keeps the inputs whose histories met something that no history before had met,
// and plays changed copies of them beside the histories of fresh seeds.

// feature is a cell that a history met, and, of what it counts, how often: 1, 2, 3, 4 to 7, 8
// to 15 times and so on. Most of a history's features are in sections that only guide.
type feature struct {
	cell
	bucket uint8
}

func bucketOf(times int) uint8 {
	for i, least := range []int{2, 3, 4, 8, 16, 32, 128} {
		if times < least {
			return uint8(i)
		}
	}
	return 7
}

// guidedOptions are those of a guided run.
type guidedOptions struct {
	// deadline and histories end the run; zero: they do not.
	deadline  time.Time
	histories int
	// seed is that of the run's own random source. The first fresh input has it as its seed.
	seed uint64
	// unguided plays fresh seeds only, for comparison.
	unguided bool
	// kinds are the kinds of fresh inputs, drawn alike.
	kinds []string
	// stopAtFailure ends the run with the first input that fails.
	stopAtFailure bool
	// minimised keeps only the inputs that the cells of the table need.
	minimised bool
	known     knownNames
	// progress is called from time to time.
	progress func(*guidedRun)
}

// guidedRun is the state of a guided run. With a number of histories, the run is decided by its
// options and its corpus.
type guidedRun struct {
	guidedOptions
	mutator *mutator
	table   *coverageTable
	// features are those that were met, and cellNumbers number the cells of the table that were.
	features    map[feature]*featureState
	cellNumbers map[cell]int32
	corpus      []*kept
	failed      []failedInput
	played      int
	fresh       uint64
	// resumed is the number of histories that the corpus had at first.
	resumed int
}

// featureState counts the histories that have a feature.
type featureState struct{ histories int }

// kept is an input of the corpus.
type kept struct {
	input
	stepsOfFaults int
	features      []*featureState
	// cells are the numbers of the table's cells.
	cells []int32
	// children counts the changed copies that were made of it.
	children int
}

// failedInput is an input whose history violated an invariant.
type failedInput struct {
	input
	// number is that of the history in the run, from 1.
	number  int
	failure error
}

// playedInput is what became of one input.
type playedInput struct {
	input
	cover         *coverage
	stepsOfFaults int
	failure       error
}

// batchSize is how many inputs are drawn before the first of them is played: what is drawn does
// not depend on which of them ends first.
const batchSize = 32

func newGuidedRun(o guidedOptions) *guidedRun {
	return &guidedRun{
		guidedOptions: o, mutator: newMutator(rand.New(rand.NewPCG(o.seed, 4))), table: newCoverageTable(o.known),
		features: map[feature]*featureState{}, cellNumbers: map[cell]int32{}, fresh: o.seed,
	}
}

// run plays the corpus, and then inputs until the run ends.
func (r *guidedRun) run(corpus []input) {
	for batch := range slices.Chunk(corpus, batchSize) {
		r.play(batch)
	}
	r.resumed = r.played
	for !r.over() {
		var batch []input
		for range min(batchSize, r.left()) {
			batch = append(batch, r.next())
		}
		r.play(batch)
		if r.progress != nil {
			r.progress(r)
		}
	}
	if r.minimised {
		r.minimise()
	}
}

func (r *guidedRun) left() int {
	if r.guidedOptions.histories == 0 {
		return batchSize
	}
	return r.guidedOptions.histories - (r.played - r.resumed)
}

func (r *guidedRun) over() bool {
	return r.left() <= 0 || !r.deadline.IsZero() && time.Now().After(r.deadline) || r.stopAtFailure && len(r.failed) > 0
}

// next draws the next input: a fresh seed, or a changed copy of one in the corpus.
func (r *guidedRun) next() input {
	random := r.mutator.random
	if r.unguided || len(r.corpus) == 0 || random.IntN(4) == 0 {
		in := input{Kind: r.kinds[int(r.fresh)%len(r.kinds)], Seed: r.fresh}
		r.fresh++
		return in
	}
	chosen := r.choose()
	chosen.children++
	other := r.corpus[random.IntN(len(r.corpus))]
	if other.Kind != chosen.Kind {
		other = chosen
	}
	return r.mutator.change(parent{chosen.input, chosen.stepsOfFaults}, other.input)
}

// choose draws an input of the corpus: the best of a few, by how rare their rarest features are,
// how often they were changed, and how long their histories take.
func (r *guidedRun) choose() *kept {
	var best *kept
	var most float64
	for range 8 {
		one := r.corpus[r.mutator.random.IntN(len(r.corpus))]
		if worth := one.worth(); best == nil || worth > most {
			best, most = one, worth
		}
	}
	return best
}

func (k *kept) worth() float64 {
	worth := 0.0
	for _, f := range k.features {
		worth += 1 / float64(f.histories)
	}
	return worth / (float64(1+k.children) * float64(200+k.stepsOfFaults))
}

// play plays inputs in parallel, and adds what they met in their order.
func (r *guidedRun) play(batch []input) {
	results := make([]playedInput, len(batch))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(batch); i = int(next.Add(1)) - 1 {
				cover := newCoverage()
				sim := batch[i].run(runOptions{cover: cover})
				results[i] = playedInput{batch[i], cover, sim.stepsOfFaults, sim.failure}
			}
		})
	}
	workers.Wait()
	for _, p := range results {
		r.add(p)
		if r.stopAtFailure && len(r.failed) > 0 {
			return
		}
	}
}

// add adds what an input met, and keeps it where that is new.
func (r *guidedRun) add(p playedInput) {
	r.played++
	if p.failure != nil {
		r.failed = append(r.failed, failedInput{p.input, r.played - r.resumed, p.failure})
		return
	}
	r.table.add(p.cover, r.played)
	k := &kept{input: p.input, stepsOfFaults: p.stepsOfFaults}
	isNew := false
	for _, at := range p.cover.sorted() {
		f := feature{cell: at}
		if at.section == countSection {
			f.bucket = bucketOf(p.cover.cells[at])
		}
		state := r.features[f]
		if state == nil {
			state, isNew = &featureState{}, true
			r.features[f] = state
		}
		state.histories++
		k.features = append(k.features, state)
		if r.table.isListed(at) {
			k.cells = append(k.cells, r.numberOf(at))
		}
	}
	if isNew {
		k.keepRarest()
		r.corpus = append(r.corpus, k)
	}
}

// numberOf numbers the cells of the table as they are met.
func (r *guidedRun) numberOf(at cell) int32 {
	n, known := r.cellNumbers[at]
	if !known {
		n = int32(len(r.cellNumbers))
		r.cellNumbers[at] = n
	}
	return n
}

// rarestFeatures is how many features decide what an input is worth: the others are those that
// nearly every history has.
const rarestFeatures = 20

// keepRarest drops all features but the rarest of now.
func (k *kept) keepRarest() {
	slices.SortStableFunc(k.features, func(a, b *featureState) int { return a.histories - b.histories })
	k.features = slices.Clone(k.features[:min(len(k.features), rarestFeatures)])
}

// minimise drops the inputs that no cell of the table needs: it takes the input with the most
// cells that no other has, until all cells are there.
func (r *guidedRun) minimise() {
	missing := map[int32]bool{}
	for _, k := range r.corpus {
		for _, at := range k.cells {
			missing[at] = true
		}
	}
	var needed []*kept
	for len(missing) > 0 {
		best, most := -1, 0.0
		for i, k := range r.corpus {
			n := 0
			for _, at := range k.cells {
				if missing[at] {
					n++
				}
			}
			// A long plan is worth a few cells: it is a line that somebody may read.
			if worth := float64(n) / float64(50+len(k.Plan)); n > 0 && worth > most {
				best, most = i, worth
			}
		}
		for _, at := range r.corpus[best].cells {
			delete(missing, at)
		}
		needed = append(needed, r.corpus[best])
	}
	r.corpus = needed
}

// report is the table, and the cells that this run met first.
func (r *guidedRun) report() string {
	var b strings.Builder
	met := r.table.newSince(r.resumed + 1)
	fmt.Fprintf(&b, "%d cells are new in this run", len(met))
	if r.resumed > 0 {
		for _, at := range met {
			fmt.Fprintf(&b, "\n  new: %s: %s", at.section, at.names())
		}
	}
	return b.String() + "\n" + r.table.String()
}
