// Package export writes what a profile runs for other programs: the configuration that
// cluster-autoscaler reads with --scheduler-config-file, into a ConfigMap in Berth's
// namespace. It changes no object that is not Berth's, reverts edits, and deletes a
// ConfigMap that no profile names any more.
package export

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/upstreamconfig"
)

// +kubebuilder:rbac:groups="",namespace=system,resources=configmaps,verbs=get;list;watch;create;patch;delete

const (
	// Key is the key of the configuration in a ConfigMap.
	Key = "scheduler-config.yaml"
	// fieldManager owns the fields that this package writes.
	fieldManager = "berth-export"
	// callTimeout is how long one request may take.
	callTimeout = 10 * time.Second
)

// labelManagedBy and managedBy mark the ConfigMaps of this package.
const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "berth"
)

// Exporter writes the ConfigMaps. It is safe for concurrent use.
type Exporter struct {
	client    kubernetes.Interface
	maps      corev1client.ConfigMapInterface
	namespace string
	registry  framework.Registry

	mu sync.Mutex
	// known are the ConfigMaps that were seen or written, by profile.
	known map[string]map[string]bool
}

// NewExporter returns an Exporter for the ConfigMaps of a namespace.
func NewExporter(client kubernetes.Interface, namespace string, registry framework.Registry) *Exporter {
	return &Exporter{client: client, maps: client.CoreV1().ConfigMaps(namespace), namespace: namespace, registry: registry, known: map[string]map[string]bool{}}
}

// Outcome is the result of an export, from which the condition Exported is made.
type Outcome struct {
	Reason  v1alpha1.ConditionReason
	Message string
	// Retry says that a later attempt may succeed.
	Retry bool
}

// Exported reports whether the ConfigMap holds all of what runs.
func (o *Outcome) Exported() bool { return o.Reason == v1alpha1.ReasonExported }

// Sync writes runs, a running Blueprint, into the ConfigMap of that name, and deletes
// the profile's other ConfigMaps. An empty name means no export; runs is nil when
// nothing runs. The Outcome is nil when there is no export and no ConfigMap is left.
//
// Before each write, and after the ConfigMap was read that it replaces, Sync calls current. It
// writes nothing after an error: what runs here may be older than what an earlier leader wrote.
func (e *Exporter) Sync(ctx context.Context, profile, name string, runs *compile.Blueprint, current func(context.Context) error) *Outcome {
	for _, other := range e.knownFor(profile) {
		if other == name {
			continue
		}
		if err := e.remove(ctx, profile, other, current); err != nil {
			return e.failed(other, "could not be deleted", err)
		}
	}
	switch {
	case name == "":
		return nil
	case runs == nil:
		return &Outcome{Reason: v1alpha1.ReasonNothingRuns, Message: fmt.Sprintf("nothing runs, so that there is nothing to write into ConfigMap %s/%s", e.namespace, name)}
	}
	text, remarks, err := render(runs, e.registry)
	if err != nil {
		return e.failed(name, "could not be made", err)
	}
	if conflict, err := e.write(ctx, profile, name, text, current); err != nil {
		return e.failed(name, "could not be written", err)
	} else if conflict != "" {
		return &Outcome{Reason: v1alpha1.ReasonConfigMapConflict, Message: fmt.Sprintf("ConfigMap %s/%s is left alone: %s; name another, or delete it", e.namespace, name, conflict), Retry: true}
	}
	return e.outcome(name, runs, remarks)
}

func (e *Exporter) outcome(name string, runs *compile.Blueprint, lost []string) *Outcome {
	o := &Outcome{Reason: v1alpha1.ReasonExported, Message: fmt.Sprintf("generation %d (%s) is in ConfigMap %s/%s, key %s", runs.Generation, runs.Hash, e.namespace, name, Key)}
	for _, what := range lost {
		o.Reason = v1alpha1.ReasonNotExpressible
		o.Message += "; " + what
	}
	return o
}

func (e *Exporter) failed(name, what string, err error) *Outcome {
	return &Outcome{Reason: v1alpha1.ReasonExportFailed, Message: fmt.Sprintf("ConfigMap %s/%s %s: %v", e.namespace, name, what, err), Retry: true}
}

// write writes text into a ConfigMap. conflict says why it may not: the ConfigMap is
// not the profile's.
func (e *Exporter) write(ctx context.Context, profile, name, text string, current func(context.Context) error) (conflict string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	existing, err := e.maps.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if err := current(ctx); err != nil {
			return "", err
		}
		// Create and not Apply, which could change a ConfigMap that another client creates now.
		_, err = e.maps.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labelsFor(profile)}, Data: map[string]string{Key: text},
		}, metav1.CreateOptions{FieldManager: fieldManager})
		if err == nil {
			e.setKnown(profile, name, true)
		}
		return "", err
	}
	if err != nil {
		return "", err
	}
	switch owner := ownerOf(existing); {
	case owner == "":
		return fmt.Sprintf("it is not Berth's (the label %s is not %s, or %s is missing)", labelManagedBy, managedBy, v1alpha1.LabelProfile), nil
	case owner != profile:
		return fmt.Sprintf("it holds what profile %s exports", owner), nil
	}
	e.setKnown(profile, name, true)
	if existing.Data[Key] == text {
		return "", nil
	}
	if err := current(ctx); err != nil {
		return "", err
	}
	wanted := corev1ac.ConfigMap(name, e.namespace).WithResourceVersion(existing.ResourceVersion).
		WithLabels(labelsFor(profile)).WithData(map[string]string{Key: text})
	_, err = e.maps.Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return "", err
}

// remove deletes a ConfigMap if it is still the profile's.
func (e *Exporter) remove(ctx context.Context, profile, name string, current func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	existing, err := e.maps.Get(ctx, name, metav1.GetOptions{})
	if err == nil && ownerOf(existing) == profile {
		if err := current(ctx); err != nil {
			return err
		}
		err = e.maps.Delete(ctx, name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &existing.UID, ResourceVersion: &existing.ResourceVersion},
		})
	}
	if err == nil || apierrors.IsNotFound(err) {
		e.setKnown(profile, name, false)
		return nil
	}
	return err
}

func labelsFor(profile string) map[string]string {
	return map[string]string{labelManagedBy: managedBy, v1alpha1.LabelProfile: profile}
}

// ownerOf returns the profile that a ConfigMap belongs to; empty when it is not one of
// this package.
func ownerOf(m *corev1.ConfigMap) string {
	if m.Labels[labelManagedBy] != managedBy {
		return ""
	}
	return m.Labels[v1alpha1.LabelProfile]
}

// render returns what runs as cluster-autoscaler reads it, and lists the settings that
// this form cannot express.
func render(runs *compile.Blueprint, registry framework.Registry) (text string, lost []string, err error) {
	config, remarks := upstreamconfig.ForAutoscaler(runs, registry)
	plain, err := upstreamconfig.JSON(config)
	if err != nil {
		return "", nil, err
	}
	body, err := yaml.JSONToYAML(plain)
	if err != nil {
		return "", nil, err
	}
	text = fmt.Sprintf("# What SchedulingProfile %s runs (%s), written by Berth: edits are reverted.\n", runs.Name, runs.Hash)
	for _, r := range remarks {
		text += "# " + r.String() + "\n"
		if r.Lost {
			lost = append(lost, r.String())
		}
	}
	return text + string(body), lost, nil
}
