package history

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
)

// past makes a history of profile p, oldest first: each word is a hash, and after a
// colon what is known of it, separated by commas.
func newRevisions(words ...string) []Revision {
	var history []Revision
	for i, word := range words {
		hash, marks, _ := strings.Cut(word, ":")
		r := Revision{Name: compile.RevisionName("p", hash), Hash: hash, Number: int64(i + 1), UID: "p-1", Profile: &v1alpha1.SchedulingProfile{}}
		r.Profile.Name = hash
		for mark := range strings.SplitSeq(marks, ",") {
			count, what, _ := strings.Cut(mark, " ")
			n, _ := strconv.Atoi(count)
			switch {
			case mark == "": // proved
			case mark == "another profile's":
				r.UID = "p-0"
			case mark == "does not compile":
				r.Profile.Generation = -1
			default:
				r.Probation = true
			}
			switch {
			case mark == "served":
				r.Served = true
			case mark == "on trial":
				r.TrialOnly = true
			case mark == "stack":
				r.Evidence.CrashStack = "at noon a process died"
			case what == "deaths":
				r.Evidence.Deaths = n
			case what == "build deaths":
				r.Evidence.BuildDeaths = n
			}
		}
		history = append(history, r)
	}
	return history
}

func TestChooseCandidates(t *testing.T) {
	const spec = "spec"
	for sentence, c := range map[string]struct {
		want, running string
		history       []Revision
		foreign       bool // plugins that are not built in
		follows       bool
		memory        bool
		proved        bool   // under another name
		approved      string // empty: Automatic
		verdict       Verdict
		run           []string
	}{
		"a new spec runs":                              {want: "b", running: "a", history: newRevisions("a"), verdict: Run, run: []string{spec}},
		"what runs already runs on":                    {want: "a", running: "a", history: newRevisions("a"), verdict: Run, run: []string{spec}},
		"a bad spec leaves what runs":                  {running: "a", history: newRevisions("a"), verdict: Rejected},
		"a bad spec at the start brings back the last": {history: newRevisions("a", "b"), verdict: Rejected, run: []string{"b", "a"}},
		"the last goes before what was proved, where it served for a minute": {
			history: newRevisions("a", "b:served"), verdict: Rejected, run: []string{"b", "a"},
		},
		"what lived for seconds goes after what served for minutes": {
			history: newRevisions("a", "b:served", "c:seconds"), verdict: Rejected, run: []string{"b", "a", "c"},
		},
		"what lived for seconds is better than nothing": {history: newRevisions("a:seconds", "b:seconds"), verdict: Rejected, run: []string{"b", "a"}},
		"what does not compile any more is passed over": {
			history: newRevisions("a", "b:does not compile"), verdict: Rejected, run: []string{"a"},
		},
		"another profile's history is not asked for":      {history: newRevisions("a:another profile's"), verdict: Rejected},
		"a good spec at the start has the last behind it": {want: "b", history: newRevisions("a", "b"), verdict: Run, run: []string{spec, "b", "a"}},

		"deaths alone blame no spec of built-in plugins": {
			want: "b", history: newRevisions("a", "b:9 deaths"), verdict: Run, run: []string{spec, "a", "b"},
		},
		"nor one that cannot be replaced": {
			want: "b", history: newRevisions("a:served", "b:3 deaths"), foreign: true, verdict: Run, run: []string{spec, "a", "b"},
		},
		"nor do two": {want: "b", history: newRevisions("a", "b:2 deaths"), foreign: true, verdict: Run, run: []string{spec, "a", "b"}},
		"three blame a spec of other plugins that a proved revision can replace": {
			want: "b", history: newRevisions("a", "b:3 deaths"), foreign: true, verdict: Crashed, run: []string{"a", "last " + spec},
		},
		"a proved revision of another profile replaces nothing": {
			want: "b", history: newRevisions("a:another profile's", "b:3 deaths"), foreign: true, verdict: Run, run: []string{spec, "b"},
		},
		"one death during a build is none of the spec's": {
			want: "b", history: newRevisions("a", "b:1 build deaths"), foreign: true, verdict: Run, run: []string{spec, "a", "b"},
		},
		"two blame it": {
			want: "b", history: newRevisions("a", "b:2 build deaths"), foreign: true, verdict: Crashed, run: []string{"a", "last " + spec},
		},
		"but not where all plugins are built in": {want: "b", history: newRevisions("a", "b:2 build deaths"), verdict: Run, run: []string{spec, "a", "b"}},
		"there it takes three":                   {want: "b", history: newRevisions("a", "b:3 build deaths"), verdict: Crashed, run: []string{"a", "last " + spec}},
		"a plugin on the stack of a crash blames at once": {
			want: "c", history: newRevisions("a", "b:seconds", "c:stack"), verdict: Crashed, run: []string{"a", "b", "last " + spec},
		},
		"the one blamed is built last where nothing replaces it": {want: "a", history: newRevisions("a:stack"), verdict: Crashed, run: []string{"last " + spec}},
		"a blamed revision goes last where the spec is a bad one": {
			history: newRevisions("a", "b:served,stack"), verdict: Rejected, run: []string{"a", "last b"},
		},
		"what resolves to what is blamed replaces nothing": {
			want: "a/2", history: newRevisions("a", "a/2:stack"), verdict: Crashed, run: []string{"last " + spec},
		},
		"a hash that was proved under another name is not blamed": {
			want: "b", history: newRevisions("a", "b:stack"), proved: true, verdict: Run, run: []string{spec, "a", "last b"},
		},
		"it does not replace what runs":                {want: "c", running: "a", history: newRevisions("a", "c:stack"), verdict: Crashed},
		"what runs and is on probation runs on":        {want: "c", running: "c", history: newRevisions("c:stack"), verdict: Run, run: []string{spec}},
		"an approval does not excuse a crash":          {want: "b", running: "a", approved: "b", history: newRevisions("a", "b:stack"), verdict: Crashed},
		"what is blamed and not approved is not built": {want: "b", approved: "a", history: newRevisions("a", "b:on trial,stack"), verdict: Crashed, run: []string{"a"}},

		"a follower that starts leaves a new spec to the leader": {
			want: "b", history: newRevisions("a"), follows: true, verdict: Unproven,
		},
		"as it does one on probation":                  {want: "b", history: newRevisions("a", "b:served"), follows: true, verdict: Unproven},
		"it runs one that was proved":                  {want: "b", history: newRevisions("a", "b"), follows: true, verdict: Run, run: []string{spec, "b", "a"}},
		"be it under another name":                     {want: "b", history: newRevisions("a"), proved: true, follows: true, verdict: Run, run: []string{spec, "a"}},
		"under another version, too":                   {want: "a/2", history: newRevisions("a"), follows: true, verdict: Run, run: []string{spec, "a"}},
		"it runs what it can where nothing is kept":    {want: "b", follows: true, memory: true, verdict: Run, run: []string{spec}},
		"a follower goes along with a swap":            {want: "b", running: "a", history: newRevisions("a", "b:served"), follows: true, verdict: Run, run: []string{spec}},
		"but not into a crash":                         {want: "b", running: "a", history: newRevisions("a", "b:stack"), follows: true, verdict: Crashed},
		"a bad spec brings back only what was proved":  {history: newRevisions("a", "b:served"), follows: true, verdict: Rejected, run: []string{"a"}},
		"a follower does not build what is blamed":     {want: "b", history: newRevisions("b:stack"), follows: true, verdict: Crashed},
		"a manual one waits":                           {want: "b", running: "a", approved: "a", history: newRevisions("a"), verdict: AwaitingApproval},
		"until its hash is approved":                   {want: "b", running: "a", approved: "b", history: newRevisions("a"), verdict: Run, run: []string{spec}},
		"at the start what was approved runs":          {want: "b", approved: "a", history: newRevisions("a"), verdict: AwaitingApproval, run: []string{"a"}},
		"be it the spec under another version":         {want: "a/2", approved: "a", history: newRevisions("a"), verdict: Run, run: []string{spec, "a"}},
		"but not what another profile ran":             {want: "a", approved: "none", history: newRevisions("a:another profile's"), verdict: AwaitingApproval},
		"nor what ran some time ago":                   {want: "a", approved: "none", history: newRevisions("a", "b"), verdict: AwaitingApproval, run: []string{"b", "a"}},
		"what was only tried was not approved by that": {want: "b", approved: "none", history: newRevisions("a", "b:on trial"), verdict: AwaitingApproval, run: []string{"a"}},
		"nor is it brought back":                       {history: newRevisions("a", "b:on trial"), verdict: Rejected, run: []string{"a"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := ChooseInput{
				Profile: &v1alpha1.SchedulingProfile{}, RunningHash: c.running, Revisions: c.history, Durable: !c.memory, Follower: c.follows, Proved: c.proved,
				Compile: func(r *Revision) *compile.Blueprint {
					if r.Profile.Generation < 0 {
						return nil
					}
					hash := r.Profile.Name
					if c.want == hash+"/2" {
						hash = c.want
					}
					return &compile.Blueprint{Name: "p", Hash: hash}
				},
				BuiltIn: func(*compile.Blueprint) bool { return !c.foreign },
			}
			s.Profile.Name, s.Profile.UID = "p", types.UID("p-1")
			if c.approved != "" {
				s.Profile.Spec.Activation = v1alpha1.ActivationManual
				s.Profile.Annotations = map[string]string{v1alpha1.AnnotationApprovedHash: c.approved}
			}
			if c.want != "" {
				s.Desired = &compile.Blueprint{Name: "p", Hash: c.want}
			}
			verdict, candidates := Choose(s)
			var run []string
			for _, candidate := range candidates {
				name := spec
				if candidate.Revision != nil {
					name = candidate.Revision.Profile.Name
				}
				if candidate.BlamedFor != nil {
					name = "last " + name
				}
				run = append(run, name)
			}
			if diff := cmp.Diff(fmt.Sprint(c.verdict, c.run), fmt.Sprint(verdict, run)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestChooseSkipsTrials(t *testing.T) {
	binpack := []v1alpha1.ObjectGeneration{{Name: "binpack", Generation: 2}}
	for sentence, c := range map[string]struct {
		running string
		history []Revision
		status  *v1alpha1.ProgrammedProfile
		want    []bool // of the spec, and of what is behind it
	}{
		"a new spec is not":                      {running: "a", history: newRevisions("a"), want: []bool{false}},
		"nor the first of a name":                {want: []bool{false}},
		"nor one that proved itself, in a swap":  {running: "a", history: newRevisions("a", "b"), want: []bool{false}},
		"one that proved itself is, at a start":  {history: newRevisions("a", "b"), want: []bool{true, true, true}},
		"one on probation is not":                {history: newRevisions("a", "b:seconds"), want: []bool{false, true, false}},
		"but what the status says that it ran":   {history: newRevisions("a", "b:seconds"), status: &v1alpha1.ProgrammedProfile{Hash: "b"}, want: []bool{true, true, true}},
		"here or elsewhere":                      {running: "a", status: &v1alpha1.ProgrammedProfile{Hash: "b"}, want: []bool{true}},
		"under another version, too":             {status: &v1alpha1.ProgrammedProfile{Hash: "b/1", Generation: 5, Configs: binpack}, want: []bool{true}},
		"but with the PluginConfigs as they are": {status: &v1alpha1.ProgrammedProfile{Hash: "b/1", Generation: 5}, want: []bool{false}},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := ChooseInput{
				Profile: &v1alpha1.SchedulingProfile{}, RunningHash: c.running, Revisions: c.history, Durable: true,
				Desired: &compile.Blueprint{Name: "p", Hash: "b", Generation: 5, Configs: []compile.ConfigGeneration{{Name: "binpack", Generation: 2}}},
				Compile: func(r *Revision) *compile.Blueprint { return &compile.Blueprint{Name: "p", Hash: r.Profile.Name} },
			}
			s.BuiltIn = func(*compile.Blueprint) bool { return true }
			s.Profile.UID, s.Profile.Status.Programmed = "p-1", c.status
			_, candidates := Choose(s)
			var known []bool
			for _, candidate := range candidates {
				known = append(known, candidate.SkipTrial)
			}
			if diff := cmp.Diff(c.want, known); diff != "" {
				t.Errorf("known (-want +got):\n%s", diff)
			}
		})
	}
}
