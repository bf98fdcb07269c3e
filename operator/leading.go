package operator

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler"
	"github.com/berthdev/berth/scheduler/recorder"
	"github.com/berthdev/berth/scheduler/tenure"
)

// leaseTolerance is how long after the end of its Lease a leader may be there:
// what client-go's HealthzAdaptor is given by kube-scheduler.
const leaseTolerance = 20 * time.Second

// lease is what the leader is elected by; nil where none is.
func (o options) lease(term *tenure.Tenure, config *restclient.Config, telling *recorder.Recorder) (resourcelock.Interface, error) {
	if !o.elect.LeaderElect {
		term.Alone()
		return nil, nil
	}
	return term.Lease(config, o.namespace, leaseName, electionNews{telling})
}

// electionNews tells of elections as Events of ours.
type electionNews struct{ *recorder.Recorder }

// Eventf tells who began or stopped to lead.
func (n electionNews) Eventf(about runtime.Object, kind, reason, message string, args ...any) {
	n.For(reporter).Eventf(about, nil, kind, reason, "Election", message, args...)
}

// takeover is what a new leader asks.
func (c clients) takeover() scheduler.Takeover {
	call := tenure.By(c.meta)
	return scheduler.Takeover{Call: call, Profiles: call.Names(v1alpha1.GroupVersion.WithResource("schedulingprofiles"))}
}
