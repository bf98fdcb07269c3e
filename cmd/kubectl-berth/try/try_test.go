package try

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/plugin"
)

const big = `apiVersion: v1
kind: Node
metadata: {name: big}
status: {capacity: {cpu: "64", memory: 256Gi, pods: "110"}}
`

// deployment asks for two CPUs a pod, and runs under profile batch.
const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulerName: batch
      containers: [{name: c, image: web, resources: {requests: {cpu: "2"}}}]
`

func TestAnswers(t *testing.T) {
	tests := map[string]struct {
		in   func(w *world)
		file string
		args func(w *world) []string
		code int
	}{
		"the node that scores best, and why": {
			file: yamlPod("2", "tolerations: []"),
			in:   func(w *world) { w.add(fixture.Pod("shop/a").Requests("cpu", "1").On("n2").Obj()) },
		},
		"all that might be chosen, where nodes score the same": {
			file: yamlPod("500m"),
			in:   func(w *world) { w.add(fixture.Pod("shop/a").Requests("cpu", "3").On("n1").Obj()) },
		},
		"the only one that fits": {file: yamlPod("3")},
		"a pod goes where its claim's volume is": {
			file: yamlPod("1", "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]"),
			in: func(w *world) {
				claim := fixture.Claim("shop/data", "slow").BoundTo("v").Obj()
				w.add(claim, fixture.StorageClass("slow", ""), fixture.Volume("v", "slow").Reached(v1.LabelHostname, "n3").BoundTo(claim).Obj())
			},
		},
		"why nowhere, by plugin and reason": {
			file: yamlPod("3", "nodeSelector: {disk: ssd}"), code: 1,
			in: func(w *world) { w.add(fixture.Node("n4").Offers("cpu", "1").Label("disk", "ssd").Obj()) },
		},
		"who would have to leave": {
			file: yamlPod("4", "priorityClassName: high"), code: 1,
			in: func(w *world) {
				w.admits = func(p *v1.Pod) error { p.Spec.Priority = ptr.To[int32](1000); return nil }
				w.add(
					fixture.Pod("shop/a").Requests("cpu", "1").On("n1").Obj(),
					fixture.Pod("bank/b").Requests("cpu", "1").Label("app", "b").On("n1").Obj(),
					&policyv1.PodDisruptionBudget{
						ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "b"},
						Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: fixture.Labels("app", "b")},
					})
			},
		},
		"a Deployment's pods, one after another": {file: deployment},
		"more of them than fit":                  {file: deployment, args: just("--replicas", "7"), code: 1},
		"each by itself, in wide":                {file: deployment, args: just("-o", "wide")},
		"without a node, whose pods are gone": {
			file: yamlPod("2"), args: just("--without-node", "n1,n2"),
			in: func(w *world) { w.add(fixture.Pod("shop/a").Requests("cpu", "1").On("n1").Obj()) },
		},
		"with a node that is not there yet": {
			file: yamlPod("20"), args: func(w *world) []string { return []string{"--with-node", w.file(big)} },
		},
		"a pod with gates is not tried": {file: yamlPod("1", "schedulingGates: [{name: quota}]"), code: 1},
		"a profile that is paused": {
			file: yamlPod("1"), code: 1, args: just("--profile", "night"),
			in: func(w *world) { w.profile("night", v1alpha1.SchedulingProfileSpec{State: v1alpha1.StatePaused}) },
		},
		"a namespace that the profile does not take": {
			file: yamlPod("1"), code: 1, args: just("--profile", "bank"),
			in: func(w *world) {
				w.profile("bank", v1alpha1.SchedulingProfileSpec{AllowedNamespaces: v1alpha1.AllowedNamespaces{
					From: v1alpha1.NamespacesSelector, Selector: &v1alpha1.NamespaceSelector{MatchLabels: map[string]string{"team": "bank"}},
				}})
			},
		},
		"a profile that is not applied": {
			file: yamlPod("1"),
			args: func(w *world) []string {
				return []string{"--profile-file", w.file("apiVersion: berth.dev/v1alpha1\nkind: SchedulingProfile\nmetadata: {name: packed}\nspec:\n" +
					"  plugins: {score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit}]}}\n" +
					"  pluginConfig:\n  - name: NodeResourcesFit\n    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}\n")}
			},
		},
		"what may not be read is named, and what that means": {
			file: yamlPod("1"),
			in: func(w *world) {
				w.creates = false
				w.forbidden = []string{"NamespaceList", "ServiceList", "ReplicaSetList", "PodDisruptionBudgetList", "ControllerRevisionList", "PriorityClassList"}
			},
		},
		"what the API server would make of the pod counts": {
			file: yamlPod("100m"),
			in: func(w *world) {
				w.admits = func(p *v1.Pod) error {
					p.Spec.NodeSelector = map[string]string{v1.LabelHostname: "n3"}
					return nil
				}
			},
		},
		"pods that wait are told, and so is room that is promised": {
			file: yamlPod("3"), code: 1,
			in: func(w *world) {
				w.add(fixture.Pod("shop/a").Scheduler("batch").Requests("cpu", "3").Nominated("n1").Obj(),
					fixture.Pod("shop/b").Scheduler("batch").Requests("cpu", "3").Obj(),
					fixture.Pod("shop/c").Scheduler("other").Requests("cpu", "3").Obj())
			},
		},
		"each pod of a StatefulSet has claims of its own, which take the volumes that there are": {
			file: statefulSet("local"), code: 1,
			in: func(w *world) {
				w.add(fixture.StorageClass("local", ""),
					fixture.Volume("v1", "local").Reached(v1.LabelHostname, "n2").Obj(), fixture.Volume("v2", "local").Reached(v1.LabelHostname, "n3").Obj())
			},
		},
		"a StatefulSet's pods go where volumes can be made, of the class that is the default": {
			file: statefulSet(""), args: just("-o", "wide"),
			in: func(w *world) {
				usual := fixture.StorageClass("usual", "example.com/disks")
				usual.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
				usual.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{
					Key: v1.LabelHostname, Values: []string{"n3"},
				}}}}
				w.add(usual, fixture.ImmediateClass("other", "example.com/disks"))
			},
		},
		"a StatefulSet's pod that has been there goes where its volume is": {
			file: statefulSet("made"), args: just("-o", "wide"),
			in: func(w *world) {
				claim := fixture.Claim("shop/data-db-6", "made").BoundTo("v").Obj()
				w.add(claim, fixture.StorageClass("made", "example.com/disks"), fixture.Volume("v", "made").Reached(v1.LabelHostname, "n2").BoundTo(claim).Obj())
			},
		},
		"claims that are bound at once, and are not there yet": {
			file: statefulSet("once"), code: 1,
			in: func(w *world) { w.add(fixture.ImmediateClass("once", "example.com/disks")) },
		},
		"claims that last as long as the pod": {
			file: yamlPod("1", "volumes: [{name: scratch, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: local, "+
				"accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]"),
			in: func(w *world) {
				w.add(fixture.StorageClass("local", ""), fixture.Volume("v1", "local").Reached(v1.LabelHostname, "n2").Obj())
			},
		},
		"extenders that would be asked are named": {
			file: yamlPod("2"), args: just("--profile", "extended"),
			in: func(w *world) {
				w.profile("extended", v1alpha1.SchedulingProfileSpec{Extenders: []v1alpha1.Extender{
					anExtender("rack"), anExtender("gpu", "example.com/gpu"), anExtender("quota"),
				}})
			},
		},
		"a pod that waits already is this one": {
			file: yamlPod("3"),
			in: func(w *world) {
				w.add(fixture.Pod("shop/web").Scheduler("batch").Requests("cpu", "3").Nominated("n1").Obj())
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if test.in != nil {
				test.in(w)
			}
			var args []string
			if test.args != nil {
				args = test.args(w)
			}
			out, code := w.try(test.file, args...)
			if code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			plugin.Golden(t, name, out, false)
		})
	}
}

// statefulSet has three pods, from number 5 on, with a claim each of a class, or
// of none that it names.
func statefulSet(class string) string {
	named := ""
	if class != "" {
		named = "storageClassName: " + class + ", "
	}
	return `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  serviceName: db
  ordinals: {start: 5}
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      schedulerName: batch
      containers: [{name: c, image: db}]
      volumes: [{name: data, emptyDir: {}}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {` + named + `accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`
}

func anExtender(name string, manages ...string) v1alpha1.Extender {
	e := v1alpha1.Extender{Name: name, URL: "https://" + name + ".example/v1", Verbs: v1alpha1.ExtenderVerbs{Filter: "filter"}, TLS: v1alpha1.ExtenderTLS{CABundle: authority}}
	for _, resource := range manages {
		e.ManagedResources = append(e.ManagedResources, v1alpha1.ExtenderManagedResource{Name: resource})
	}
	return e
}

// authority vouches for nobody.
var authority, _, _ = cert.GenerateSelfSignedCertKey("authority.example", nil, nil)

func just(args ...string) func(*world) []string { return func(*world) []string { return args } }

func TestWhatMakesNoSenseIsRefusedByName(t *testing.T) {
	tests := map[string]struct {
		in   func(w *world)
		file string
		args func(w *world) []string
		want string
	}{
		"nothing to try":            {file: big, want: "-f: no Pod, and nothing that makes pods, among 1 documents"},
		"two at once":               {file: deployment + "---\n" + yamlPod("1"), want: "-f: standard input, document 2: Pod/web comes after Deployment/web: give one of them at a time"},
		"a field that is not there": {file: yamlPod("1", "nodeSelectr: {}"), want: `-f: standard input: Pod: strict decoding error: unknown field "spec.nodeSelectr"`},
		"a pod that has a node":     {file: yamlPod("1", "nodeName: n1"), want: `-f: standard input: Pod/web: spec.nodeName: must be empty, is "n1": no scheduler is asked about such a pod`},
		"a DaemonSet": {
			file: "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d}\n",
			want: "-f: standard input: kind: a DaemonSet makes each pod for one node: try a Pod with that node's affinity",
		},
		"a node that is not there": {file: yamlPod("1"), args: just("--without-node", "n11"), want: `--without-node: there is no node "n11", did you mean "n1"?`},
		"a node that is there": {
			file: yamlPod("1"), args: func(w *world) []string { return []string{"--with-node", w.file(strings.Replace(big, "big", "n1", 1))} },
			want: `metadata.name: there is a node "n1" already; take it away with --without-node first`,
		},
		"a node without room": {
			file: yamlPod("1"), args: func(w *world) []string {
				return []string{"--with-node", w.file("apiVersion: v1\nkind: Node\nmetadata: {name: big}\n")}
			},
			want: "status.allocatable: Required value: nothing has room on a node without it",
		},
		"a profile that is not there": {
			file: yamlPod("1"), args: just("--profile", "bach"),
			want: `--profile: there is no SchedulingProfile "bach", did you mean "batch"? There are batch`,
		},
		"a profile that the pod names and is not there": {
			file: strings.Replace(yamlPod("1"), "  schedulerName: batch\n", "", 1),
			want: `spec.schedulerName: there is no SchedulingProfile "default-scheduler"; there are batch; say which with --profile`,
		},
		"a format":          {file: yamlPod("1"), args: just("-o", "name"), want: `-o: no format "name": it is one of wide, json, yaml`},
		"less than no pods": {file: yamlPod("1"), args: just("--replicas", "-1"), want: "--replicas: must be from 1 to 100000, or 0 for what the file says, is -1"},
		"nodes that may not be read": {
			file: yamlPod("1"), in: func(w *world) { w.forbidden = []string{"NodeList"} },
			want: "nodes: without them there is no answer: ",
		},
		"pods that may not be read": {
			file: yamlPod("1"), in: func(w *world) { w.forbidden = []string{"PodList"} },
			want: "pods of all namespaces: without them nobody knows which room is taken: ",
		},
		"a pod that the API server would refuse": {
			file: yamlPod("1"),
			in: func(w *world) {
				w.admits = func(*v1.Pod) error {
					return apierrors.NewInvalid(v1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "web", nil)
				}
			},
			want: `the API server would refuse the pod: Pod "web" is invalid`,
		},
		"a class that is not there, without a dry run": {
			file: yamlPod("1", "priorityClassName: top"), in: func(w *world) { w.creates = false },
			want: `spec.priorityClassName: there is no PriorityClass "top"`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if test.in != nil {
				test.in(w)
			}
			var args []string
			if test.args != nil {
				args = test.args(w)
			}
			out, code := w.try(test.file, args...)
			if code != 2 || !strings.Contains(out, test.want) {
				t.Errorf("exit code %d, want 2 with %q:\n%s", code, test.want, out)
			}
		})
	}
}
