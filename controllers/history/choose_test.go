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

// newRevisions returns revisions of profile p, oldest first. Each argument is a hash,
// and after a colon its marks, separated by commas.
func newRevisions(specs ...string) []Revision {
	var revisions []Revision
	for i, spec := range specs {
		hash, marks, _ := strings.Cut(spec, ":")
		r := Revision{Name: compile.RevisionName("p", hash), Hash: hash, Number: int64(i + 1), UID: "p-1", Profile: &v1alpha1.SchedulingProfile{}}
		r.Profile.Name = hash
		for mark := range strings.SplitSeq(marks, ",") {
			count, what, _ := strings.Cut(mark, " ")
			n, _ := strconv.Atoi(count)
			switch {
			case mark == "": // a proved revision
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
		revisions = append(revisions, r)
	}
	return revisions
}

func TestChooseCandidates(t *testing.T) {
	const spec = "spec"
	for name, c := range map[string]struct {
		want, running string
		history       []Revision
		outOfTree     bool // the spec enables an out-of-tree plugin
		follows       bool
		memory        bool
		proved        bool   // by another profile
		approved      string // empty for activation Automatic
		verdict       Verdict
		run           []string
	}{
		"a new spec runs":                                     {want: "b", running: "a", history: newRevisions("a"), verdict: Run, run: []string{spec}},
		"the running spec keeps running":                      {want: "a", running: "a", history: newRevisions("a"), verdict: Run, run: []string{spec}},
		"an invalid spec leaves what runs":                    {running: "a", history: newRevisions("a"), verdict: Rejected},
		"an invalid spec at startup runs the newest revision": {history: newRevisions("a", "b"), verdict: Rejected, run: []string{"b", "a"}},
		"the newest comes before a proved one if it served for a minute": {
			history: newRevisions("a", "b:served"), verdict: Rejected, run: []string{"b", "a"},
		},
		"a revision that ran for seconds comes after those that served": {
			history: newRevisions("a", "b:served", "c:seconds"), verdict: Rejected, run: []string{"b", "a", "c"},
		},
		"a revision that ran for seconds is better than none": {history: newRevisions("a:seconds", "b:seconds"), verdict: Rejected, run: []string{"b", "a"}},
		"a revision that does not compile is left out": {
			history: newRevisions("a", "b:does not compile"), verdict: Rejected, run: []string{"a"},
		},
		"a revision of an earlier profile of the name is left out": {history: newRevisions("a:another profile's"), verdict: Rejected},
		"a valid spec at startup has revisions as fallbacks":       {want: "b", history: newRevisions("a", "b"), verdict: Run, run: []string{spec, "b", "a"}},

		"deaths alone blame no spec of built-in plugins": {
			want: "b", history: newRevisions("a", "b:9 deaths"), verdict: Run, run: []string{spec, "a", "b"},
		},
		"deaths do not blame a spec that nothing can replace": {
			want: "b", history: newRevisions("a:served", "b:3 deaths"), outOfTree: true, verdict: Run, run: []string{spec, "a", "b"},
		},
		"two deaths do not blame": {want: "b", history: newRevisions("a", "b:2 deaths"), outOfTree: true, verdict: Run, run: []string{spec, "a", "b"}},
		"three deaths blame an out-of-tree plugin if a proved revision can replace it": {
			want: "b", history: newRevisions("a", "b:3 deaths"), outOfTree: true, verdict: Crashed, run: []string{"a", "last " + spec},
		},
		"a proved revision of an earlier profile is no replacement": {
			want: "b", history: newRevisions("a:another profile's", "b:3 deaths"), outOfTree: true, verdict: Run, run: []string{spec, "b"},
		},
		"one death during a build does not blame": {
			want: "b", history: newRevisions("a", "b:1 build deaths"), outOfTree: true, verdict: Run, run: []string{spec, "a", "b"},
		},
		"two deaths during the build blame an out-of-tree plugin": {
			want: "b", history: newRevisions("a", "b:2 build deaths"), outOfTree: true, verdict: Crashed, run: []string{"a", "last " + spec},
		},
		"two deaths during the build do not blame built-in plugins": {want: "b", history: newRevisions("a", "b:2 build deaths"), verdict: Run, run: []string{spec, "a", "b"}},
		"three deaths during the build blame built-in plugins":      {want: "b", history: newRevisions("a", "b:3 build deaths"), verdict: Crashed, run: []string{"a", "last " + spec}},
		"a plugin on the stack of a crash blames at once": {
			want: "c", history: newRevisions("a", "b:seconds", "c:stack"), verdict: Crashed, run: []string{"a", "b", "last " + spec},
		},
		"a blamed spec is built last when nothing can replace it": {want: "a", history: newRevisions("a:stack"), verdict: Crashed, run: []string{"last " + spec}},
		"a blamed revision comes last when the spec is invalid": {
			history: newRevisions("a", "b:served,stack"), verdict: Rejected, run: []string{"a", "last b"},
		},
		"a revision that resolves to the blamed hash is no replacement": {
			want: "a/2", history: newRevisions("a", "a/2:stack"), verdict: Crashed, run: []string{"last " + spec},
		},
		"a hash that another profile proved is not blamed": {
			want: "b", history: newRevisions("a", "b:stack"), proved: true, verdict: Run, run: []string{spec, "a", "last b"},
		},
		"a blamed spec does not replace what runs":        {want: "c", running: "a", history: newRevisions("a", "c:stack"), verdict: Crashed},
		"a running revision on probation keeps running":   {want: "c", running: "c", history: newRevisions("c:stack"), verdict: Run, run: []string{spec}},
		"an approved spec is blamed too":                  {want: "b", running: "a", approved: "b", history: newRevisions("a", "b:stack"), verdict: Crashed},
		"a blamed spec that is not approved is not built": {want: "b", approved: "a", history: newRevisions("a", "b:on trial,stack"), verdict: Crashed, run: []string{"a"}},

		"a follower that starts leaves a new spec to the leader": {
			want: "b", history: newRevisions("a"), follows: true, verdict: Unproven,
		},
		"a follower that starts leaves one on probation to the leader": {want: "b", history: newRevisions("a", "b:served"), follows: true, verdict: Unproven},
		"a follower runs a proved spec":                                {want: "b", history: newRevisions("a", "b"), follows: true, verdict: Run, run: []string{spec, "b", "a"}},
		"a follower runs a spec that another profile proved":           {want: "b", history: newRevisions("a"), proved: true, follows: true, verdict: Run, run: []string{spec, "a"}},
		"a follower runs a spec that was proved under another version": {want: "a/2", history: newRevisions("a"), follows: true, verdict: Run, run: []string{spec, "a"}},
		"a follower without a stored history runs the spec":            {want: "b", follows: true, memory: true, verdict: Run, run: []string{spec}},
		"a follower follows a swap":                                    {want: "b", running: "a", history: newRevisions("a", "b:served"), follows: true, verdict: Run, run: []string{spec}},
		"a follower does not follow a swap to a blamed spec":           {want: "b", running: "a", history: newRevisions("a", "b:stack"), follows: true, verdict: Crashed},
		"a follower with an invalid spec runs only proved revisions":   {history: newRevisions("a", "b:served"), follows: true, verdict: Rejected, run: []string{"a"}},
		"a follower does not build a blamed spec":                      {want: "b", history: newRevisions("b:stack"), follows: true, verdict: Crashed},
		"a spec with manual activation waits":                          {want: "b", running: "a", approved: "a", history: newRevisions("a"), verdict: AwaitingApproval},
		"an approved spec runs":                                        {want: "b", running: "a", approved: "b", history: newRevisions("a"), verdict: Run, run: []string{spec}},
		"at startup the approved revision runs":                        {want: "b", approved: "a", history: newRevisions("a"), verdict: AwaitingApproval, run: []string{"a"}},
		"at startup the approved spec runs under another version":      {want: "a/2", approved: "a", history: newRevisions("a"), verdict: Run, run: []string{spec, "a"}},
		"a revision of an earlier profile does not approve":            {want: "a", approved: "none", history: newRevisions("a:another profile's"), verdict: AwaitingApproval},
		"a revision that ran before the newest does not approve":       {want: "a", approved: "none", history: newRevisions("a", "b"), verdict: AwaitingApproval, run: []string{"b", "a"}},
		"a revision that was only tried does not approve":              {want: "b", approved: "none", history: newRevisions("a", "b:on trial"), verdict: AwaitingApproval, run: []string{"a"}},
		"a revision that was only tried is no fallback":                {history: newRevisions("a", "b:on trial"), verdict: Rejected, run: []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
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
				BuiltIn: func(*compile.Blueprint) bool { return !c.outOfTree },
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
				candidateName := spec
				if candidate.Revision != nil {
					candidateName = candidate.Revision.Profile.Name
				}
				if candidate.BlamedFor != nil {
					candidateName = "last " + candidateName
				}
				run = append(run, candidateName)
			}
			if diff := cmp.Diff(fmt.Sprint(c.verdict, c.run), fmt.Sprint(verdict, run)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestChooseSkipsTrials(t *testing.T) {
	binpack := func(uid types.UID) *v1alpha1.ProgrammedProfile {
		return &v1alpha1.ProgrammedProfile{Hash: "b/1", Generation: 5, Configs: []v1alpha1.ObjectGeneration{{Name: "binpack", Generation: 2, UID: uid}}}
	}
	for name, c := range map[string]struct {
		running string
		history []Revision
		status  *v1alpha1.ProgrammedProfile
		want    []bool // of the spec, and of its fallbacks
	}{
		"a new spec is tried":                                              {running: "a", history: newRevisions("a"), want: []bool{false}},
		"the first spec of a profile is tried":                             {want: []bool{false}},
		"a proved spec is tried in a swap":                                 {running: "a", history: newRevisions("a", "b"), want: []bool{false}},
		"a proved spec is not tried at startup":                            {history: newRevisions("a", "b"), want: []bool{true, true, true}},
		"a spec on probation is tried":                                     {history: newRevisions("a", "b:seconds"), want: []bool{false, true, false}},
		"a spec that ran by the status is not tried":                       {history: newRevisions("a", "b:seconds"), status: &v1alpha1.ProgrammedProfile{Hash: "b"}, want: []bool{true, true, true}},
		"a spec that runs in another process by the status is not tried":   {running: "a", status: &v1alpha1.ProgrammedProfile{Hash: "b"}, want: []bool{true}},
		"a spec that ran under another version by the status is not tried": {status: binpack("binpack-1"), want: []bool{true}},
		"nor is it if that version reported no UIDs":                       {status: binpack(""), want: []bool{true}},
		"it is tried if a PluginConfig was deleted and created again":      {status: binpack("binpack-0"), want: []bool{false}},
		"it is tried if its PluginConfigs changed":                         {status: &v1alpha1.ProgrammedProfile{Hash: "b/1", Generation: 5}, want: []bool{false}},
	} {
		t.Run(name, func(t *testing.T) {
			s := ChooseInput{
				Profile: &v1alpha1.SchedulingProfile{}, RunningHash: c.running, Revisions: c.history, Durable: true,
				Desired: &compile.Blueprint{Name: "p", Hash: "b", Generation: 5, Configs: []compile.ConfigGeneration{{Name: "binpack", Generation: 2, UID: "binpack-1"}}},
				Compile: func(r *Revision) *compile.Blueprint { return &compile.Blueprint{Name: "p", Hash: r.Profile.Name} },
			}
			s.BuiltIn = func(*compile.Blueprint) bool { return true }
			s.Profile.UID, s.Profile.Status.Programmed = "p-1", c.status
			_, candidates := Choose(s)
			var skip []bool
			for _, candidate := range candidates {
				skip = append(skip, candidate.SkipTrial)
			}
			if diff := cmp.Diff(c.want, skip); diff != "" {
				t.Errorf("SkipTrial (-want +got):\n%s", diff)
			}
		})
	}
}
