package try

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
	"github.com/berthdev/berth/test/fixture"
)

// world is a cluster that the verb is run on.
type testCluster struct {
	t       *testing.T
	objects []client.Object
	// forbidden are the list kinds that the user may not list.
	forbidden []string
	// creates says that the user may create pods; admits changes those that are
	// tried.
	mayCreate bool
	admit     func(*v1.Pod) error
	// written are the kinds of what was written for good.
	written []string
}

// newWorld has three nodes, two of them alike, and the profile batch.
func newTestCluster(t *testing.T) *testCluster {
	w := &testCluster{t: t, mayCreate: true}
	w.add(
		fixture.Node("n1").Capacity("cpu", "4", "memory", "8Gi").Obj(),
		fixture.Node("n2").Capacity("cpu", "2", "memory", "8Gi").Obj(),
		fixture.Node("n3").Capacity("cpu", "2", "memory", "8Gi").Obj(),
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "shop"}}},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000},
	)
	w.profile("batch", v1alpha1.SchedulingProfileSpec{})
	return w
}

func (w *testCluster) add(objects ...client.Object) { w.objects = append(w.objects, objects...) }

// profile adds one that runs.
func (w *testCluster) profile(name string, spec v1alpha1.SchedulingProfileSpec) *v1alpha1.SchedulingProfile {
	w.t.Helper()
	p := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 2}, Spec: spec}
	p.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("SchedulingProfile"))
	text, err := json.Marshal(p)
	if err != nil {
		w.t.Fatal(err)
	}
	revision := name + "-0123456789"
	p.Status.Programmed = &v1alpha1.ProgrammedProfile{Generation: 2, Hash: "0123456789", Revision: revision}
	w.add(p, &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: revision, Namespace: cluster.DefaultBerthNamespace, Labels: map[string]string{v1alpha1.LabelProfile: name},
			Annotations: map[string]string{v1alpha1.AnnotationGeneration: "2"},
		},
		Data: runtime.RawExtension{Raw: text}, Revision: 1,
	})
	return p
}

// file writes a file and returns its name.
func (w *testCluster) file(text string) string {
	w.t.Helper()
	name := filepath.Join(w.t.TempDir(), "file.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return name
}

// try runs the verb on a file and returns all that it printed, its error's text
// last, and the exit code.
func (w *testCluster) run(text string, args ...string) (string, int) {
	w.t.Helper()
	var out bytes.Buffer
	env := verb.Env{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(text), Out: &out, ErrOut: &out},
		Now:       func() time.Time { return time.Unix(0, 0) },
		Open: func() (*cluster.Cluster, error) {
			return &cluster.Cluster{Client: w.client(), Namespace: "shop", BerthNamespace: cluster.DefaultBerthNamespace}, nil
		},
	}
	cmd := New(env)
	cmd.SetArgs(append([]string{"-f", "-"}, args...))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(&out)
	err := cmd.ExecuteContext(w.t.Context())
	code := verb.ExitCode(err)
	if code == verb.ExitError {
		out.WriteString("error: " + err.Error() + "\n")
	}
	if len(w.written) > 0 {
		w.t.Errorf("written: %s", w.written)
	}
	return out.String(), code
}

// client gives lists in pages of two, refuses what is forbidden, and notes
// writes.
func (w *testCluster) client() client.WithWatch {
	base := fake.NewClientBuilder().WithScheme(cluster.Scheme()).WithObjects(w.objects...).Build()
	return interceptor.NewClient(base, interceptor.Funcs{List: w.list, Create: w.create})
}

func (w *testCluster) list(ctx context.Context, base client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	kind, err := base.GroupVersionKindFor(list)
	if err != nil {
		return err
	}
	if slices.Contains(w.forbidden, kind.Kind) {
		return apierrors.NewForbidden(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, "", errors.New("you may not"))
	}
	asked := &client.ListOptions{}
	asked.ApplyOptions(opts)
	page := *asked
	asked.FieldSelector, asked.Limit, asked.Continue = nil, 0, ""
	if err := base.List(ctx, list, asked); err != nil || page.Limit == 0 {
		return err
	}
	all, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	const few = 2
	from, _ := strconv.Atoi(page.Continue)
	to := min(from+few, len(all))
	if to < len(all) {
		list.SetContinue(strconv.Itoa(to))
	}
	return meta.SetList(list, all[from:to])
}

func (w *testCluster) create(ctx context.Context, base client.WithWatch, object client.Object, opts ...client.CreateOption) error {
	asked := &client.CreateOptions{}
	asked.ApplyOptions(opts)
	switch o := object.(type) {
	case *authorizationv1.SelfSubjectAccessReview:
		o.Status.Allowed = w.mayCreate
		return nil
	case *v1.Pod:
		if w.mayCreate && slices.Contains(asked.DryRun, metav1.DryRunAll) {
			o.Name = o.GenerateName + "x7k2p"
			if w.admit != nil {
				return w.admit(o)
			}
			return nil
		}
	}
	w.written = append(w.written, object.GetObjectKind().GroupVersionKind().Kind)
	return base.Create(ctx, object, opts...)
}

// yamlPod is a Pod of profile batch that asks for CPUs; more is the rest of its
// spec, in lines.
func podYAML(cpu string, more ...string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  schedulerName: batch\n" +
		"  containers: [{name: c, image: web, resources: {requests: {cpu: '" + cpu + "'}}}]\n" + indentLines(more)
}

func indentLines(lines []string) string {
	text := ""
	for _, line := range lines {
		text += "  " + line + "\n"
	}
	return text
}
