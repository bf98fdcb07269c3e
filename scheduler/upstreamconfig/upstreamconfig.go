// Package upstreamconfig converts between the configuration of kube-scheduler and that
// of Berth: a KubeSchedulerConfiguration, or a Policy of Kubernetes 1.15, to
// SchedulingProfiles, and a Blueprint to a KubeSchedulerConfiguration. It is pure: it
// converts values, and returns remarks about what it could not convert.
package upstreamconfig

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
)

// Remark is a note to the user about one converted field.
type Remark struct {
	// Path is the field, such as profiles[0].plugins.filter.enabled[1].
	Path string
	// Text says what the field becomes, and why.
	Text string
	// Lost means that the field had an effect and is not converted: pods may be placed
	// or may wait differently. Otherwise the field has no effect in Berth, or is set
	// in another place.
	Lost bool
}

// String is "path: text".
func (r Remark) String() string { return r.Path + ": " + r.Text }

// LostRemarks returns the remarks with Lost set.
func LostRemarks(remarks []Remark) []Remark {
	var lost []Remark
	for _, r := range remarks {
		if r.Lost {
			lost = append(lost, r)
		}
	}
	return lost
}

// Options say how to convert a file.
type Options struct {
	// Registry holds the plugins of the Berth that will run the profiles.
	Registry framework.Registry
	// Inline keeps arguments that several profiles share in these profiles, instead of
	// in a PluginConfig.
	Inline bool
	// Name names the profile where the file does not, as in a Policy. Empty means
	// default-scheduler. Another name than that of the file is an error.
	Name string
}

// Result is a converted file.
type Result struct {
	Profiles []*v1alpha1.SchedulingProfile
	// Configs hold arguments that several profiles share.
	Configs []*v1alpha1.PluginConfig
	Remarks []Remark
}

func (r *Result) lost(path *field.Path, format string, args ...any) {
	r.remark(Remark{Path: path.String(), Text: fmt.Sprintf(format, args...), Lost: true})
}

func (r *Result) note(path *field.Path, format string, args ...any) {
	r.remark(Remark{Path: path.String(), Text: fmt.Sprintf(format, args...)})
}

// remark adds a remark unless there is an equal one.
func (r *Result) remark(remark Remark) {
	if !slices.Contains(r.Remarks, remark) {
		r.Remarks = append(r.Remarks, remark)
	}
}

// Errors say why a file cannot be converted. Each names its field and says what would be
// valid.
type Errors []string

// Error joins the errors with semicolons.
func (f Errors) Error() string { return strings.Join(f, "; ") }

func (f *Errors) add(path *field.Path, format string, args ...any) {
	f.addText(path.String() + ": " + fmt.Sprintf(format, args...))
}

// addText adds an error unless there is an equal one.
func (f *Errors) addText(text string) {
	if !slices.Contains(*f, text) {
		*f = append(*f, text)
	}
}

// err returns nil where there are no errors.
func (f Errors) err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}
