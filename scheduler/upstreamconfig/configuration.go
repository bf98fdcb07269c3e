package upstreamconfig

import (
	"cmp"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
)

// Kind is the kind of kube-scheduler's configuration file.
const Kind = "KubeSchedulerConfiguration"

// FromConfiguration converts a KubeSchedulerConfiguration in JSON. The error is of
// type Errors, each of which names its field: what kube-scheduler itself would reject,
// and names that no SchedulingProfile can have.
func FromConfiguration(text []byte, o Options) (*Result, error) {
	config := &configv1.KubeSchedulerConfiguration{}
	if err := decode(text, config); err != nil {
		return nil, err
	}
	r, want := &Result{}, configv1.SchemeGroupVersion.String()
	if config.APIVersion == V1beta3 && config.Kind == Kind {
		if err := fromV1beta3(config, r); err != nil {
			return nil, err
		}
	}
	if config.APIVersion != want || config.Kind != Kind {
		return nil, Errors{"apiVersion: must be " + want + " or " + V1beta3 + ", and kind " + Kind + ", is " + config.APIVersion + " and " + config.Kind +
			": the kube-scheduler of an older version converts it with --config OLD --write-config-to NEW"}
	}
	return fromConfiguration(config, o, r, nil)
}

// fromConfiguration adds the profiles of a configuration to r. Where the configuration
// was made from another file, origin maps a path of the configuration to a field of
// that file; otherwise it is nil.
func fromConfiguration(config *configv1.KubeSchedulerConfiguration, o Options, r *Result, origin func(path string) string) (*Result, error) {
	if len(config.Profiles) == 0 {
		config.Profiles = []configv1.KubeSchedulerProfile{{}}
	}
	if first := &config.Profiles[0]; len(config.Profiles) == 1 && first.SchedulerName == nil {
		name := cmp.Or(o.Name, corev1.DefaultSchedulerName)
		first.SchedulerName = &name
	}
	var errs Errors
	checkNameOfOptions(config.Profiles, o.Name, &errs)
	shared := settingsOf(config, r, &errs)
	names := map[string]int{}
	var validations []func()
	for i := range config.Profiles {
		path := field.NewPath("profiles").Index(i)
		name := checkName(config.Profiles[i].SchedulerName, path.Child("schedulerName"), &errs)
		if j, twice := names[name]; twice && name != "" {
			errs.add(path.Child("schedulerName"), "Duplicate value: %q: profiles[%d] already has this name", name, j)
		}
		names[name] = i
		w := &profileWriter{registry: o.Registry, result: r, errors: &errs, from: &config.Profiles[i], path: path}
		profile := w.profile(name, shared)
		validations = append(validations, func() {
			w.validate(profile, origin)
			w.leaveOutIgnoredResources(profile, shared.ignoredResources) // validated before, since kube-scheduler validates them
		})
		r.Profiles = append(r.Profiles, profile)
		if name == corev1.DefaultSchedulerName {
			r.note(path.Child("schedulerName"), "while a kube-scheduler serves %s, Berth leaves its pods alone: stop that one first, or annotate the profile %s: \"true\"",
				name, v1alpha1.AnnotationTakeOver)
		}
	}
	if len(errs) == 0 { // the compiler would report errors that follow from these
		for _, validate := range validations {
			validate()
		}
	}
	if err := errs.err(); err != nil {
		return nil, err
	}
	if !o.Inline {
		r.extractSharedArguments()
	}
	return r, nil
}

// dnsSubdomain is the pattern of the CRD for the name of a profile.
var dnsSubdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// maxNameLength bounds the name of a profile: the API server rejects events with a
// longer reporting controller.
const maxNameLength = 63

func checkName(name *string, path *field.Path, errs *Errors) string {
	switch {
	case name == nil || *name == "":
		errs.add(path, "must be set where there are several profiles: it becomes the SchedulingProfile's name")
		return ""
	case len(*name) > maxNameLength:
		errs.add(path, "must be at most %d characters, since it becomes a SchedulingProfile's name, is %d: give the profile, and its pods, a shorter one", maxNameLength, len(*name))
	case !dnsSubdomain.MatchString(*name):
		errs.add(path, "must be a DNS subdomain, since it becomes a SchedulingProfile's name (lower-case letters, digits, '-' and '.', with a letter or digit at each end), is %q", *name)
	}
	return *name
}

// checkNameOfOptions adds an error where a file names its profiles and the options name the
// profile otherwise: a profile that is silently not renamed takes the pods of another name.
func checkNameOfOptions(profiles []configv1.KubeSchedulerProfile, name string, errs *Errors) {
	path := field.NewPath("profiles")
	if len(profiles) > 1 && name != "" {
		errs.add(path, "the file has %d profiles, which have names of their own: leave out --scheduler-name %q", len(profiles), name)
		return
	}
	if own := profiles[0].SchedulerName; name != "" && own != nil && *own != "" && *own != name {
		errs.add(path.Index(0).Child("schedulerName"), "the file names the profile: leave out --scheduler-name %q, or remove or change %q in the file", name, *own)
	}
}

// newProfile returns a SchedulingProfile with an empty spec.
func newProfile(name string) *v1alpha1.SchedulingProfile {
	return &v1alpha1.SchedulingProfile{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "SchedulingProfile"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
}

// validate compiles the profile and adds the compiler's errors, with the paths of the
// profile mapped to those of the file.
func (w *profileWriter) validate(p *v1alpha1.SchedulingProfile, origin func(string) string) {
	_, rejection := compile.Profile(compile.Input{Profile: p, Registry: w.registry, Extenders: compile.AllExtenders})
	if rejection == nil {
		return
	}
	for _, f := range rejection.Errors {
		at := w.sourceField(f.Path)
		if origin != nil {
			at = origin(at)
		}
		w.errors.addText(at + ": " + f.Detail)
	}
}

// sourceField returns the field of the file from which the profile's field at path was
// made.
func (w *profileWriter) sourceField(path string) string {
	for _, s := range w.fields {
		if rest, ok := strings.CutPrefix(path, s.berth); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return s.upstream + rest
		}
	}
	return path
}
