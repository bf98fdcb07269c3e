package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/profile"
)

// startTime is the time at which every test begins.
var startTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newProfile returns a profile named batch, changed by edits.
func newProfile(generation int64, edits ...func(*v1alpha1.SchedulingProfile)) *v1alpha1.SchedulingProfile {
	p := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{
		Name: "batch", UID: "batch-1", Generation: generation, ResourceVersion: "10",
	}}
	p.Spec.SetDefaults()
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func withName(name string) func(*v1alpha1.SchedulingProfile) {
	return func(p *v1alpha1.SchedulingProfile) { p.Name, p.UID = name, types.UID(name+"-1") }
}

func withPausedState(p *v1alpha1.SchedulingProfile) { p.Spec.State = v1alpha1.StatePaused }

// withConfigRef adds a pluginConfig entry for plugin that references config.
func withConfigRef(plugin, config string) func(*v1alpha1.SchedulingProfile) {
	return func(p *v1alpha1.SchedulingProfile) {
		p.Spec.PluginConfig = append(p.Spec.PluginConfig, v1alpha1.PluginArguments{
			Name: plugin, ConfigRef: &v1alpha1.PluginConfigReference{Name: config},
		})
	}
}

// withRunningConfig sets in the profile's status that it runs a generation of config.
func withRunningConfig(config string, generation int64) func(*v1alpha1.SchedulingProfile) {
	return withRunningConfigOf(newConfig(config, generation).UID, config, generation)
}

// withRunningConfigOf is withRunningConfig for the PluginConfig with the given UID.
func withRunningConfigOf(uid types.UID, config string, generation int64) func(*v1alpha1.SchedulingProfile) {
	return func(p *v1alpha1.SchedulingProfile) {
		if p.Status.Programmed == nil {
			p.Status.Programmed = &v1alpha1.ProgrammedProfile{}
		}
		p.Status.Programmed.Configs = append(p.Status.Programmed.Configs,
			v1alpha1.ObjectGeneration{Name: config, Generation: generation, UID: uid})
	}
}

func newConfig(name string, generation int64) *v1alpha1.PluginConfig {
	return &v1alpha1.PluginConfig{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name + "-1"), Generation: generation, ResourceVersion: "10",
	}}
}

// fakeReader is a client.Reader of a few objects. It supports the index configRefIndex.
type fakeReader []client.Object

func (o fakeReader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	for _, object := range o {
		switch into := into.(type) {
		case *v1alpha1.SchedulingProfile:
			if p, ok := object.(*v1alpha1.SchedulingProfile); ok && p.Name == key.Name {
				p.DeepCopyInto(into)
				return nil
			}
		case *coordinationv1.Lease:
			if l, ok := object.(*coordinationv1.Lease); ok && client.ObjectKeyFromObject(l) == key {
				l.DeepCopyInto(into)
				return nil
			}
		case *v1alpha1.PluginConfig:
			if c, ok := object.(*v1alpha1.PluginConfig); ok && c.Name == key.Name {
				c.DeepCopyInto(into)
				return nil
			}
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: "berth.dev"}, key.Name)
}

func (o fakeReader) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	if configs, ok := into.(*v1alpha1.PluginConfigList); ok {
		for _, object := range o {
			if c, ok := object.(*v1alpha1.PluginConfig); ok {
				configs.Items = append(configs.Items, *c.DeepCopy())
			}
		}
		return nil
	}
	profiles := into.(*v1alpha1.SchedulingProfileList)
	for _, object := range o {
		p, ok := object.(*v1alpha1.SchedulingProfile)
		if !ok {
			continue
		}
		matches := options.FieldSelector == nil
		for _, config := range configRefNames(p) {
			matches = matches || options.FieldSelector.String() == configRefIndex+"="+config
		}
		if matches {
			profiles.Items = append(profiles.Items, *p.DeepCopy())
		}
	}
	return nil
}

// fakeStatusClient is a client.StatusClient that records what is applied.
type fakeStatusClient struct {
	client.SubResourceWriter // nil: nothing but Apply may be called

	mu     sync.Mutex
	writes []statusWrite
	// reject is called before a write; its error is returned by Apply.
	reject func(a statusWrite) error
}

// statusWrite is one write of a status.
type statusWrite struct {
	at              time.Time
	manager         string
	name            string
	resourceVersion string
	status          map[string]any
}

func (s *fakeStatusClient) Status() client.SubResourceWriter { return s }

