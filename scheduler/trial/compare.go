package trial

import (
	"errors"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/fault"
)

// Outcome is what a trial found out.
type Outcome struct {
	// Sampled is how many pods were asked about, FitAfter how many of them fit.
	Sampled, FitAfter int
	// Compared says that what runs was asked about the same pods, FitBefore how
	// many of them fit then.
	Compared  bool
	FitBefore int
	// Lost are the pods that fitted and do not any more.
	Lost []PodResult
	// Faults are the pods about which the plugins could not decide, and could
	// before.
	Failures []PodResult
}

// Verdict is a pod, and what was said of it.
type PodResult struct {
	Namespace, Pod string
	Err            error
}

// Compare puts together what the new plugins said of pods and, where before is
// not nil, what those that run said of the same ones. Where what runs fails as
// well a change makes nothing worse, and one pod that no plugins can deal with
// must not keep every change away.
func Compare(pods []*v1.Pod, after, before Results) Outcome {
	o := Outcome{Compared: before != nil}
	for i, answer := range after {
		compared := i < len(before)
		if o.Compared && !compared {
			// There was no time for the rest of the comparison: what fits is
			// told of the pods that both were asked about.
			if isFailure(answer) {
				o.Failures = append(o.Failures, PodResult{pods[i].Namespace, pods[i].Name, answer})
			}
			continue
		}
		o.Sampled++
		verdict := PodResult{pods[i].Namespace, pods[i].Name, answer}
		if answer == nil {
			o.FitAfter++
		}
		if compared && before[i] == nil {
			o.FitBefore++
			if answer != nil {
				o.Lost = append(o.Lost, verdict)
			}
		}
		if isFailure(answer) && (fault.TrialBlamesTheNew || !compared || !isFailure(before[i])) {
			o.Failures = append(o.Failures, verdict)
		}
	}
	return o
}

// isFault says whether the plugins failed rather than refused.
func isFailure(answer error) bool {
	var refused *rejection
	return answer != nil && !errors.As(answer, &refused)
}
