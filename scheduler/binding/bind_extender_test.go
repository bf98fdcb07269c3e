package binding

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// bindingExtender is an extender that binds, and returns an error or none regardless
// of what it did.
type bindingExtender struct {
	fwk.Extender
	bind      func(node string)
	says      error
	ignorable bool
}

func (d *bindingExtender) Name() string              { return "rack" }
func (d *bindingExtender) IsBinder() bool            { return true }
func (d *bindingExtender) IsIgnorable() bool         { return d.ignorable }
func (d *bindingExtender) IsInterested(*v1.Pod) bool { return true }
func (d *bindingExtender) IsFilter() bool            { return false }
func (d *bindingExtender) IsPrioritizer() bool       { return false }
func (d *bindingExtender) Bind(b *v1.Binding) error  { d.bind(b.Target.Name); return d.says }

func TestAnExtendersBindIsVerified(t *testing.T) {
	broken := errors.New("something went wrong")
	for name, test := range map[string]struct {
		// to is the node that the extender binds the pod to; "" for none.
		to        string
		gone      bool
		says      error
		ignorable bool
		want      string
		calls     []string
		after     string
	}{
		"it binds":                                    {to: "n1", calls: []string{"get web"}, after: "n1"},
		"it binds and reports an error":               {to: "n1", says: broken, calls: []string{"get web"}, after: "n1"},
		"it reports success and did not bind":         {want: "Extender/rack reported that it bound the pod to its node, but the pod is not bound", calls: []string{"get web"}},
		"it fails":                                    {says: broken, want: broken.Error(), calls: []string{"get web"}},
		"it binds to another node":                    {to: "n2", want: ErrGone.Error(), calls: []string{"get web"}, after: "n2"},
		"it fails and is ignorable":                   {says: broken, ignorable: true, calls: []string{"bind web n1"}, after: "n1"},
		"it binds, reports an error and is ignorable": {to: "n1", says: broken, ignorable: true, calls: []string{"bind web n1", "get web"}, after: "n1"},
		"the pod is deleted":                          {gone: true, says: broken, want: ErrGone.Error(), calls: []string{"get web"}},
	} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				d := &bindingExtender{says: test.says, ignorable: test.ignorable}
				d.bind = func(string) {
					if test.to != "" {
						env.cluster.UpdatePod(env.pod, func(p *v1.Pod) { p.Spec.NodeName = test.to })
					}
					if test.gone {
						env.cluster.DeletePod(env.pod)
					}
				}
				env.extenders = []fwk.Extender{d}
				_, err := env.bindPod()
				if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
					t.Errorf("%v, want %q", err, test.want)
				}
				wantLines(t, "calls", env.calls(), test.calls...)
				if !test.gone {
					if after := env.cluster.Pod(env.pod).Spec.NodeName; after != test.after {
						t.Errorf("the pod is on %q, want %q", after, test.after)
					}
				}
			})
		})
	}
}
