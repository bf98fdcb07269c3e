package simulation

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"
)

var (
	guidedTime      = flag.Duration("guided", 0, "play guided histories for this long; 0: as many as -histories says")
	guidedHistories = flag.Int("histories", 64, "number of guided histories, where -guided does not say for how long")
	corpusFolder    = flag.String("corpus", "", "folder of a guided run's inputs: it begins with them, and leaves those that met something")
	unguided        = flag.Bool("unguided", false, "play fresh seeds instead of guided histories, for comparison")
	minimised       = flag.Bool("minimise", false, "leave only the inputs that the table of a guided run needs")
	guidedKinds     = flag.String("kinds", "pods,pods,pods,pods,pods,pods,pods,gangs", "kinds of a guided run's fresh histories, in turn")
)

// repositoryCorpus is the folder of the inputs that every change replays.
const repositoryCorpus = "corpus"

// progressEvery is how often a guided run says how far it is, and saves its corpus.
const progressEvery = time.Minute

// The run takes inputs from the corpus, changes them, and keeps those that meet something new:
//
//	go test ./test/simulation -run TestGuidedHistories -v -timeout 0 -args -guided 1h -corpus DIR
//
// It resumes from the corpus of the folder, which may be a copy of the repository's, and says at its end what all its histories have met, what was new
// in this run, and what none has ever met. Inputs that fail are made smaller and saved.
func TestGuidedHistories(t *testing.T) {
	var corpus []input
	if *corpusFolder != "" {
		var err error
		if corpus, err = readCorpus(*corpusFolder); err != nil {
			t.Fatal(err)
		}
	}
	r := newGuidedRun(guidedOptionsOf(t))
	begin := time.Now()
	r.run(corpus)
	if *stop && len(r.failed) > 0 {
		t.Fatalf("history %d of the run: %v\ninput: %s", r.failed[0].number, r.failed[0].failure, r.failed[0].input)
	}
	t.Logf("%d histories in %v, after %d of the corpus; %d features, %d inputs kept\n%s",
		r.played-r.resumed, time.Since(begin).Round(time.Second), r.resumed, len(r.features), len(r.corpus), r.report())
	for _, wrong := range r.table.wrong() {
		t.Errorf("met although it cannot happen: %s", wrong)
	}
	reportFailures(t, r)
	if *corpusFolder != "" {
		if err := writeCorpus(*corpusFolder, r.corpus); err != nil {
			t.Error(err)
		}
	}
}

// guidedOptionsOf are the options that the flags say.
func guidedOptionsOf(t *testing.T) guidedOptions {
	o := guidedOptions{
		histories: *guidedHistories, seed: *first, unguided: *unguided, stopAtFailure: *stop, minimised: *minimised, known: whatExists(t),
	}
	for name := range strings.SplitSeq(*guidedKinds, ",") {
		name = strings.TrimPrefix(name, "pods")
		if _, ok := kinds[name]; !ok {
			t.Fatalf("-kinds: there is no kind of histories %q", name)
		}
		o.kinds = append(o.kinds, name)
		o.known.gangs = o.known.gangs || kinds[name].gangs > 0
	}
	if *guidedTime > 0 {
		o.histories, o.deadline = 0, time.Now().Add(*guidedTime)
	}
	last := time.Now()
	o.progress = func(r *guidedRun) {
		if time.Since(last) < progressEvery {
			return
		}
		last = time.Now()
		met, of := r.table.met()
		t.Logf("%d histories, %d features, %d of %d cells, %d inputs, %d failures", r.played-r.resumed, len(r.features), met, of, len(r.corpus), len(r.failed))
		if *corpusFolder != "" {
			if err := writeCorpus(*corpusFolder, r.corpus); err != nil {
				t.Error(err)
			}
		}
	}
	return o
}

// whatExists is what the sources name, and the events that a thousand seeds must see.
func whatExists(t *testing.T) knownNames {
	t.Helper()
	counts, verbs, err := namesInSources(".")
	if err != nil {
		t.Fatal(err)
	}
	return knownNames{counts: union(counts, requiredEvents(), requiredGangEvents()), verbs: verbs}
}

// reportFailures makes the first failing inputs smaller, one of each kind of failure, and saves
// them.
func reportFailures(t *testing.T, r *guidedRun) {
	shown := map[string]bool{}
	for _, f := range r.failed {
		what := withoutNumbers(f.failure)
		if shown[what] {
			continue
		}
		shown[what] = true
		if len(shown) > maxShrunk {
			t.Errorf("history %d: %v\ninput: %s", f.number, f.failure, f.input)
			continue
		}
		smallest, story := f.kind().shrink(f.input)
		t.Errorf("history %d: %s", f.number, story)
		if *corpusFolder != "" {
			if err := writeFailure(*corpusFolder, fmt.Sprintf("%d-%d", *first, f.number), smallest, story); err != nil {
				t.Error(err)
			}
		}
	}
	if len(r.failed) > len(shown) {
		t.Errorf("%d inputs failed in all", len(r.failed))
	}
}

// What the corpus of the repository has met once is met again with every change. An input decides
// everything, whether or not its coverage is recorded.
func TestEveryInputOfTheCorpusKeepsTheInvariants(t *testing.T) {
	corpus, err := readCorpus(repositoryCorpus)
	if err != nil || len(corpus) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	r := newGuidedRun(guidedOptions{known: whatExists(t)})
	r.play(corpus)
	for _, f := range r.failed {
		_, story := f.kind().shrink(f.input)
		t.Errorf("input %d: %s", f.number, story)
	}
	for _, wrong := range r.table.wrong() {
		t.Errorf("met although it cannot happen: %s", wrong)
	}
	for i := 0; i < len(corpus); i += 8 {
		a, b := corpus[i].run(runOptions{}), corpus[i].run(runOptions{cover: newCoverage()})
		if a.logHash.Sum64() != b.logHash.Sum64() {
			t.Errorf("input %d has two histories: %s", i+1, corpus[i])
		}
	}
}
