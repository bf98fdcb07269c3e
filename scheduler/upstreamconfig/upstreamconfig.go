// Package upstreamconfig translates between kube-scheduler's own configuration
// and Berth's: what a KubeSchedulerConfiguration, or a Policy of Kubernetes 1.15,
// says as SchedulingProfiles, and what a Blueprint says as a
// KubeSchedulerConfiguration. It is pure: text and values go in, values and what
// is to be said of them come out.
package upstreamconfig

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// Remark is what is to be said of one field of what was translated.
type Remark struct {
	// Path is the field, such as profiles[0].plugins.filter.enabled[1].
	Path string
	// Text says what becomes of it, and why.
	Text string
	// Lost says that it is not carried over although it made a difference: pods
	// may go elsewhere, or wait otherwise. Else it makes none here, or is said in
	// another place.
	Lost bool
}

// String is "path: text".
func (r Remark) String() string { return r.Path + ": " + r.Text }

// Lost are those of remarks that say that something is.
func LostRemarks(remarks []Remark) []Remark {
	var lost []Remark
	for _, r := range remarks {
		if r.Lost {
			lost = append(lost, r)
		}
	}
	return lost
}

// Options say how a file is read.
type Options struct {
	// Registry holds the plugins that the profiles are for.
	Registry framework.Registry
	// Inline keeps arguments in the profiles that share them, where else a
	// PluginConfig holds them.
	Inline bool
	// Name is the profile's whose file does not say it: a Policy's. Empty is
	// default-scheduler.
	Name string
}

// Reading is what a file says in Berth's words.
type Result struct {
	Profiles []*v1alpha1.SchedulingProfile
	// Configs hold the arguments that several profiles share.
	Configs []*v1alpha1.PluginConfig
	Remarks []Remark
}

func (r *Result) lost(path *field.Path, format string, args ...any) {
	if fault.LossUntold {
		return
	}
	r.remark(Remark{Path: path.String(), Text: fmt.Sprintf(format, args...), Lost: true})
}

func (r *Result) note(path *field.Path, format string, args ...any) {
	r.remark(Remark{Path: path.String(), Text: fmt.Sprintf(format, args...)})
}

// remark says something once.
func (r *Result) remark(said Remark) {
	if !slices.Contains(r.Remarks, said) {
		r.Remarks = append(r.Remarks, said)
	}
}

// Faults are why a file is not translated: each names its field and what would be
// right.
type Errors []string

// Error has all of them.
func (f Errors) Error() string { return strings.Join(f, "; ") }

func (f *Errors) add(path *field.Path, format string, args ...any) {
	f.addText(path.String() + ": " + fmt.Sprintf(format, args...))
}

// say adds a fault that was not told yet.
func (f *Errors) addText(fault string) {
	if !slices.Contains(*f, fault) {
		*f = append(*f, fault)
	}
}

// err is nil where there is none.
func (f Errors) err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}
