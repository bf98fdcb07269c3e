package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clientfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berthdev/berth/api/v1alpha1"
)

// partialObject returns an object as a metadata client reads it.
func partialObject(kind metav1.TypeMeta, namespace, name, profile string) runtime.Object {
	object := &metav1.PartialObjectMetadata{TypeMeta: kind, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if profile != "" {
		object.Labels = map[string]string{v1alpha1.LabelProfile: profile}
	}
	return object
}

// TestProfilesThatANewLeaderFences: an earlier leader may have a Binding in flight for
// a pod whose profile was deleted before the handover. Without fencing, the new leader
// could use the pod's resources for another pod.
func TestProfilesThatANewLeaderFences(t *testing.T) {
	var (
		profile  = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "SchedulingProfile"}
		revision = metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ControllerRevision"}
	)
	forbidden := apierrors.NewForbidden(appsv1.Resource("controllerrevisions"), "", errors.New("no right"))
	for name, c := range map[string]struct {
		objects []runtime.Object
		fails   error
		want    []string
		wantErr string
	}{
		"a profile that exists": {objects: []runtime.Object{partialObject(profile, "", "batch", "")}, want: []string{"batch"}},
		"a profile that exists and has revisions is listed once": {
			objects: []runtime.Object{
				partialObject(profile, "", "batch", ""), partialObject(revision, "berth-system", "batch-1", "batch"), partialObject(revision, "berth-system", "batch-2", "batch"),
			},
			want: []string{"batch"},
		},
		"a deleted profile with revisions": {
			objects: []runtime.Object{partialObject(profile, "", "batch", ""), partialObject(revision, "berth-system", "gone-1", "gone")},
			want:    []string{"batch", "gone"},
		},
		"a ControllerRevision without a profile":             {objects: []runtime.Object{partialObject(revision, "berth-system", "web-1", "")}},
		"a revision in another namespace":                    {objects: []runtime.Object{partialObject(revision, "elsewhere", "gone-1", "gone")}},
		"a revision of a name that another scheduler serves": {objects: []runtime.Object{partialObject(revision, "berth-system", "d-1", "default-scheduler")}},
		"a profile that exists with a name that another scheduler serves": {
			objects: []runtime.Object{partialObject(profile, "", "default-scheduler", ""), partialObject(revision, "berth-system", "d-1", "default-scheduler")},
			want:    []string{"default-scheduler"},
		},
		"profiles that exist, when reading revisions is forbidden": {
			objects: []runtime.Object{partialObject(profile, "", "batch", "")}, fails: forbidden, want: []string{"batch"},
		},
		"an error while revisions cannot be read": {
			objects: []runtime.Object{partialObject(profile, "", "batch", "")}, fails: errors.New("busy"), wantErr: "listing revisions: busy",
		},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := metav1.AddMetaToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			client := fake.NewSimpleMetadataClient(scheme, c.objects...)
			if c.fails != nil {
				client.PrependReactor("list", "controllerrevisions", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, c.fails
				})
			}
			got, err := profilesToFence(client, options{namespace: "berth-system", otherSchedulers: []string{"default-scheduler"}})(t.Context())
			if text := ""; err != nil || c.wantErr != "" {
				if err != nil {
					text = err.Error()
				}
				if text != c.wantErr {
					t.Fatalf("error %q, want %q", text, c.wantErr)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(append([]string{}, c.want...), append([]string{}, got...)); diff != "" {
				t.Errorf("profiles (-want +got):\n%s", diff)
			}
		})
	}
}

// A Lease and a journal that were deleted do not show that there was no leader, whose Bindings may be
// in flight: what ran shows it.
func TestWhetherThereWasALeader(t *testing.T) {
	profile := func(status map[string]any) runtime.Object {
		object := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "batch"}, "status": status}}
		object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("SchedulingProfile"))
		return object
	}
	revision := partialObject(metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ControllerRevision"}, "berth-system", "gone-1", "gone")
	kind := v1alpha1.GroupVersion.WithResource("schedulingprofiles")
	for name, c := range map[string]struct {
		profile  runtime.Object
		revision bool
		fails    error
		want     bool
	}{
		"no profile and no revision":                   {},
		"a profile that never ran":                     {profile: profile(map[string]any{"observedGeneration": int64(1)})},
		"a profile that ran":                           {profile: profile(map[string]any{"programmed": map[string]any{"hash": "h"}}), want: true},
		"a revision of a deleted profile":              {revision: true, want: true},
		"the API server does not serve profiles":       {fails: apierrors.NewNotFound(kind.GroupResource(), "")},
		"the API server does not answer: there may be": {fails: errors.New("busy"), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := metav1.AddMetaToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			var profiles, revisions []runtime.Object
			if c.profile != nil {
				profiles = append(profiles, c.profile)
			}
			if c.revision {
				revisions = append(revisions, revision)
			}
			client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(scheme, map[schema.GroupVersionResource]string{kind: "SchedulingProfileList"}, profiles...)
			if c.fails != nil {
				client.PrependReactor("list", kind.Resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, c.fails })
			}
			all := clients{dynamic: client, meta: fake.NewSimpleMetadataClient(scheme, revisions...)}
			if got := all.hadLeader(t.Context(), options{namespace: "berth-system"}); got != c.want {
				t.Errorf("there was a leader: %v, want %v", got, c.want)
			}
		})
	}
}

