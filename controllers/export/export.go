// Package export keeps what a profile runs as other programs read it: the
// configuration that cluster-autoscaler takes with --scheduler-config-file, in a
// ConfigMap of Berth's own namespace. It writes nothing that is not its own, puts
// back what was edited by hand, and deletes what nobody asks for any more.
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

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// +kubebuilder:rbac:groups="",namespace=system,resources=configmaps,verbs=get;list;watch;create;patch;delete

const (
	// Key is where a ConfigMap holds the configuration.
	Key = "scheduler-config.yaml"
	// manager owns the fields that are written here.
	fieldManager = "berth-export"
	// callTimeout is how long one request may take.
	callTimeout = 10 * time.Second
)

// labelManagedBy and managedBy say whose a ConfigMap is.
const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "berth"
)

// Keeper keeps the ConfigMaps.
type Exporter struct {
	client    kubernetes.Interface
	maps      corev1client.ConfigMapInterface
	namespace string
	registry  framework.Registry

	mu sync.Mutex
	// kept are the ConfigMaps that were seen, or written, for each profile.
	known map[string]map[string]bool
}

// NewKeeper returns one for the ConfigMaps of a namespace.
func NewExporter(client kubernetes.Interface, namespace string, registry framework.Registry) *Exporter {
	return &Exporter{client: client, maps: client.CoreV1().ConfigMaps(namespace), namespace: namespace, registry: registry, known: map[string]map[string]bool{}}
}

// Outcome is what came of an export: a ruling on the condition Exported.
type Outcome struct {
	Reason  v1alpha1.ConditionReason
	Message string
	// Again says that a later try may end better.
	Retry bool
}

// Exported says whether all of what runs is in the ConfigMap.
func (o *Outcome) Exported() bool { return o.Reason == v1alpha1.ReasonExported }

// Keep makes the exports of a profile what is asked for: runs in the ConfigMap of
// that name, and in no other. An empty name asks for none; runs is nil where
// nothing does. The Outcome is nil where none is asked for and none is left.
func (k *Exporter) Sync(ctx context.Context, profile, name string, runs *compile.Blueprint) *Outcome {
	for _, other := range k.knownFor(profile) {
		if other == name || fault.ExportOutlivesWish {
			continue
		}
		if err := k.remove(ctx, profile, other); err != nil {
			return k.failed(other, "could not be deleted", err)
		}
	}
	switch {
	case name == "":
		return nil
	case runs == nil:
		return &Outcome{Reason: v1alpha1.ReasonNothingRuns, Message: fmt.Sprintf("nothing runs, so there is nothing to write into ConfigMap %s/%s", k.namespace, name)}
	}
	text, remarks, err := render(runs, k.registry)
	if err != nil {
		return k.failed(name, "could not be made", err)
	}
	if conflict, err := k.write(ctx, profile, name, text); err != nil {
		return k.failed(name, "could not be written", err)
	} else if conflict != "" {
		return &Outcome{Reason: v1alpha1.ReasonConfigMapConflict, Message: fmt.Sprintf("ConfigMap %s/%s is left alone: %s; name another, or delete it", k.namespace, name, conflict), Retry: true}
	}
	return k.outcome(name, runs, remarks)
}

func (k *Exporter) outcome(name string, runs *compile.Blueprint, lost []string) *Outcome {
	o := &Outcome{Reason: v1alpha1.ReasonExported, Message: fmt.Sprintf("generation %d (%s) is in ConfigMap %s/%s, key %s", runs.Generation, runs.Hash, k.namespace, name, Key)}
	for _, what := range lost {
		o.Reason = v1alpha1.ReasonNotExpressible
		o.Message += "; " + what
	}
	return o
}

func (k *Exporter) failed(name, what string, err error) *Outcome {
	return &Outcome{Reason: v1alpha1.ReasonExportFailed, Message: fmt.Sprintf("ConfigMap %s/%s %s: %v", k.namespace, name, what, err), Retry: true}
}

// write puts text into a ConfigMap. conflict says why it may not: the ConfigMap is
// somebody else's.
func (k *Exporter) write(ctx context.Context, profile, name, text string) (conflict string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	there, err := k.maps.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		// Not applied: that could add to one which somebody makes just now.
		_, err = k.maps.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labelsFor(profile)}, Data: map[string]string{Key: text},
		}, metav1.CreateOptions{FieldManager: fieldManager})
		if err == nil {
			k.setKnown(profile, name, true)
		}
		return "", err
	}
	if err != nil {
		return "", err
	}
	switch owner := ownerOf(there); {
	case fault.StrangersExportTaken:
	case owner == "":
		return fmt.Sprintf("it is not Berth's (the label %s is not %s, or %s is missing)", labelManagedBy, managedBy, v1alpha1.LabelProfile), nil
	case owner != profile:
		return fmt.Sprintf("it holds what profile %s exports", owner), nil
	}
	k.setKnown(profile, name, true)
	if there.Data[Key] == text {
		return "", nil
	}
	wanted := corev1ac.ConfigMap(name, k.namespace).WithResourceVersion(there.ResourceVersion).
		WithLabels(labelsFor(profile)).WithData(map[string]string{Key: text})
	_, err = k.maps.Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return "", err
}

// drop deletes a ConfigMap if it is still the profile's.
func (k *Exporter) remove(ctx context.Context, profile, name string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	there, err := k.maps.Get(ctx, name, metav1.GetOptions{})
	if err == nil && ownerOf(there) == profile {
		err = k.maps.Delete(ctx, name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &there.UID, ResourceVersion: &there.ResourceVersion},
		})
	}
	if err == nil || apierrors.IsNotFound(err) {
		k.setKnown(profile, name, false)
		return nil
	}
	return err
}

func labelsFor(profile string) map[string]string {
	return map[string]string{labelManagedBy: managedBy, v1alpha1.LabelProfile: profile}
}

// owner is the profile whose export a ConfigMap is; empty where it is none.
func ownerOf(m *corev1.ConfigMap) string {
	if m.Labels[labelManagedBy] != managedBy {
		return ""
	}
	return m.Labels[v1alpha1.LabelProfile]
}
