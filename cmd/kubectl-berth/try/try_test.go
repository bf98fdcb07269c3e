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

const bigNodeYAML = `apiVersion: v1
kind: Node
metadata: {name: big}
status: {capacity: {cpu: "64", memory: 256Gi, pods: "110"}}
`

// deployment asks for two CPUs a pod, and runs under profile batch.
const deploymentYAML = `apiVersion: apps/v1
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

func TestTry(t *testing.T) {
	tests := map[string]struct {
		in   func(w *testCluster)
		file string
		args func(w *testCluster) []string
		code int
	}{
		"the node that scores best, and why": {
			file: podYAML("2", "tolerations: []"),
			in:   func(w *testCluster) { w.add(fixture.Pod("shop/a").Requests("cpu", "1").On("n2").Obj()) },
		},
		"all that might be chosen, where nodes score the same": {
			file: podYAML("500m"),
			in:   func(w *testCluster) { w.add(fixture.Pod("shop/a").Requests("cpu", "3").On("n1").Obj()) },
		},
		"the only one that fits": {file: podYAML("3")},
		"a pod goes where its claim's volume is": {
			file: podYAML("1", "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]"),
			in: func(w *testCluster) {
				claim := fixture.Claim("shop/data", "slow").BoundTo("v").Obj()
				w.add(claim, fixture.StorageClass("slow", ""), fixture.Volume("v", "slow").NodeAffinity(v1.LabelHostname, "n3").BoundTo(claim).Obj())
			},
		},
		"why nowhere, by plugin and reason": {
			file: podYAML("3", "nodeSelector: {disk: ssd}"), code: 1,
			in: func(w *testCluster) { w.add(fixture.Node("n4").Capacity("cpu", "1").Label("disk", "ssd").Obj()) },
		},
		"who would have to leave": {
			file: podYAML("4", "priorityClassName: high"), code: 1,
			in: func(w *testCluster) {
				w.admit = func(p *v1.Pod) error { p.Spec.Priority = ptr.To[int32](1000); return nil }
				w.add(
					fixture.Pod("shop/a").Requests("cpu", "1").On("n1").Obj(),
					fixture.Pod("bank/b").Requests("cpu", "1").Label("app", "b").On("n1").Obj(),
					&policyv1.PodDisruptionBudget{
						ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "b"},
						Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: fixture.LabelSelector("app", "b")},
					})
			},
		},
		"a Deployment's pods, one after another": {file: deploymentYAML},
		"more of them than fit":                  {file: deploymentYAML, args: fixedArgs("--replicas", "7"), code: 1},
		"each by itself, in wide":                {file: deploymentYAML, args: fixedArgs("-o", "wide")},
		"without a node, whose pods are gone": {
			file: podYAML("2"), args: fixedArgs("--without-node", "n1,n2"),
			in: func(w *testCluster) { w.add(fixture.Pod("shop/a").Requests("cpu", "1").On("n1").Obj()) },
		},
		"with a node that is not there yet": {
			file: podYAML("20"), args: func(w *testCluster) []string { return []string{"--with-node", w.file(bigNodeYAML)} },
		},
		"a pod with gates is not tried": {file: podYAML("1", "schedulingGates: [{name: quota}]"), code: 1},
		"a profile that is paused": {
			file: podYAML("1"), code: 1, args: fixedArgs("--profile", "night"),
			in: func(w *testCluster) { w.profile("night", v1alpha1.SchedulingProfileSpec{State: v1alpha1.StatePaused}) },
		},
		"a namespace that the profile does not take": {
			file: podYAML("1"), code: 1, args: fixedArgs("--profile", "bank"),
			in: func(w *testCluster) {
				w.profile("bank", v1alpha1.SchedulingProfileSpec{AllowedNamespaces: v1alpha1.AllowedNamespaces{
					From: v1alpha1.NamespacesSelector, Selector: &v1alpha1.NamespaceSelector{MatchLabels: map[string]string{"team": "bank"}},
				}})
			},
		},
		"a profile that is not applied": {
			file: podYAML("1"),
			args: func(w *testCluster) []string {
				return []string{"--profile-file", w.file("apiVersion: berth.dev/v1alpha1\nkind: SchedulingProfile\nmetadata: {name: packed}\nspec:\n" +
					"  plugins: {score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit}]}}\n" +
					"  pluginConfig:\n  - name: NodeResourcesFit\n    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}\n")}
			},
		},
		"what may not be read is named, and what that means": {
			file: podYAML("1"),
			in: func(w *testCluster) {
				w.mayCreate = false
				w.forbidden = []string{"NamespaceList", "ServiceList", "ReplicaSetList", "PodDisruptionBudgetList", "ControllerRevisionList", "PriorityClassList"}
			},
		},
		"what the API server would make of the pod counts": {
			file: podYAML("100m"),
			in: func(w *testCluster) {
				w.admit = func(p *v1.Pod) error {
					p.Spec.NodeSelector = map[string]string{v1.LabelHostname: "n3"}
					return nil
				}
			},
		},
		"pods that wait are told, and so is room that is promised": {
			file: podYAML("3"), code: 1,
			in: func(w *testCluster) {
				w.add(fixture.Pod("shop/a").SchedulerName("batch").Requests("cpu", "3").NominatedNodeName("n1").Obj(),
					fixture.Pod("shop/b").SchedulerName("batch").Requests("cpu", "3").Obj(),
					fixture.Pod("shop/c").SchedulerName("other").Requests("cpu", "3").Obj())
			},
		},
		"each pod of a StatefulSet has claims of its own, which take the volumes that there are": {
			file: statefulSetYAML("local"), code: 1,
			in: func(w *testCluster) {
				w.add(fixture.StorageClass("local", ""),
					fixture.Volume("v1", "local").NodeAffinity(v1.LabelHostname, "n2").Obj(), fixture.Volume("v2", "local").NodeAffinity(v1.LabelHostname, "n3").Obj())
			},
		},
		"a StatefulSet's pods go where volumes can be made, of the class that is the default": {
			file: statefulSetYAML(""), args: fixedArgs("-o", "wide"),
			in: func(w *testCluster) {
				usual := fixture.StorageClass("usual", "example.com/disks")
				usual.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
				usual.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{
					Key: v1.LabelHostname, Values: []string{"n3"},
				}}}}
				w.add(usual, fixture.ImmediateStorageClass("other", "example.com/disks"))
			},
		},
		"a StatefulSet's pod that has been there goes where its volume is": {
			file: statefulSetYAML("made"), args: fixedArgs("-o", "wide"),
			in: func(w *testCluster) {
				claim := fixture.Claim("shop/data-db-6", "made").BoundTo("v").Obj()
				w.add(claim, fixture.StorageClass("made", "example.com/disks"), fixture.Volume("v", "made").NodeAffinity(v1.LabelHostname, "n2").BoundTo(claim).Obj())
			},
		},
		"claims that are bound at once, and are not there yet": {
			file: statefulSetYAML("once"), code: 1,
			in: func(w *testCluster) { w.add(fixture.ImmediateStorageClass("once", "example.com/disks")) },
		},
		"claims that last as long as the pod": {
			file: podYAML("1", "volumes: [{name: scratch, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: local, "+
				"accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]"),
			in: func(w *testCluster) {
				w.add(fixture.StorageClass("local", ""), fixture.Volume("v1", "local").NodeAffinity(v1.LabelHostname, "n2").Obj())
			},
		},
		"extenders that would be asked are named": {
			file: podYAML("2"), args: fixedArgs("--profile", "extended"),
			in: func(w *testCluster) {
				w.profile("extended", v1alpha1.SchedulingProfileSpec{Extenders: []v1alpha1.Extender{
					newExtender("rack"), newExtender("gpu", "example.com/gpu"), newExtender("quota"),
				}})
			},
		},
		"a pod that waits already is this one": {
			file: podYAML("3"),
			in: func(w *testCluster) {
				w.add(fixture.Pod("shop/web").SchedulerName("batch").Requests("cpu", "3").NominatedNodeName("n1").Obj())
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newTestCluster(t)
			if test.in != nil {
				test.in(w)
			}
			var args []string
			if test.args != nil {
				args = test.args(w)
			}
			out, code := w.run(test.file, args...)
			if code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			plugin.Golden(t, name, out, false)
		})
	}
}

// statefulSet has three pods, from number 5 on, with a claim each of a class, or
// of none that it names.
func statefulSetYAML(class string) string {
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

func newExtender(name string, manages ...string) v1alpha1.Extender {
	e := v1alpha1.Extender{Name: name, URL: "https://" + name + ".example/v1", Verbs: v1alpha1.ExtenderVerbs{Filter: "filter"}, TLS: v1alpha1.ExtenderTLS{CABundle: caBundle}}
	for _, resource := range manages {
		e.ManagedResources = append(e.ManagedResources, v1alpha1.ExtenderManagedResource{Name: resource})
	}
	return e
}

// authority vouches for nobody.
var caBundle, _, _ = cert.GenerateSelfSignedCertKey("authority.example", nil, nil)

func fixedArgs(args ...string) func(*testCluster) []string {
	return func(*testCluster) []string { return args }
}

func TestInvalidInputIsRejected(t *testing.T) {
	tests := map[string]struct {
		in   func(w *testCluster)
		file string
		args func(w *testCluster) []string
		want string
	}{
		"nothing to try":            {file: bigNodeYAML, want: "-f: no Pod, and nothing that makes pods, among 1 documents"},
		"two at once":               {file: deploymentYAML + "---\n" + podYAML("1"), want: "-f: standard input, document 2: Pod/web comes after Deployment/web: give one of them at a time"},
		"a field that is not there": {file: podYAML("1", "nodeSelectr: {}"), want: `-f: standard input: Pod: strict decoding error: unknown field "spec.nodeSelectr"`},
		"a pod that has a node":     {file: podYAML("1", "nodeName: n1"), want: `-f: standard input: Pod/web: spec.nodeName: must be empty, is "n1": no scheduler is asked about such a pod`},
		"a DaemonSet": {
			file: "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d}\n",
			want: "-f: standard input: kind: a DaemonSet makes each pod for one node: try a Pod with that node's affinity",
		},
		"a node that is not there": {file: podYAML("1"), args: fixedArgs("--without-node", "n11"), want: `--without-node: there is no node "n11", did you mean "n1"?`},
		"a node that is there": {
			file: podYAML("1"), args: func(w *testCluster) []string {
				return []string{"--with-node", w.file(strings.Replace(bigNodeYAML, "big", "n1", 1))}
			},
			want: `metadata.name: there is a node "n1" already; take it away with --without-node first`,
		},
		"a node without room": {
			file: podYAML("1"), args: func(w *testCluster) []string {
				return []string{"--with-node", w.file("apiVersion: v1\nkind: Node\nmetadata: {name: big}\n")}
			},
			want: "status.allocatable: Required value: nothing has room on a node without it",
		},
		"a profile that is not there": {
			file: podYAML("1"), args: fixedArgs("--profile", "bach"),
			want: `--profile: there is no SchedulingProfile "bach", did you mean "batch"? There are batch`,
		},
		"a profile that the pod names and is not there": {
			file: strings.Replace(podYAML("1"), "  schedulerName: batch\n", "", 1),
			want: `spec.schedulerName: there is no SchedulingProfile "default-scheduler"; there are batch; say which with --profile`,
		},
		"a format":          {file: podYAML("1"), args: fixedArgs("-o", "name"), want: `-o: no format "name": it is one of wide, json, yaml`},
		"less than no pods": {file: podYAML("1"), args: fixedArgs("--replicas", "-1"), want: "--replicas: must be from 1 to 100000, or 0 for what the file says, is -1"},
		"nodes that may not be read": {
			file: podYAML("1"), in: func(w *testCluster) { w.forbidden = []string{"NodeList"} },
			want: "nodes: without them there is no answer: ",
		},
		"pods that may not be read": {
			file: podYAML("1"), in: func(w *testCluster) { w.forbidden = []string{"PodList"} },
			want: "pods of all namespaces: without them nobody knows which room is taken: ",
		},
		"a pod that the API server would refuse": {
			file: podYAML("1"),
			in: func(w *testCluster) {
				w.admit = func(*v1.Pod) error {
					return apierrors.NewInvalid(v1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "web", nil)
				}
			},
			want: `the API server would refuse the pod: Pod "web" is invalid`,
		},
		"a class that is not there, without a dry run": {
			file: podYAML("1", "priorityClassName: top"), in: func(w *testCluster) { w.mayCreate = false },
			want: `spec.priorityClassName: there is no PriorityClass "top"`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newTestCluster(t)
			if test.in != nil {
				test.in(w)
			}
			var args []string
			if test.args != nil {
				args = test.args(w)
			}
			out, code := w.run(test.file, args...)
			if code != 2 || !strings.Contains(out, test.want) {
				t.Errorf("exit code %d, want 2 with %q:\n%s", code, test.want, out)
			}
		})
	}
}
