package check

import (
	"context"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// lease names the Lease that the leader holds, in Berth's namespace.
const leaseName = "berth-manager"

// server tells the API server's version, which should be one that Berth is for.
func (r *report) checkServer(is string) {
	switch parsed, err := version.ParseGeneric(is); {
	case err != nil:
		r.note("server", "Kubernetes %s: whether that is at least %s is not to be known: %v", is, config.MinKubeVersion, err)
	case parsed.LessThan(version.MustParseGeneric(config.MinKubeVersion)):
		r.wrong("server", "Kubernetes %s is older than %s, the oldest that Berth is for: upgrade the cluster first", is, config.MinKubeVersion)
	default:
		r.ok("server", "Kubernetes %s", is)
	}
}

// kinds looks for the CustomResourceDefinitions; false when profiles are not
// served, so that nothing else can be asked.
func (o *options) checkCRDs(ctx context.Context, r *report) bool {
	names, err := manifest.Definitions()
	if err != nil {
		r.wrong("crds", "this plugin was built without them: %v", err)
		return false
	}
	bad := 0
	for _, name := range names {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		err := o.cluster.Client.Get(ctx, client.ObjectKey{Name: name}, definition)
		switch {
		case apierrors.IsNotFound(err):
			bad++
			r.wrong("crds", "%s is not installed; install it with: kubectl apply --server-side -k config/crd", name)
		case err != nil:
			r.failed("crds", "%s: %v", name, err)
		case !established(definition):
			bad++
			r.wrong("crds", "%s is there, and does not serve %s", name, v1alpha1.GroupVersion)
		default:
			r.ok("crds", "%s serves %s", name, v1alpha1.GroupVersion.Version)
		}
	}
	return bad < len(names)
}

// established says whether the API server serves our version of a kind.
func established(d *apiextensionsv1.CustomResourceDefinition) bool {
	served := slices.ContainsFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == v1alpha1.GroupVersion.Version && v.Served
	})
	return served && slices.ContainsFunc(d.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

// leader looks who holds the Lease.
func (o *options) checkLease(ctx context.Context, r *report) {
	held := &coordinationv1.Lease{}
	err := o.cluster.Client.Get(ctx, client.ObjectKey{Namespace: o.cluster.BerthNamespace, Name: leaseName}, held)
	where := o.cluster.BerthNamespace + "/" + leaseName
	switch {
	case apierrors.IsNotFound(err):
		r.note("leader", "there is no Lease %s: Berth does not run, runs with --leader-elect=false, or in another --berth-namespace", where)
		return
	case err != nil:
		r.failed("leader", "the Lease %s: %v", where, err)
		return
	}
	holder, renewed := ptr.Deref(held.Spec.HolderIdentity, ""), metav1.Time(ptr.Deref(held.Spec.RenewTime, metav1.MicroTime(held.CreationTimestamp)))
	lasts := time.Duration(ptr.Deref(held.Spec.LeaseDurationSeconds, 15)) * time.Second
	switch ago := show.Age(renewed, o.Now()); {
	case holder == "":
		r.wrong("leader", "nobody holds the Lease %s: the last leader gave it back %s ago, and none followed", where, ago)
	case o.Now().After(renewed.Add(lasts)):
		r.wrong("leader", "%s holds the Lease %s and has not renewed it for %s: pods are not scheduled", holder, where, ago)
	default:
		r.ok("leader", "%s holds the Lease %s, renewed %s ago", holder, where, ago)
	}
}

// profiles tells those that are not ready, and pods whose name nobody serves.
func (o *options) checkProfiles(ctx context.Context, r *report) {
	profiles, err := o.cluster.Profiles(ctx)
	if err != nil {
		r.failed("profiles", "%v", err)
		r.failed("pods", "without the profiles it is unknown which names are served")
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
			r.wrong("profiles", "%s is not ready, %s: %s", profiles[i].Name, reason, message)
		}
	}
	if len(profiles) == 0 {
		r.note("profiles", "there is none: the leader makes the one that its --default-profile names")
	} else {
		r.ok("profiles", "%d of %s ready", ready, show.Count(len(profiles), "profile"))
	}
	o.checkPods(ctx, r, cluster.ProfileNames(profiles))
}
