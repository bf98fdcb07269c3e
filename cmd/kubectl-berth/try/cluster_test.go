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
	"github.com/berthdev/berth/test/support/fixture"
)

// testCluster is a cluster that the verb runs on.
type testCluster struct {
	t       *testing.T
	objects []client.Object
	// forbidden are the list kinds that the user may not list.
	forbidden []string
	// mayCreate: the user may create pods. admit changes the pods of a dry run.
	mayCreate bool
	admit     func(*v1.Pod) error
	// written are the kinds of objects that were written other than by a dry run.
	written []string
}

// newTestCluster returns a cluster with three nodes, two of them alike, and the profile
// batch.
func newTestCluster(t *testing.T) *testCluster {
	c := &testCluster{t: t, mayCreate: true}
	c.add(
		fixture.Node("n1").Capacity("cpu", "4", "memory", "8Gi").Obj(),
		fixture.Node("n2").Capacity("cpu", "2", "memory", "8Gi").Obj(),
		fixture.Node("n3").Capacity("cpu", "2", "memory", "8Gi").Obj(),
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "shop"}}},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000},
	)
	c.profile("batch", v1alpha1.SchedulingProfileSpec{})
	return c
}

func (c *testCluster) add(objects ...client.Object) { c.objects = append(c.objects, objects...) }

// profile adds a running profile.
func (c *testCluster) profile(name string, spec v1alpha1.SchedulingProfileSpec) *v1alpha1.SchedulingProfile {
	c.t.Helper()
	p := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 2}, Spec: spec}
	p.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("SchedulingProfile"))
	text, err := json.Marshal(p)
	if err != nil {
		c.t.Fatal(err)
	}
	revision := name + "-0123456789"
	p.Status.Programmed = &v1alpha1.ProgrammedProfile{Generation: 2, Hash: "0123456789", Revision: revision}
	c.add(p, &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: revision, Namespace: cluster.DefaultBerthNamespace, Labels: map[string]string{v1alpha1.LabelProfile: name},
			Annotations: map[string]string{v1alpha1.AnnotationGeneration: "2"},
		},
		Data: runtime.RawExtension{Raw: text}, Revision: 1,
	})
	return p
}

// file writes a file and returns its name.
func (c *testCluster) file(text string) string {
	c.t.Helper()
	name := filepath.Join(c.t.TempDir(), "file.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return name
}

// run runs the verb on a file. It returns what was printed, with the text of the error at
// the end, and the exit code.
func (c *testCluster) run(text string, args ...string) (string, int) {
	c.t.Helper()
	var out bytes.Buffer
	env := verb.Env{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(text), Out: &out, ErrOut: &out},
		Now:       func() time.Time { return time.Unix(0, 0) },
		Open: func(context.Context) (*cluster.Cluster, error) {
			return &cluster.Cluster{Client: c.client(), Namespace: "shop", BerthNamespace: cluster.DefaultBerthNamespace}, nil
		},
	}
	cmd := New(env)
	cmd.SetArgs(append([]string{"-f", "-"}, args...))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(&out)
	err := cmd.ExecuteContext(c.t.Context())
	code := verb.ExitCode(err)
	if code == verb.ExitError {
		out.WriteString("error: " + err.Error() + "\n")
	}
	if len(c.written) > 0 {
		c.t.Errorf("written: %s", c.written)
	}
	return out.String(), code
}

// client lists in pages of two, rejects what is forbidden, and records writes.
func (c *testCluster) client() client.WithWatch {
	base := fake.NewClientBuilder().WithScheme(cluster.Scheme()).WithObjects(c.objects...).Build()
	return interceptor.NewClient(base, interceptor.Funcs{List: c.list, Create: c.create})
}

func (c *testCluster) list(ctx context.Context, base client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	kind, err := base.GroupVersionKindFor(list)
	if err != nil {
		return err
	}
	if slices.Contains(c.forbidden, kind.Kind) {
		return apierrors.NewForbidden(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, "", errors.New("you may not"))
	}
	options := &client.ListOptions{}
	options.ApplyOptions(opts)
	page := *options
	options.FieldSelector, options.Limit, options.Continue = nil, 0, ""
	if err := base.List(ctx, list, options); err != nil || page.Limit == 0 {
		return err
	}
	all, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	const pageSize = 2
	from, _ := strconv.Atoi(page.Continue)
	to := min(from+pageSize, len(all))
	if to < len(all) {
		list.SetContinue(strconv.Itoa(to))
	}
	return meta.SetList(list, all[from:to])
}

func (c *testCluster) create(ctx context.Context, base client.WithWatch, object client.Object, opts ...client.CreateOption) error {
	options := &client.CreateOptions{}
	options.ApplyOptions(opts)
	switch o := object.(type) {
	case *authorizationv1.SelfSubjectAccessReview:
		o.Status.Allowed = c.mayCreate
		return nil
	case *v1.Pod:
		if c.mayCreate && slices.Contains(options.DryRun, metav1.DryRunAll) {
			o.Name = o.GenerateName + "x7k2p"
			if c.admit != nil {
				return c.admit(o)
			}
			return nil
		}
	}
	c.written = append(c.written, object.GetObjectKind().GroupVersionKind().Kind)
	return base.Create(ctx, object, opts...)
}

// podYAML is a Pod of profile batch with a CPU request; more are further lines of its spec.
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
