package faults

import (
	"context"
	"errors"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/support/history"
)

// recorder records all versions of pods and nodes, as etcd has them.
type recorder struct{ *history.Recorder }

// startRecorder starts a recorder until the spec or the container ends.
func (e *testEnv) startRecorder(ctx context.Context) recorder {
	GinkgoHelper()
	r, err := history.Start(ctx, e.cp.Etcd(), 0)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(r.Stop)
	return recorder{r}
}

// bound returns how many binds there were so far.
func (r recorder) bound() int { return len(r.Binds()) }

// verdict is what a history shows.
type verdict struct {
	// violations are what must never happen, and unsettled pods that wait and should not.
	violations, unsettled []string
	binds, pending        int
	// text is the whole result.
	text string
}

// judge checks the history of the pods of these profiles. Pods of another scheduler are created
// with their node, and count for nothing: only scenes have them, where they take no resources that
// their own pods had.
func (r recorder) judge(profiles ...string) (v verdict, err error) {
	h, err := r.History()
	if err := errors.Join(err, h.Complete()); err != nil {
		return v, err
	}
	changes := slices.DeleteFunc(h.Changes, func(c history.Change) bool {
		pod, is := c.Object.(*corev1.Pod)
		return is && pod.Spec.SchedulerName == foreign
	})
	result := history.Check(changes, profiles...)
	return verdict{result.Violations, result.Unsettled, result.Binds, result.Pending, result.String()}, nil
}
