package defaultbinder_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins/defaultbinder"
	"github.com/berthdev/berth/test/support/fixture"
)

// handle is a Handle that offers a client and nothing else.
type handle struct {
	fwk.Handle
	client kubernetes.Interface
}

func (h handle) ClientSet() kubernetes.Interface { return h.client }

func TestBind(t *testing.T) {
	refused := errors.New("the server rejected the Binding")
	for name, c := range map[string]struct {
		data *framework.BindingData
		err  error
		want metav1.ObjectMeta
	}{
		"a Binding names the pod and its UID": {
			want: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "shop/web"},
		},
		"the Binding has the annotations and the resource version": {
			data: &framework.BindingData{Annotations: map[string]string{"a": "b"}, ResourceVersion: "7"},
			want: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "shop/web",
				Annotations: map[string]string{"a": "b"}, ResourceVersion: "7"},
		},
		"an error is returned unchanged, after one call": {
			err:  refused,
			want: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "shop/web"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var posted []runtime.Object
			client := fake.NewClientset()
			client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if action.GetSubresource() == "binding" {
					posted = append(posted, action.(clienttesting.CreateAction).GetObject())
				}
				return true, nil, c.err
			})
			plugin, err := defaultbinder.New(t.Context(), nil, handle{client: client})
			if err != nil {
				t.Fatal(err)
			}
			state := framework.NewCycleState()
			if c.data != nil {
				framework.WriteBindingData(state, c.data)
			}
			status := plugin.(fwk.BindPlugin).Bind(t.Context(), state, fixture.Pod("shop/web").Obj(), "n1")
			if !errors.Is(status.AsError(), c.err) || status.IsSuccess() != (c.err == nil) {
				t.Errorf("status %v, want the error %v", status, c.err)
			}
			want := []runtime.Object{&v1.Binding{
				ObjectMeta: c.want, Target: v1.ObjectReference{Kind: "Node", Name: "n1"},
			}}
			if diff := cmp.Diff(want, posted); diff != "" {
				t.Errorf("posted (-want +got):\n%s", diff)
			}
		})
	}
}