func (s *fakeStatusClient) Apply(_ context.Context, ac runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	options := (&client.SubResourceApplyOptions{}).ApplyOpts(opts)
	text, err := json.Marshal(ac)
	if err != nil {
		return err
	}
	var object struct {
		Metadata struct{ Name, ResourceVersion string }
		Status   map[string]any
	}
	if err := json.Unmarshal(text, &object); err != nil {
		return err
	}
	a := statusWrite{
		at: time.Now(), manager: options.FieldManager,
		name: object.Metadata.Name, resourceVersion: object.Metadata.ResourceVersion, status: object.Status,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reject != nil {
		if err := s.reject(a); err != nil {
			return err
		}
	}
	s.writes = append(s.writes, a)
	return nil
}

// all returns the writes so far. It may be called during writes.
func (s *fakeStatusClient) all() []statusWrite {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.writes)
}

func (s *fakeStatusClient) last(t *testing.T) statusWrite {
	t.Helper()
	all := s.all()
	if len(all) == 0 {
		t.Fatal("no status was written")
	}
	return all[len(all)-1]
}

// conditions returns "type status reason" of each condition, in order.
func (a statusWrite) conditions() []string {
	var out []string
	list, _ := a.status["conditions"].([]any)
	for _, c := range list {
		m := c.(map[string]any)
		out = append(out, fmt.Sprint(m["type"], " ", m["status"], " ", m["reason"]))
	}
	return out
}

// fakeApplier is an Applier that builds at once and records its calls.
type fakeApplier struct {
	calls []string
	err   error
	// beforeBuild is called before each Apply and Try; may be nil.
	beforeBuild func()
	// trialResult is the result of every trial; nil for no trials. lastTrial is the
	// last one.
	trialResult, lastTrial *profile.Trial
	// unlisted says that trials have to wait, and full that trials and builds have to.
	unlisted, full bool
	running        map[string]profile.Running
	// held holds the message with which pods are held, by profile name.
	held map[string]string
	now  func() time.Time
}

func (a *fakeApplier) Apply(_ context.Context, b *compile.Blueprint) error {
	a.calls = append(a.calls, "apply "+b.Hash)
	if a.beforeBuild != nil {
		a.beforeBuild()
	}
	if a.err != nil {
		return a.err
	}
	delete(a.held, b.Name)
	if a.running[b.Name].Blueprint == nil || a.running[b.Name].Blueprint.Hash != b.Hash {
		a.running[b.Name] = profile.Running{Blueprint: b, Since: a.now()}
	}
	return nil
}

func (a *fakeApplier) Try(_ context.Context, b *compile.Blueprint) (profile.Trial, error) {
	a.calls = append(a.calls, "try "+b.Hash)
	if a.beforeBuild != nil {
		a.beforeBuild()
	}
	if a.full {
		return profile.Trial{}, profile.ErrTooManyGenerations
	}
	if a.unlisted {
		return profile.Trial{}, profile.ErrCachesNotSynced
	}
	if a.trialResult == nil {
		return profile.Trial{}, nil
	}
	t := *a.trialResult
	t.Hash, t.Time = b.Hash, a.now()
	a.lastTrial = &t
	if t.Failed {
		return t, &profile.TrialError{Trial: t}
	}
	return t, nil
}

func (a *fakeApplier) CheckPlace(string) error {
	if a.full {
		return profile.ErrTooManyGenerations
	}
	return nil
}

func (a *fakeApplier) LastTrial(string) (profile.Trial, bool) {
	if a.lastTrial == nil {
		return profile.Trial{}, false
	}
	return *a.lastTrial, true
}

func (a *fakeApplier) SetPaused(name string, paused bool) {
	a.calls = append(a.calls, fmt.Sprintf("pause %s %t", name, paused))
}

func (a *fakeApplier) Hold(name, reason string) {
	a.calls = append(a.calls, "hold "+name)
	a.held[name] = reason
}

func (a *fakeApplier) Release(name string) {
	delete(a.held, name)
}

func (a *fakeApplier) Delete(name string) {
	a.calls = append(a.calls, "delete "+name)
	delete(a.running, name)
}

func (a *fakeApplier) Running(name string) (profile.Running, bool) {
	r, ok := a.running[name]
	return r, ok
}

func (a *fakeApplier) DegradedChanged() <-chan struct{} { return nil }

func (a *fakeApplier) TakeDegradedChanges() []string { return nil }

// fakeRecorder records Events as "type reason action", their notes, and the fields that
// they refer to.
type fakeRecorder struct{ events, notes, fields []string }

func (r *fakeRecorder) Eventf(regarding, _ runtime.Object, eventType, reason, action, note string, args ...any) {
	r.events = append(r.events, strings.Join([]string{eventType, reason, action}, " "))
	r.notes = append(r.notes, fmt.Sprintf(note, args...))
	if ref, ok := regarding.(*corev1.ObjectReference); ok {
		r.fields = append(r.fields, ref.FieldPath)
	}
}
