package check

import (
	"context"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/manifest"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/config"
)

// leaseName is the name of the Lease that the leader holds, in Berth's namespace.
const leaseName = "berth-manager"

// checkServer compares the version of the API server with the oldest supported one.
func (r *report) checkServer(is string) {
	switch parsed, err := version.ParseGeneric(is); {
	case err != nil:
		r.note("server", "Kubernetes %s: cannot tell whether this is at least %s: %v", is, config.MinKubeVersion, err)
	case parsed.LessThan(version.MustParseGeneric(config.MinKubeVersion)):
		r.fail("server", "Kubernetes %s is not supported: Berth needs %s or later; upgrade the cluster", is, config.MinKubeVersion)
	default:
		r.ok("server", "Kubernetes %s", is)
	}
}

// checkCRDs checks the CustomResourceDefinitions of Berth. It returns false if none can be
// used, so that profiles cannot be read.
func (o *options) checkCRDs(ctx context.Context, r *report) bool {
	names, err := manifest.Definitions()
	if err != nil {
		r.fail("crds", "this plugin was built without CustomResourceDefinitions: %v", err)
		return false
	}
	bad := 0
	for _, name := range names {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		err := o.cluster.Client.Get(ctx, client.ObjectKey{Name: name}, definition)
		switch {
		case apierrors.IsNotFound(err):
			bad++
			r.fail("crds", "%s is not installed; install it with: kubectl apply --server-side -k config/crd", name)
		case err != nil:
			r.failed("crds", "%s: %v", name, err)
		case !established(definition):
			bad++
			r.fail("crds", "%s is installed but does not serve %s", name, v1alpha1.GroupVersion)
		default:
			r.ok("crds", "%s serves %s", name, v1alpha1.GroupVersion.Version)
		}
	}
	return bad < len(names)
}

// established reports whether the API server serves our version of a kind.
func established(d *apiextensionsv1.CustomResourceDefinition) bool {
	served := slices.ContainsFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == v1alpha1.GroupVersion.Version && v.Served
	})
	return served && slices.ContainsFunc(d.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

// checkLease checks who holds the Lease, and since when it is renewed.
func (o *options) checkLease(ctx context.Context, r *report) {
	held := &coordinationv1.Lease{}
	err := o.cluster.Client.Get(ctx, client.ObjectKey{Namespace: o.cluster.BerthNamespace, Name: leaseName}, held)
	where := o.cluster.BerthNamespace + "/" + leaseName
	switch {
	case apierrors.IsNotFound(err):
		r.note("leader", "Lease %s not found: Berth is not running, runs with --leader-elect=false, or runs in another namespace (set --berth-namespace)", where)
		return
	case err != nil:
		r.failed("leader", "Lease %s: %v", where, err)
		return
	}
	holder, renewed := ptr.Deref(held.Spec.HolderIdentity, ""), metav1.Time(ptr.Deref(held.Spec.RenewTime, metav1.MicroTime(held.CreationTimestamp)))
	lasts := time.Duration(ptr.Deref(held.Spec.LeaseDurationSeconds, 15)) * time.Second
	switch ago := show.Age(renewed, o.Now()); {
	case holder == "":
		r.fail("leader", "no replica holds Lease %s: the last leader released it %s ago", where, ago)
	case o.Now().After(renewed.Add(lasts)):
		r.fail("leader", "%s holds Lease %s but has not renewed it for %s: no pods are scheduled", holder, where, ago)
	default:
		r.ok("leader", "%s holds Lease %s, renewed %s ago", holder, where, ago)
	}
}

// checkProfiles reports profiles that are not Ready, and then checks the pods.
func (o *options) checkProfiles(ctx context.Context, r *report) {
	profiles, err := o.cluster.Profiles(ctx)
	if err != nil {
		r.failed("profiles", "%v", err)
		r.failed("pods", "cannot tell which schedulerNames are served without the profiles")
		return
	}
	ready := 0
	for i := range profiles {
		switch reason, message := notReady(&profiles[i]); {
		case reason == "":
			ready++
		case reason == string(v1alpha1.ReasonPaused):
			r.note("profiles", "%s is paused: %s", profiles[i].Name, message)
		default:
			r.fail("profiles", "%s is not Ready (%s): %s", profiles[i].Name, reason, message)
		}
		if d := meta.FindStatusCondition(profiles[i].Status.Conditions, string(v1alpha1.ConditionDegraded)); d != nil && d.Status == metav1.ConditionTrue {
			r.note("profiles", "%s is Degraded (%s): %s", profiles[i].Name, d.Reason, d.Message)
		}
	}
	if len(profiles) == 0 {
		r.note("profiles", "no SchedulingProfile exists; the leader creates the one that --default-profile names")
	} else {
		r.ok("profiles", "%d of %s ready", ready, show.Count(len(profiles), "profile"))
	}
	o.checkPods(ctx, r, cluster.ProfileNames(profiles))
}
