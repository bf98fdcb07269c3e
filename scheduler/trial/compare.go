package trial

import (
	"errors"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/fault"
)

// Outcome is the result of a trial.
type Outcome struct {
	// Sampled is how many pods were evaluated, FitAfter how many of them fit.
	Sampled, FitAfter int
	// Compared says that the running plugins were evaluated for the same pods, FitBefore
	// how many of the pods fit with them.
	Compared  bool
	FitBefore int
	// Lost are the pods that fit with the running plugins only.
	Lost []PodResult
	// Failures are the pods for which the new plugins failed and the running ones did
	// not.
	Failures []PodResult
}

// PodResult is a pod and the error with which its evaluation ended.
type PodResult struct {
	Namespace, Pod string
	Err            error
}

// Compare builds the Outcome from the results of the new plugins and, where before is not
// nil, those of the running plugins for the same pods. Where the running plugins fail as
// well, the change makes nothing worse: one pod for which all plugins fail must not block
// every change.
func Compare(pods []*v1.Pod, after, before Results) Outcome {
	o := Outcome{Compared: before != nil}
	for i, result := range after {
		compared := i < len(before)
		if o.Compared && !compared {
			// The running plugins ran out of time here. Only pods with both results
			// count as sampled.
			if isFailure(result) {
				o.Failures = append(o.Failures, PodResult{pods[i].Namespace, pods[i].Name, result})
			}
			continue
		}
		o.Sampled++
		podResult := PodResult{pods[i].Namespace, pods[i].Name, result}
		if result == nil {
			o.FitAfter++
		}
		if compared && before[i] == nil {
			o.FitBefore++
			if result != nil {
				o.Lost = append(o.Lost, podResult)
			}
		}
		if isFailure(result) && (fault.TrialBlamesTheNew || !compared || !isFailure(before[i])) {
			o.Failures = append(o.Failures, podResult)
		}
	}
	return o
}

// isFailure reports whether the plugins failed, rather than rejected the pod.
func isFailure(result error) bool {
	var rejected *rejection
	return result != nil && !errors.As(result, &rejected)
}
