package retry

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/kubectltest"
)

// profileWithCondition is batch with one condition.
func profileWithCondition(t v1alpha1.ConditionType, status metav1.ConditionStatus, reason v1alpha1.ConditionReason, message string) *v1alpha1.SchedulingProfile {
	p := kubectltest.Profile("batch", 3)
	p.Status.Conditions = []metav1.Condition{{
		Type: string(t), Status: status, Reason: string(reason), Message: message, ObservedGeneration: p.Generation,
	}}
	return p
}

func runningProfile() *v1alpha1.SchedulingProfile {
	p := profileWithCondition(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed, "generation 3 runs since 10:12")
	p.Status.Programmed = &v1alpha1.ProgrammedProfile{Generation: 3, Hash: "9f3c1a2b4d"}
	return p
}

func crashedProfile() *v1alpha1.SchedulingProfile {
	return profileWithCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonCrashedOnProbation, "nothing runs; generation 3 is blamed for crashes")
}

func TestRetry(t *testing.T) {
	for name, c := range map[string]struct {
		profile *v1alpha1.SchedulingProfile
		name    string
	}{
		"a profile that crashed":                {crashedProfile(), "batch"},
		"a profile that could not be built":     {profileWithCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonBuildFailed, "nothing runs"), "batch"},
		"a profile that is running":             {runningProfile(), "batch"},
		"a profile that is rejected":            {profileWithCondition(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonUnknownPlugin, `nothing runs; generation 3 refused: no plugin "NoSuch"`), "batch"},
		"a profile that waits for approval":     {profileWithCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonAwaitingApproval, "nothing runs; generation 3 waits for approval"), "batch"},
		"a profile that does not exist":         {crashedProfile(), "bacth"},
		"a profile that Berth has not observed": {kubectltest.Profile("batch", 3), "batch"},
	} {
		t.Run(name, func(t *testing.T) {
			kubectltest.Golden(t, name, kubectltest.New(t, c.profile).Run(New, c.name), false)
		})
	}
}

func TestRetryAnnotatesOnlyAProfileThatDoesNotRun(t *testing.T) {
	for name, c := range map[string]struct {
		profile *v1alpha1.SchedulingProfile
		want    string
	}{
		"a profile that crashed":    {crashedProfile(), "2026-03-01T12:00:00Z"},
		"a profile that is running": {runningProfile(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			env := kubectltest.New(t, c.profile)
			env.Run(New, "batch")
			p, err := env.Profile(t.Context(), "batch")
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Annotations[v1alpha1.AnnotationRetry]; got != c.want {
				t.Errorf("berth.dev/retry is %q, want %q", got, c.want)
			}
		})
	}
}
