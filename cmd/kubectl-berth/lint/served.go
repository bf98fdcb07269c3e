package lint

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/manifest"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/scheduler/upstreamconfig"
)

// Values of --other-scheduler-lease.
const (
	// noLease says that nobody serves default-scheduler.
	leaseNone = "none"
	// usualLease is kube-scheduler's own.
	defaultLease = "kube-system/kube-scheduler"
)

// checkLease says what is wrong with --other-scheduler-lease.
func (o *options) checkLease() error {
	namespace, name, slash := strings.Cut(o.lease, "/")
	if o.lease == "" || o.lease == leaseNone || slash && namespace != "" && name != "" && !strings.Contains(name, "/") {
		return nil
	}
	return fmt.Errorf("--other-scheduler-lease: must be NAMESPACE/NAME, %s, or empty, is %q", leaseNone, o.lease)
}

// known is what is known of the schedulers beside Berth.
type otherSchedulers struct {
	// others are the names of --other-schedulers; given says by whom.
	names   []string
	givenBy string
	// lease is as --other-scheduler-lease; empty: not given.
	lease string
	// files says by name which file has a kube-scheduler serve it.
	files map[string]string
	// live says by name what the cluster knows.
	evidence map[string][]string
}

// warn says which of the profiles' names another scheduler serves, and returns how many
// warnings that were.
func (o *options) printWarnings(ctx context.Context, files *manifest.Files) (warned int, err error) {
	profiles := files.Profiles()
	if len(profiles) == 0 {
		return 0, nil
	}
	k := &otherSchedulers{names: o.others, lease: o.lease, files: map[string]string{}}
	if o.othersGiven {
		k.givenBy = "--other-schedulers"
	}
	for _, d := range configurationsOf(files) {
		names, err := servedNames(d)
		if err != nil {
			return 0, err
		}
		for _, name := range names {
			k.files[name] = d.Source
		}
	}
	if !o.offline {
		o.addClusterInfo(ctx, profiles, k)
	}
	for _, p := range profiles {
		for _, text := range k.warningsFor(p) {
			warned++
			fmt.Fprintln(o.ErrOut, show.Wrap("Warning: SchedulingProfile/"+p.Name+": metadata.name: "+text, "", "  "))
		}
	}
	return warned, nil
}

// about are the warnings on one profile.
func (k *otherSchedulers) warningsFor(p *v1alpha1.SchedulingProfile) []string {
	var texts []string
	takesOver := p.Annotations[v1alpha1.AnnotationTakeOver] == "true"
	listed := k.givenBy != "" && slices.Contains(k.names, p.Name)
	switch {
	case listed:
		texts = append(texts, fmt.Sprintf("%s says that another scheduler serves %s: it would be Accepted=False, %s, also with the annotation %s",
			k.givenBy, p.Name, v1alpha1.ReasonNameServedElsewhere, v1alpha1.AnnotationTakeOver))
	case p.Name == corev1.DefaultSchedulerName && !takesOver && k.lease == "":
		texts = append(texts, fmt.Sprintf("kube-scheduler serves %s in most clusters: it would be Accepted=False, %s, unless Berth is started with "+
			"--other-scheduler-lease (give that flag here, too) or it has the annotation %s: \"true\"",
			p.Name, v1alpha1.ReasonNameServedElsewhere, v1alpha1.AnnotationTakeOver))
	}
	if source := k.files[p.Name]; source != "" {
		texts = append(texts, fmt.Sprintf("a kube-scheduler with the configuration of %s serves %s, too: give one of them another name", source, p.Name))
	}
	return append(texts, k.evidence[p.Name]...)
}

// configurationsOf are the documents that hold configurations of kube-scheduler, those
// in ConfigMaps taken out. A ConfigMap that holds none that can be read is not looked at.
func configurationsOf(files *manifest.Files) (found []manifest.Document) {
	for _, d := range files.Others {
		switch d.Object.GetKind() {
		case upstreamconfig.Kind:
			found = append(found, d)
		case manifest.ConfigMap:
			if inside, err := manifest.Configurations(d); err == nil {
				found = append(found, inside...)
			}
		}
	}
	return found
}

// namesIn are the names that a kube-scheduler serves with a configuration. A Policy
// does not say them.
func servedNames(d manifest.Document) ([]string, error) {
	if d.Object.GetKind() != upstreamconfig.Kind {
		return nil, nil
	}
	profiles, _, err := unstructured.NestedSlice(d.Object.Object, "profiles")
	if err != nil {
		return nil, fmt.Errorf("%s: profiles: must be a list", d.Source)
	}
	var names []string
	for _, entry := range profiles {
		name := corev1.DefaultSchedulerName // which one profile alone may leave out
		if profile, ok := entry.(map[string]any); ok {
			if own, _, err := unstructured.NestedString(profile, "schedulerName"); err == nil && own != "" {
				name = own
			}
		}
		names = append(names, name)
	}
	if names == nil {
		names = []string{corev1.DefaultSchedulerName}
	}
	return names, nil
}