func TestWhoIsTheFirstLeaderWithoutAnElection(t *testing.T) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: leaseName}}
	for name, c := range map[string]struct {
		objects   []runtime.Object
		hadLeader bool
		want      bool
	}{
		"one where nothing ran and there is no Lease": {want: true},
		"not one where a profile ran":                 {hadLeader: true},
		"not one where there is a Lease":              {objects: []runtime.Object{lease}},
	} {
		t.Run(name, func(t *testing.T) {
			all := clients{watches: clientfake.NewClientset(c.objects...)}
			if got, err := all.leadership(t.Context(), options{namespace: "berth-system"}, nil, c.hadLeader); got.First != c.want || err != nil {
				t.Errorf("first %v, error %v; want %v", got.First, err, c.want)
			}
		})
	}
}

// lostRevisions is a client whose lists of ControllerRevisions get no answer.
type lostRevisions struct {
	metadata.Interface
	metadata.Getter
}

func (l lostRevisions) Resource(kind schema.GroupVersionResource) metadata.Getter {
	if kind.Resource == "controllerrevisions" {
		return l
	}
	return l.Interface.Resource(kind)
}

func (l lostRevisions) Namespace(string) metadata.ResourceInterface { return l }

func (lostRevisions) List(ctx context.Context, _ metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAListOfRevisionsThatIsLostIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		client := lostRevisions{Interface: fake.NewSimpleMetadataClient(scheme)}
		_, err := profilesToFence(client, options{namespace: "berth-system"})(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			t.Errorf("%v, want a deadline of the list", err)
		}
	})
}

func TestTheNamespaceOfTheLeaseMustExist(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "berth-system"}}
	for name, c := range map[string]struct {
		objects         []runtime.Object
		withoutElection bool
		fails           error
		want            string
		final           bool // waiting does not help
	}{
		"the namespace exists":                                   {objects: []runtime.Object{namespace}},
		"the namespace does not exist":                           {want: `--namespace: there is no namespace "berth-system" for the Lease: create it (kubectl create namespace berth-system), or run one process alone (--leader-elect=false)`, final: true},
		"the namespace does not exist, and no leader is elected": {withoutElection: true},
		"reading the namespace is forbidden":                     {fails: apierrors.NewForbidden(corev1.Resource("namespaces"), "berth-system", errors.New("no right")), want: "looking for namespace berth-system: "},
		"the API server is busy":                                 {fails: apierrors.NewTooManyRequests("later", 1), want: "looking for namespace berth-system: later"},
	} {
		t.Run(name, func(t *testing.T) {
			client := clientfake.NewClientset(c.objects...)
			if c.fails != nil {
				client.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, c.fails })
			}
			err := checkLeaseNamespace(t.Context(), client, options{namespace: "berth-system", leaderElection: leaderElection{LeaderElect: !c.withoutElection}})
			if text := fmt.Sprint(err); (err == nil) != (c.want == "") || !strings.Contains(text, c.want) {
				t.Errorf("got error %v, want %q in it", err, c.want)
			}
			if is := errors.As(err, new(*noNamespaceError)); is != c.final {
				t.Errorf("the process ends: %v, want %v", is, c.final)
			}
		})
	}
}

func TestThePeriodsOfTheLeaderElectionAreValidated(t *testing.T) {
	for name, c := range map[string]struct{ flags, want string }{
		"the defaults": {"", ""},
		"a Lease of a second more than the deadline": {"--leader-elect-lease-duration=11s", ""},
		"a Lease that has no whole second more than the deadline, so that others may lead before this process stops": {"--leader-elect-lease-duration=15900ms --leader-elect-renew-deadline=15500ms",
			"--leader-elect-lease-duration: must exceed --leader-elect-renew-deadline (15.5s) in whole seconds, is 15.9s"},
		"a Lease of less than a second": {"--leader-elect-lease-duration=900ms --leader-elect-renew-deadline=500ms --leader-elect-retry-period=100ms",
			"--leader-elect-lease-duration: must exceed --leader-elect-renew-deadline (500ms) in whole seconds, is 900ms"},
		"no time between attempts": {"--leader-elect-retry-period=0", "--leader-elect-retry-period: must be positive, is 0s"},
		"a deadline that a period with client-go's jitter passes": {"--leader-elect-retry-period=9s",
			"--leader-elect-renew-deadline: must exceed 1.2 times --leader-elect-retry-period (9s), is 10s"},
		"no election": {"--leader-elect=false --leader-elect-lease-duration=0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if _, err := parseFlags(strings.Fields(c.flags)); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("%s: got %q, want %q", c.flags, got, c.want)
			}
		})
	}
}
