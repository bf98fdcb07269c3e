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

// Kind is the kind of kube-scheduler's configuration.
const Kind = "KubeSchedulerConfiguration"

// FromConfiguration reads the JSON of a KubeSchedulerConfiguration. The error is
// Faults, each naming its field: what kube-scheduler itself would refuse, and
// names that no SchedulingProfile can have.
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
			": the kube-scheduler of an older version writes it anew with --config OLD --write-config-to NEW"}
	}
	return fromConfiguration(config, o, r, nil)
}

// fromConfiguration makes profiles of a configuration, in r. origin, where it is not
// nil, says which field of another file a path of the configuration stands for.
func fromConfiguration(config *configv1.KubeSchedulerConfiguration, o Options, r *Result, origin func(path string) string) (*Result, error) {
	if len(config.Profiles) == 0 {
		config.Profiles = []configv1.KubeSchedulerProfile{{}}
	}
	if first := &config.Profiles[0]; len(config.Profiles) == 1 && first.SchedulerName == nil {
		name := cmp.Or(o.Name, corev1.DefaultSchedulerName)
		first.SchedulerName = &name
	}
	var found Errors
	shared := settingsOf(config, r, &found)
	names := map[string]int{}
	var judged []func()
	for i := range config.Profiles {
		path := field.NewPath("profiles").Index(i)
		name := checkName(config.Profiles[i].SchedulerName, path.Child("schedulerName"), &found)
		if j, twice := names[name]; twice && name != "" {
			found.add(path.Child("schedulerName"), "%q is profiles[%d]'s already: each profile needs a name of its own", name, j)
		}
		names[name] = i
		w := &profileWriter{registry: o.Registry, result: r, errors: &found, from: &config.Profiles[i], path: path}
		profile := w.profile(name, shared)
		judged = append(judged, func() { w.validate(profile, origin) })
		r.Profiles = append(r.Profiles, profile)
		if name == corev1.DefaultSchedulerName {
			r.note(path.Child("schedulerName"), "while a kube-scheduler serves %s, Berth leaves its pods alone: stop that one first, or annotate the profile %s: \"true\"",
				name, v1alpha1.AnnotationTakeOver)
		}
	}
	if len(found) == 0 { // else the compiler would judge what is half there
		for _, judge := range judged {
			judge()
		}
	}
	if err := found.err(); err != nil {
		return nil, err
	}
	if !o.Inline {
		r.extractSharedArguments()
	}
	return r, nil
}

// subdomain is what the CustomResourceDefinition asks of a profile's name.
var dnsSubdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// maxName is the longest name of a profile: events refuse a longer reporter.
const maxNameLength = 63

func checkName(name *string, path *field.Path, found *Errors) string {
	switch {
	case name == nil || *name == "":
		found.add(path, "must be set where there are several profiles: it becomes the SchedulingProfile's name")
		return ""
	case len(*name) > maxNameLength:
		found.add(path, "must be at most %d characters, since it becomes a SchedulingProfile's name, is %d: give the profile, and its pods, a shorter one", maxNameLength, len(*name))
	case !dnsSubdomain.MatchString(*name):
		found.add(path, "must be a DNS subdomain, since it becomes a SchedulingProfile's name (lower-case letters, digits, '-' and '.', with a letter or digit at each end), is %q", *name)
	}
	return *name
}

// newProfile returns a profile without a spec.
func newProfile(name string) *v1alpha1.SchedulingProfile {
	return &v1alpha1.SchedulingProfile{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "SchedulingProfile"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
}

// judge asks the compiler, which tells the fields of the profile; the faults name
// those of the file.
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

// field is where in the file that is what path names in the profile.
func (w *profileWriter) sourceField(path string) string {
	for _, s := range w.fields {
		if rest, ok := strings.CutPrefix(path, s.berth); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return s.upstream + rest
		}
	}
	return path
}
