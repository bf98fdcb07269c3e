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
	// leaseNone: no other scheduler serves default-scheduler.
	leaseNone = "none"
	// defaultLease is kube-scheduler's Lease.
	defaultLease = "kube-system/kube-scheduler"
)

// checkLease validates --other-scheduler-lease.
func (o *options) checkLease() error {
	namespace, name, slash := strings.Cut(o.lease, "/")
	if o.lease == "" || o.lease == leaseNone || slash && namespace != "" && name != "" && !strings.Contains(name, "/") {
		return nil
	}
	return fmt.Errorf("--other-scheduler-lease: Invalid value: %q: must be NAMESPACE/NAME or %s", o.lease, leaseNone)
}

// otherSchedulers is what is known of other schedulers than Berth.
type otherSchedulers struct {
	// names are the values of --other-schedulers; givenBy says where the flag was given.
	names   []string
	givenBy string
	// lease is the value of --other-scheduler-lease; empty if it was not given.
	lease string
	// files maps names to the file with the configuration of a kube-scheduler that serves them.
	files map[string]string
	// evidence maps names to warnings from the cluster.
	evidence map[string][]string
}

// printWarnings prints a warning for each name of a profile that another scheduler serves.
// It returns the number of warnings.
func (o *options) printWarnings(ctx context.Context, files *manifest.Files) (warned int, err error) {
	profiles := files.Profiles()
	if len(profiles) == 0 {
		return 0, nil
	}
	k := &otherSchedulers{names: o.others, lease: o.lease, files: map[string]string{}}
	if o.othersGiven {
		k.givenBy = "--other-schedulers"
	}
	configurations, err := configurationsOf(files)
	if err != nil {
		return 0, err
	}
	for _, d := range configurations {
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

// warningsFor returns the warnings for one profile.
func (k *otherSchedulers) warningsFor(p *v1alpha1.SchedulingProfile) []string {
	var texts []string
	takesOver := p.Annotations[v1alpha1.AnnotationTakeOver] == "true"
	listed := k.givenBy != "" && slices.Contains(k.names, p.Name)
	switch {
	case listed:
		texts = append(texts, fmt.Sprintf("%s says that another scheduler serves %s: the profile would get Accepted=False (%s), even with the annotation %s",
			k.givenBy, p.Name, v1alpha1.ReasonNameServedElsewhere, v1alpha1.AnnotationTakeOver))
	case p.Name == corev1.DefaultSchedulerName && !takesOver && k.lease == "":
		texts = append(texts, fmt.Sprintf("kube-scheduler serves %s in most clusters: the profile would get Accepted=False (%s), unless Berth runs with "+
			"--other-scheduler-lease (set that flag here, too) or the profile has the annotation %s: \"true\"",
			p.Name, v1alpha1.ReasonNameServedElsewhere, v1alpha1.AnnotationTakeOver))
	}
	if source := k.files[p.Name]; source != "" {
		texts = append(texts, fmt.Sprintf("a kube-scheduler with the configuration in %s serves %s, too: rename one of the two", source, p.Name))
	}
	return append(texts, k.evidence[p.Name]...)
}

// configurationsOf returns the configurations of kube-scheduler in the files, also in
// ConfigMaps. A ConfigMap without one is ignored; one that cannot be read is an error.
func configurationsOf(files *manifest.Files) (found []manifest.Document, err error) {
	for _, d := range files.Others {
		switch d.Object.GetKind() {
		case upstreamconfig.Kind:
			found = append(found, d)
		case manifest.ConfigMap:
			inside, err := manifest.Configurations(d)
			if err != nil {
				return nil, err
			}
			found = append(found, inside...)
		}
	}
	return found, nil
}

// servedNames returns the names that a kube-scheduler with this configuration serves. A
// Policy does not have them.
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
		name := corev1.DefaultSchedulerName // the only profile may have no name
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
