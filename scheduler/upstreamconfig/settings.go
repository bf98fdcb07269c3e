package upstreamconfig

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/api/v1alpha1"
)

// settings are the fields of a configuration that apply to all of its profiles.
type settings struct {
	percentage                 int32
	initialBackoff, maxBackoff *int32
	extenders                  []v1alpha1.Extender
	// ignoredResources are the resources that extenders take from NodeResourcesFit.
	ignoredResources []string
	fields           []fieldMapping
}

// maxBackoff bounds a profile's backoff, in seconds.
const maxBackoff = 86400

func (s settings) applyTo(spec *v1alpha1.SchedulingProfileSpec) {
	spec.PercentageOfNodesToScore = s.percentage
	spec.Queue.InitialBackoffSeconds, spec.Queue.MaxBackoffSeconds = s.initialBackoff, s.maxBackoff
	for i := range s.extenders {
		spec.Extenders = append(spec.Extenders, *s.extenders[i].DeepCopy())
	}
}

// settingsOf converts what all profiles share, and adds a remark for each field that is
// not a field of a profile.
func settingsOf(c *configv1.KubeSchedulerConfiguration, r *Result, errs *Errors) settings {
	spec := field.NewPath("spec")
	s := settings{fields: []fieldMapping{
		{spec.Child("percentageOfNodesToScore").String(), "percentageOfNodesToScore"},
		{spec.Child("queue", "initialBackoffSeconds").String(), "podInitialBackoffSeconds"},
		{spec.Child("queue", "maxBackoffSeconds").String(), "podMaxBackoffSeconds"},
	}}
	if c.PercentageOfNodesToScore != nil {
		s.percentage = *c.PercentageOfNodesToScore
	}
	s.initialBackoff = backoff(c.PodInitialBackoffSeconds, field.NewPath("podInitialBackoffSeconds"), errs)
	s.maxBackoff = backoff(c.PodMaxBackoffSeconds, field.NewPath("podMaxBackoffSeconds"), errs)
	if c.Parallelism != nil {
		if *c.Parallelism <= 0 {
			errs.add(field.NewPath("parallelism"), "must be greater than 0, is %d", *c.Parallelism)
		}
		r.note(field.NewPath("parallelism"), "left out: Berth decides one pod at a time, as kube-scheduler does with parallelism 1, and needs no more")
	}
	if c.DelayCacheUntilActive {
		r.note(field.NewPath("delayCacheUntilActive"), "left out: Berth's followers keep their caches warm, so that one takes over at once")
	}
	noteProcessSettings(c, r)
	var fields []fieldMapping
	s.extenders, fields = extendersOf(c, r, errs)
	s.fields = append(s.fields, fields...)
	s.ignoredResources = ignoredResources(c)
	return s
}

func backoff(seconds *int64, path *field.Path, errs *Errors) *int32 {
	if seconds == nil {
		return nil
	}
	if *seconds < 1 || *seconds > maxBackoff {
		errs.add(path, "must be from 1 to %d, is %d", maxBackoff, *seconds)
		return nil
	}
	s := int32(*seconds)
	return &s
}

// noteProcessSettings adds a remark for each field that belongs to the process instead
// of a profile, with the flag of the manager that replaces it.
func noteProcessSettings(c *configv1.KubeSchedulerConfiguration, r *Result) {
	var zero configv1.KubeSchedulerConfiguration
	le, cc := c.LeaderElection, c.ClientConnection
	for _, s := range []struct {
		path, text string
		set        bool
	}{
		{"leaderElection.leaderElect", "the manager's flag --leader-elect", le.LeaderElect != nil},
		{"leaderElection.leaseDuration", "the manager's flag --leader-elect-lease-duration", le.LeaseDuration != zero.LeaderElection.LeaseDuration},
		{"leaderElection.renewDeadline", "the manager's flag --leader-elect-renew-deadline", le.RenewDeadline != zero.LeaderElection.RenewDeadline},
		{"leaderElection.retryPeriod", "the manager's flag --leader-elect-retry-period", le.RetryPeriod != zero.LeaderElection.RetryPeriod},
		{"leaderElection.resourceLock", "left out: Berth's lock is always a Lease", le.ResourceLock != ""},
		{"leaderElection.resourceName", "left out: Berth's Lease has a name of its own", le.ResourceName != ""},
		{"leaderElection.resourceNamespace", "the manager's flag --namespace", le.ResourceNamespace != ""},
		{"clientConnection.kubeconfig", "the manager's flag --kubeconfig", cc.Kubeconfig != ""},
		{"clientConnection.qps", "the manager's flag --kube-api-qps", cc.QPS != 0},
		{"clientConnection.burst", "the manager's flag --kube-api-burst", cc.Burst != 0},
		{"clientConnection.contentType", "left out: Berth speaks protobuf where the API server does", cc.ContentType != ""},
		{"clientConnection.acceptContentTypes", "left out: Berth speaks protobuf where the API server does", cc.AcceptContentTypes != ""},
		{"enableProfiling", "the manager's flag --pprof-bind-address", c.EnableProfiling != nil},
		{"enableContentionProfiling", "the manager's flag --pprof-bind-address", c.EnableContentionProfiling != nil},
	} {
		if s.set {
			r.note(field.NewPath(s.path), "%s", s.text)
		}
	}
}

// joinNames joins names with commas and "and".
func joinNames(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
