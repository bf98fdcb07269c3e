package compile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
)

// past makes a history, oldest first, of profile p: each word is a hash and
// what is known of it.
func past(words ...string) []Revision {
	var history []Revision
	for i, word := range words {
		r := Revision{Number: int64(i + 1), UID: "p-1", Profile: &v1alpha1.SchedulingProfile{}}
		hash, mark := word, byte(0)
		if last := word[len(word)-1]; strings.IndexByte("?!#~-*", last) >= 0 {
			hash, mark = word[:len(word)-1], last
		}
		switch mark {
		case '?': // on probation, begun by this process
			r.Probation = true
		case '!': // on probation, and another process died on it
			r.Probation, r.Interrupted = true, true
		case '#': // two did
			r.Probation, r.Crashes, r.Interrupted = true, 1, true
		case '~': // another profile's
			r.UID = "p-0"
		case '*': // died on trial
			r.Probation, r.Interrupted, r.OnTrial = true, true, true
		case '-': // does not compile any more
			r.Profile.Generation = -1
		}
		r.Name = RevisionName("p", hash)
		r.Profile.Name = hash
		history = append(history, r)
	}
	return history
}

func TestWhatIsToRun(t *testing.T) {
	const spec = "spec"
	for sentence, c := range map[string]struct {
		want, running string
		history       []Revision
		follows       bool
		memory        bool
		approved      string // empty: Automatic
		verdict       Verdict
		run           []string
	}{
		"a new spec runs":                              {want: "b", running: "a", history: past("a"), verdict: Run, run: []string{spec}},
		"what runs already runs on":                    {want: "a", running: "a", history: past("a"), verdict: Run, run: []string{spec}},
		"a bad spec leaves what runs":                  {running: "a", history: past("a"), verdict: Rejected},
		"a bad spec at the start brings back the last": {history: past("a", "b"), verdict: Rejected, run: []string{"b", "a"}},
		"what ran last goes before what proved itself": {history: past("a", "b!"), verdict: Rejected, run: []string{"b", "a"}},
		"what does not compile any more is passed over": {
			history: past("a", "b-"), verdict: Rejected, run: []string{"a"},
		},
		"another profile's history is nobody's wish":      {history: past("a~"), verdict: Rejected},
		"a good spec at the start has the last behind it": {want: "b", history: past("a", "b"), verdict: Run, run: []string{spec, "b", "a"}},
		"a spec on which one died is tried once more":     {want: "b", history: past("a", "b!"), verdict: Run, run: []string{spec, "b", "a"}},
		"a spec on which two died is not": {
			want: "c", history: past("a", "b?", "c#"), verdict: Crashed, run: []string{"a", "b"},
		},
		"nor does it replace what runs":                {want: "c", running: "a", history: past("a", "c#"), verdict: Crashed},
		"nor is it run where the spec is a bad one":    {history: past("a", "c#"), verdict: Rejected, run: []string{"a"}},
		"what runs and proves itself just now runs on": {want: "c", running: "c", history: past("c#"), verdict: Run, run: []string{spec}},
		"a follower that starts leaves a new spec to the leader": {
			want: "b", history: past("a"), follows: true, verdict: Unproven,
		},
		"as it does one on probation":                    {want: "b", history: past("a", "b!"), follows: true, verdict: Unproven},
		"it runs one that proved itself":                 {want: "b", history: past("a", "b"), follows: true, verdict: Run, run: []string{spec, "b", "a"}},
		"under another version, too":                     {want: "a/2", history: past("a"), follows: true, verdict: Run, run: []string{spec, "a"}},
		"it runs what it can where nothing is kept":      {want: "b", follows: true, memory: true, verdict: Run, run: []string{spec}},
		"a manual one waits":                             {want: "b", running: "a", approved: "a", history: past("a"), verdict: Awaiting},
		"until its hash is approved":                     {want: "b", running: "a", approved: "b", history: past("a"), verdict: Run, run: []string{spec}},
		"at the start what was approved runs":            {want: "b", approved: "a", history: past("a"), verdict: Awaiting, run: []string{"a"}},
		"be it the spec under another version":           {want: "a/2", approved: "a", history: past("a"), verdict: Run, run: []string{spec, "a"}},
		"but not what another profile ran":               {want: "a", approved: "none", history: past("a~"), verdict: Awaiting},
		"nor what ran some time ago":                     {want: "a", approved: "none", history: past("a", "b"), verdict: Awaiting, run: []string{"b", "a"}},
		"what died on trial was not approved by that":    {want: "b", approved: "none", history: past("a", "b*"), verdict: Awaiting, run: []string{"a"}},
		"nor is it brought back":                         {history: past("a", "b*"), verdict: Rejected, run: []string{"a"}},
		"an approval does not excuse a crash":            {want: "b", running: "a", approved: "b", history: past("a", "b#"), verdict: Crashed},
		"a follower goes along with a swap":              {want: "b", running: "a", history: past("a", "b!"), follows: true, verdict: Run, run: []string{spec}},
		"but not into a crash":                           {want: "b", running: "a", history: past("a", "b#"), follows: true, verdict: Crashed},
		"a bad spec brings back only what proved itself": {history: past("a", "b!"), follows: true, verdict: Rejected, run: []string{"a"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := Situation{
				Profile: &v1alpha1.SchedulingProfile{}, Running: c.running, History: c.history, Durable: !c.memory, Follows: c.follows,
				Compile: func(r *Revision) *Blueprint {
					if r.Profile.Generation < 0 {
						return nil
					}
					hash := r.Profile.Name
					if c.want == hash+"/2" {
						hash = c.want
					}
					return &Blueprint{Name: "p", Hash: hash}
				},
			}
			s.Profile.UID = types.UID("p-1")
			if c.approved != "" {
				s.Profile.Spec.Activation = v1alpha1.ActivationManual
				s.Profile.Annotations = map[string]string{v1alpha1.AnnotationApprovedHash: c.approved}
			}
			if c.want != "" {
				s.Want = &Blueprint{Name: "p", Hash: c.want}
			}
			verdict, candidates := Choose(s)
			var run []string
			for _, candidate := range candidates {
				if candidate.Revision == nil {
					run = append(run, spec)
				} else {
					run = append(run, candidate.Revision.Profile.Name)
				}
			}
			if diff := cmp.Diff(fmt.Sprint(c.verdict, c.run), fmt.Sprint(verdict, run)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsKnownToDo(t *testing.T) {
	binpack := []v1alpha1.ObjectGeneration{{Name: "binpack", Generation: 2}}
	for sentence, c := range map[string]struct {
		running string
		history []Revision
		status  *v1alpha1.ProgrammedProfile
		want    []bool // of the spec, and of what is behind it
	}{
		"a new spec is not":                      {running: "a", history: past("a"), want: []bool{false}},
		"nor the first of a name":                {want: []bool{false}},
		"nor one that proved itself, in a swap":  {running: "a", history: past("a", "b"), want: []bool{false}},
		"one that proved itself is, at a start":  {history: past("a", "b"), want: []bool{true, true, true}},
		"one on probation is not":                {history: past("a", "b?"), want: []bool{false, false, true}},
		"but what the status says that it ran":   {history: past("a", "b?"), status: &v1alpha1.ProgrammedProfile{Hash: "b"}, want: []bool{true, true, true}},
		"here or elsewhere":                      {running: "a", status: &v1alpha1.ProgrammedProfile{Hash: "b"}, want: []bool{true}},
		"under another version, too":             {status: &v1alpha1.ProgrammedProfile{Hash: "b/1", Generation: 5, Configs: binpack}, want: []bool{true}},
		"but with the PluginConfigs as they are": {status: &v1alpha1.ProgrammedProfile{Hash: "b/1", Generation: 5}, want: []bool{false}},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := Situation{
				Profile: &v1alpha1.SchedulingProfile{}, Running: c.running, History: c.history, Durable: true,
				Want:    &Blueprint{Name: "p", Hash: "b", Generation: 5, Configs: []ConfigGeneration{{Name: "binpack", Generation: 2}}},
				Compile: func(r *Revision) *Blueprint { return &Blueprint{Name: "p", Hash: r.Profile.Name} },
			}
			s.Profile.UID, s.Profile.Status.Programmed = "p-1", c.status
			_, candidates := Choose(s)
			var known []bool
			for _, candidate := range candidates {
				known = append(known, candidate.Known)
			}
			if diff := cmp.Diff(c.want, known); diff != "" {
				t.Errorf("known (-want +got):\n%s", diff)
			}
		})
	}
}
