package try

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/kubectltest"
)

const bigNodeYAML = `apiVersion: v1
kind: Node
metadata: {name: big}
status: {capacity: {cpu: "64", memory: 256Gi, pods: "110"}}
`

// deploymentYAML has pods of profile batch that request two CPUs each.
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

// gangYAML are those pods as a gang, jobYAML pods that name a PodGroup.
var gangYAML = strings.Replace(deploymentYAML, "metadata: {labels: {app: web}}",
	`metadata: {labels: {app: web}, annotations: {berth.dev/pod-group: web, berth.dev/pod-group-min-count: "3"}}`, 1)

const jobYAML = `apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 2
  template:
    spec:
      schedulingGroup: {podGroupName: train}
      containers: [{name: c, image: train, resources: {requests: {cpu: "2"}}}]
`

const podGroupYAML = `---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: train}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
`

// withGangs adds a profile that schedules groups.
func withGangs(c *testCluster) {
	c.profile("gangs", v1alpha1.SchedulingProfileSpec{Plugins: &v1alpha1.Plugins{
		MultiPoint: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "GangScheduling"}}},
	}})
}

func podGroup(name string, minCount int32) *schedulingv1beta1.PodGroup {
	return &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: schedulingv1beta1.PodGroupSpec{
		SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}},
	}}
}

// pendingMember returns a pending pod of a group.
func pendingMember(name, group string) *v1.Pod {
	return fixture.Pod("shop/"+name).SchedulerName("gangs").Requests("cpu", "2").Mutate(func(p *v1.Pod) {
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	}).Obj()
}

// gpuTemplateYAML follows another document.
const gpuTemplateYAML = `---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: own}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpus}}]}}}
`

func gpuTemplate(namespace string) *resourceapi.ResourceClaimTemplate {
	return &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gpus"},
		Spec:       resourceapi.ResourceClaimTemplateSpec{Spec: fixture.ResourceClaim("any").Request("r", "gpus").Obj().Spec},
	}
}

func gpuClass() *resourceapi.DeviceClass { return fixture.DeviceClass("gpus").Obj() }

// gpuSlice returns the slice of a node with some devices.
func gpuSlice(node string, devices int) *resourceapi.ResourceSlice {
	b := fixture.ResourceSlice(node, "gpu.example.com")
	for i := range devices {
		b.Device(fmt.Sprint("d", i), nil)
	}
	return b.Obj()
}

func TestTry(t *testing.T) {
	tests := map[string]struct {
		in   func(c *testCluster)
		file string
		args func(c *testCluster) []string
		code int
	}{
		"the node with the best score": {
			file: podYAML("2", "tolerations: []"),
			in:   func(c *testCluster) { c.add(fixture.Pod("shop/a").Requests("cpu", "1").On("n2").Obj()) },
		},
		"nodes with the same score": {
			file: podYAML("500m"),
			in:   func(c *testCluster) { c.add(fixture.Pod("shop/a").Requests("cpu", "3").On("n1").Obj()) },
		},
		"the only feasible node": {file: podYAML("3")},
		"a pod with a bound claim": {
			file: podYAML("1", "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]"),
			in: func(c *testCluster) {
				claim := fixture.Claim("shop/data", "slow").BoundTo("v").Obj()
				c.add(claim, fixture.StorageClass("slow", ""), fixture.Volume("v", "slow").NodeAffinity(v1.LabelHostname, "n3").BoundTo(claim).Obj())
			},
		},
		"a pod that fits on no node": {
			file: podYAML("3", "nodeSelector: {disk: ssd}"), code: 1,
			in: func(c *testCluster) { c.add(fixture.Node("n4").Capacity("cpu", "1").Label("disk", "ssd").Obj()) },
		},
		"victims of preemption": {
			file: podYAML("4", "priorityClassName: high"), code: 1,
			in: func(c *testCluster) {
				c.admit = func(p *v1.Pod) error { p.Spec.Priority = ptr.To[int32](1000); return nil }
				c.add(
					fixture.Pod("shop/a").Requests("cpu", "1").On("n1").Obj(),
					fixture.Pod("bank/b").Requests("cpu", "1").Label("app", "b").On("n1").Obj(),
					&policyv1.PodDisruptionBudget{
						ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "b"},
						Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: fixture.LabelSelector("app", "b")},
					})
			},
		},
		"the pods of a Deployment":         {file: deploymentYAML},
		"more pods than fit":               {file: deploymentYAML, args: fixedArgs("--replicas", "7"), code: 1},
		"the pods of a Deployment in wide": {file: deploymentYAML, args: fixedArgs("-o", "wide")},
		"a Job with fewer completions than pods at once": {
			file: strings.Replace(jobYAML, "parallelism: 2", "parallelism: 5\n  completions: 2", 1), args: fixedArgs("--profile", "batch"),
		},
		"a number of replicas instead of one that is too large": {
			file: strings.Replace(deploymentYAML, "replicas: 3", "replicas: 2000000000", 1), args: fixedArgs("--replicas", "1"),
		},
		"without a node": {
			file: podYAML("2"), args: fixedArgs("--without-node", "n1,n2"),
			in: func(c *testCluster) { c.add(fixture.Pod("shop/a").Requests("cpu", "1").On("n1").Obj()) },
		},
		"with a new node": {
			file: podYAML("20"), args: func(c *testCluster) []string { return []string{"--with-node", c.file(bigNodeYAML)} },
		},
		"a pod with a claim from a template of the cluster": {
			file: podYAML("1", "resourceClaims: [{name: gpu, resourceClaimTemplateName: gpus}]"),
			in:   func(c *testCluster) { c.add(gpuTemplate("shop"), gpuClass(), gpuSlice("n2", 1)) },
		},
		"pods with claims, and the template in the file": {
			file: deploymentYAML + gpuTemplateYAML, args: fixedArgs("--replicas", "2", "-o", "wide"),
			in: func(c *testCluster) {
				c.admit = func(p *v1.Pod) error {
					p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("own")}}
					return nil
				}
				c.add(gpuClass(), gpuSlice("n1", 1), gpuSlice("n3", 1))
			},
		},
		"a claim that another pod has allocated": {
			file: podYAML("1", "resourceClaims: [{name: gpu, resourceClaimName: shared}]"),
			in: func(c *testCluster) {
				c.add(gpuClass(), gpuSlice("n3", 1), fixture.ResourceClaim("shop/shared").Request("r", "gpus").Allocated("n3", "gpu.example.com/n3/d0").Obj())
			},
		},
		"an extended resource that a class in the file backs": {
			file: podYAML("1") + "---\n{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpus}, spec: {extendedResourceName: example.com/card}}\n",
			in: func(c *testCluster) {
				c.admit = func(p *v1.Pod) error {
					p.Spec.Containers[0].Resources.Requests["example.com/card"] = resource.MustParse("2")
					return nil
				}
				c.add(gpuSlice("n2", 2), gpuSlice("n3", 1))
			},
		},
		"more pods than devices": {
			file: deploymentYAML, code: 1,
			in: func(c *testCluster) {
				c.admit = func(p *v1.Pod) error {
					p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("gpus")}}
					return nil
				}
				c.add(gpuTemplate("shop"), gpuClass(), gpuSlice("n1", 1), gpuSlice("n3", 1))
			},
		},
		"a gang that fits":                    {file: gangYAML, args: fixedArgs("--profile", "gangs"), in: withGangs},
		"a gang that fits in wide":            {file: gangYAML, args: fixedArgs("--profile", "gangs", "-o", "wide"), in: withGangs},
		"a gang with pods beyond its minimum": {file: gangYAML, args: fixedArgs("--profile", "gangs", "--replicas", "5"), code: 1, in: withGangs},
		"a gang of which too few fit": {
			file: strings.Replace(gangYAML, `"3"`, `"6"`, 1), args: fixedArgs("--profile", "gangs", "--replicas", "6"), code: 1, in: withGangs,
		},
		"a gang with too few pods":                 {file: strings.Replace(gangYAML, `"3"`, `"6"`, 1), args: fixedArgs("--profile", "gangs"), code: 1, in: withGangs},
		"a gang whose profile schedules no groups": {file: strings.Replace(gangYAML, `"3"`, `"6"`, 1), args: fixedArgs("--profile", "batch")},
		"a gang that says no number": {
			file: strings.Replace(gangYAML, `"3"`, `many`, 1), args: fixedArgs("--profile", "gangs"), code: 1, in: withGangs,
		},
		"a gang that preempts": {
			file: gangYAML, args: fixedArgs("--profile", "gangs"), code: 1,
			in: func(c *testCluster) {
				withGangs(c)
				c.admit = func(p *v1.Pod) error { p.Spec.Priority = ptr.To[int32](1000); return nil }
				c.add(fixture.Pod("shop/a").Requests("cpu", "3").On("n1").Obj(), fixture.Pod("shop/b").Requests("cpu", "2").On("n2").Obj())
			},
		},
		"a gang with its PodGroup in the file": {file: jobYAML + podGroupYAML, args: fixedArgs("--profile", "gangs"), in: withGangs},
		"a gang with its PodGroup in the cluster": {
			file: jobYAML, args: fixedArgs("--profile", "gangs"), in: func(c *testCluster) {
				withGangs(c)
				c.add(podGroup("train", 2))
			},
		},
		"a pod of a gang that is pending": {
			file: podYAML("3", "schedulingGroup: {podGroupName: train}"), args: fixedArgs("--profile", "gangs"), in: func(c *testCluster) {
				withGangs(c)
				c.add(podGroup("train", 2), pendingMember("web", "train"), pendingMember("train-1", "train"), pendingMember("other-0", "other"))
			},
		},
		"a pod of a gang that is pending and fits not": {
			file: podYAML("3", "schedulingGroup: {podGroupName: train}"), args: fixedArgs("--profile", "gangs", "--without-node", "n2,n3"), code: 1, in: func(c *testCluster) {
				withGangs(c)
				c.add(podGroup("train", 2), pendingMember("web", "train"), pendingMember("train-1", "train"))
			},
		},
		"a gang without its PodGroup": {file: jobYAML, args: fixedArgs("--profile", "gangs"), code: 1, in: withGangs},
		"a gated pod":                 {file: podYAML("1", "schedulingGates: [{name: quota}]"), code: 1},
		"a paused profile": {
			file: podYAML("1"), code: 1, args: fixedArgs("--profile", "night"),
			in: func(c *testCluster) { c.profile("night", v1alpha1.SchedulingProfileSpec{State: v1alpha1.StatePaused}) },
		},
		"a namespace that the profile does not allow": {
			file: podYAML("1"), code: 1, args: fixedArgs("--profile", "bank"),
			in: func(c *testCluster) {
				c.profile("bank", v1alpha1.SchedulingProfileSpec{AllowedNamespaces: v1alpha1.AllowedNamespaces{
					From: v1alpha1.NamespacesSelector, Selector: &v1alpha1.NamespaceSelector{MatchLabels: map[string]string{"team": "bank"}},
				}})
			},
		},
		"a profile from a file": {
			file: podYAML("1"),
			args: func(c *testCluster) []string {
				return []string{"--profile-file", c.file("apiVersion: berth.dev/v1alpha1\nkind: SchedulingProfile\nmetadata: {name: packed}\nspec:\n" +
					"  plugins: {score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit}]}}\n" +
					"  pluginConfig:\n  - name: NodeResourcesFit\n    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}\n")}
			},
		},
		"no permission to list some kinds": {
			file: podYAML("1"),
			in: func(c *testCluster) {
				c.mayCreate = false
				c.forbidden = []string{"NamespaceList", "ServiceList", "ReplicaSetList", "PodDisruptionBudgetList", "ControllerRevisionList", "PriorityClassList"}
			},
		},
		"a pod that a webhook changes": {
			file: podYAML("100m"),
			in: func(c *testCluster) {
				c.admit = func(p *v1.Pod) error {
					p.Spec.NodeSelector = map[string]string{v1.LabelHostname: "n3"}
					return nil
				}
			},
		},
		"pending and nominated pods": {
			file: podYAML("3"), code: 1,
			in: func(c *testCluster) {
				c.add(fixture.Pod("shop/a").SchedulerName("batch").Requests("cpu", "3").NominatedNodeName("n1").Obj(),
					fixture.Pod("shop/b").SchedulerName("batch").Requests("cpu", "3").Obj(),
					fixture.Pod("shop/c").SchedulerName("other").Requests("cpu", "3").Obj())
			},
		},
		"a StatefulSet with fewer volumes than pods": {
			file: statefulSetYAML("local"), code: 1,
			in: func(c *testCluster) {
				c.add(fixture.StorageClass("local", ""),
					fixture.Volume("v1", "local").NodeAffinity(v1.LabelHostname, "n2").Obj(), fixture.Volume("v2", "local").NodeAffinity(v1.LabelHostname, "n3").Obj())
			},
		},
		"a StatefulSet with the default StorageClass": {
			file: statefulSetYAML(""), args: fixedArgs("-o", "wide"),
			in: func(c *testCluster) {
				defaultClass := fixture.StorageClass("default", "example.com/disks")
				defaultClass.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
				defaultClass.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{
					Key: v1.LabelHostname, Values: []string{"n3"},
				}}}}
				c.add(defaultClass, fixture.ImmediateStorageClass("other", "example.com/disks"))
			},
		},
		"a StatefulSet with an existing claim": {
			file: statefulSetYAML("made"), args: fixedArgs("-o", "wide"),
			in: func(c *testCluster) {
				claim := fixture.Claim("shop/data-db-6", "made").BoundTo("v").Obj()
				c.add(claim, fixture.StorageClass("made", "example.com/disks"), fixture.Volume("v", "made").NodeAffinity(v1.LabelHostname, "n2").BoundTo(claim).Obj())
			},
		},
		"claims that are bound immediately": {
			file: statefulSetYAML("once"), code: 1,
			in: func(c *testCluster) { c.add(fixture.ImmediateStorageClass("once", "example.com/disks")) },
		},
		"ephemeral volumes": {
			file: podYAML("1", "volumes: [{name: scratch, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: local, "+
				"accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]"),
			in: func(c *testCluster) {
				c.add(fixture.StorageClass("local", ""), fixture.Volume("v1", "local").NodeAffinity(v1.LabelHostname, "n2").Obj())
			},
		},
		"extenders that would be called": {
			file: podYAML("2"), args: fixedArgs("--profile", "extended"),
			in: func(c *testCluster) {
				c.profile("extended", v1alpha1.SchedulingProfileSpec{Extenders: []v1alpha1.Extender{
					kubectltest.Extender("rack"), kubectltest.Extender("gpu", "example.com/gpu"), kubectltest.Extender("quota"),
				}})
			},
		},
		"a pod that is pending already": {
			file: podYAML("3"),
			in: func(c *testCluster) {
				c.add(fixture.Pod("shop/web").SchedulerName("batch").Requests("cpu", "3").NominatedNodeName("n1").Obj())
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newTestCluster(t)
			if test.in != nil {
				test.in(c)
			}
			var args []string
			if test.args != nil {
				args = test.args(c)
			}
			out, code := c.run(test.file, args...)
			if code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			kubectltest.Golden(t, name, out, false)
		})
	}
}

// statefulSetYAML has three pods, numbered from 5, with a claim each of a StorageClass, or
// of the default one.
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

func fixedArgs(args ...string) func(*testCluster) []string {
	return func(*testCluster) []string { return args }
}

func TestInvalidInputIsRejected(t *testing.T) {
	tests := map[string]struct {
		in   func(c *testCluster)
		file string
		args func(c *testCluster) []string
		want string
	}{
		"no workload":      {file: bigNodeYAML, want: "-f: no Pod and no workload in 1 documents"},
		"two workloads":    {file: deploymentYAML + "---\n" + podYAML("1"), want: "-f: standard input, document 2: Pod/web follows Deployment/web: only one of them can be tried at a time"},
		"an unknown field": {file: podYAML("1", "nodeSelectr: {}"), want: `-f: standard input: Pod: strict decoding error: unknown field "spec.nodeSelectr"`},
		"an annotation that is not a string": {
			file: strings.Replace(gangYAML, `"3"`, "3", 1),
			want: "-f: standard input: Deployment: spec.template.metadata.annotations[berth.dev/pod-group-min-count]: wrong type: must be a string, is a number",
		},
		"replicas that are no number": {
			file: strings.Replace(deploymentYAML, "replicas: 3", `replicas: "3"`, 1),
			want: "-f: standard input: Deployment: spec.replicas: wrong type: must be a whole number (int32), is a string",
		},
		"a quantity that is none": {
			file: podYAML("two"),
			want: "-f: standard input: Pod: spec.containers[0].resources.requests.cpu: quantities must match",
		},
		"a device count that is no number": {
			file: podYAML("1") + strings.Replace(gpuTemplateYAML, "deviceClassName: gpus", `deviceClassName: gpus, count: "1"`, 1),
			want: "-f: standard input, document 2: ResourceClaimTemplate: spec.spec.devices.requests[0].exactly.count: wrong type: must be a whole number (int64), is a string",
		},
		"a PodGroup with a count that is no number": {
			file: jobYAML + strings.Replace(podGroupYAML, "minCount: 2", `minCount: "2"`, 1),
			want: "-f: standard input, document 2: PodGroup: spec.schedulingPolicy.gang.minCount: wrong type: must be a whole number (int32), is a string",
		},
		"a node with a label that is not a string": {
			file: podYAML("1"), args: func(c *testCluster) []string {
				return []string{"--with-node", c.file(strings.Replace(bigNodeYAML, "{name: big}", "{name: big, labels: {disks: 2}}", 1))}
			},
			want: "metadata.labels.disks: wrong type: must be a string, is a number",
		},
		"a template that does not exist": {
			file: podYAML("1", "resourceClaims: [{name: gpu, resourceClaimTemplateName: gpus}]"),
			want: "Pod shop/web: spec.resourceClaims[gpu]: there is no ResourceClaimTemplate shop/gpus: add it to FILE",
		},
		"a misspelled field of a template": {
			file: podYAML("1") + strings.Replace(gpuTemplateYAML, "requests", "request", 1),
			want: `-f: standard input, document 2: ResourceClaimTemplate: strict decoding error: unknown field "spec.spec.devices.request"`,
		},
		"a pod that has a node": {file: podYAML("1", "nodeName: n1"), want: `-f: standard input: Pod/web: spec.nodeName: Invalid value: "n1": must be empty, since a pod with a node is not scheduled`},
		"a DaemonSet": {
			file: "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d}\n",
			want: "-f: standard input: kind: DaemonSet is not supported, since each of its pods is for one node: try a Pod with the affinity to that node",
		},
		"a node that does not exist": {file: podYAML("1"), args: fixedArgs("--without-node", "n11"), want: `--without-node: node "n11" not found, did you mean "n1"?`},
		"a node that exists already": {
			file: podYAML("1"), args: func(c *testCluster) []string {
				return []string{"--with-node", c.file(strings.Replace(bigNodeYAML, "big", "n1", 1))}
			},
			want: `metadata.name: node "n1" exists already; remove it with --without-node`,
		},
		"a node without allocatable": {
			file: podYAML("1"), args: func(c *testCluster) []string {
				return []string{"--with-node", c.file("apiVersion: v1\nkind: Node\nmetadata: {name: big}\n")}
			},
			want: "status.allocatable: Required value: no pod fits on a node without it",
		},
		"a profile that does not exist": {
			file: podYAML("1"), args: fixedArgs("--profile", "bach"),
			want: `--profile: no SchedulingProfile is named "bach", did you mean "batch"? Existing profiles: batch`,
		},
		"a schedulerName without a profile": {
			file: strings.Replace(podYAML("1"), "  schedulerName: batch\n", "", 1),
			want: `spec.schedulerName: no SchedulingProfile is named "default-scheduler"; existing profiles: batch; select one with --profile`,
		},
		"a negative number of replicas": {
			file: strings.Replace(deploymentYAML, "replicas: 3", "replicas: -1", 1),
			want: "-f: standard input: Deployment: spec.replicas: Invalid value: -1: must be greater than or equal to 0",
		},
		"more replicas than are tried": {
			file: strings.Replace(deploymentYAML, "replicas: 3", "replicas: 2000000000", 1),
			want: "Deployment/web: spec.replicas: Invalid value: 2000000000: must be at most 100000, unless --replicas is set",
		},
		"a negative parallelism": {
			file: strings.Replace(jobYAML, "parallelism: 2", "parallelism: -2", 1),
			want: "Job: spec.parallelism: Invalid value: -2: must be greater than or equal to 0",
		},
		"more pods at once than are tried": {
			file: strings.Replace(jobYAML, "parallelism: 2", "parallelism: 100001", 1),
			want: "Job/train: spec.parallelism: Invalid value: 100001: must be at most 100000, unless --replicas is set",
		},
		"negative completions of a CronJob": {
			file: "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\nspec: {jobTemplate: {spec: {completions: -3}}}\n",
			want: "CronJob: spec.jobTemplate.spec.completions: Invalid value: -3: must be greater than or equal to 0",
		},
		"an unsupported format":     {file: podYAML("1"), args: fixedArgs("-o", "name"), want: `-o: unsupported output format "name": must be one of: wide, json, yaml`},
		"a negative number of pods": {file: podYAML("1"), args: fixedArgs("--replicas", "-1"), want: "--replicas: Invalid value: -1: must be between 0 and 100000"},
		"no permission to list nodes": {
			file: podYAML("1"), in: func(c *testCluster) { c.forbidden = []string{"NodeList"} },
			want: "nodes: the result needs them: ",
		},
		"no permission to list pods": {
			file: podYAML("1"), in: func(c *testCluster) { c.forbidden = []string{"PodList"} },
			want: "pods of all namespaces: the result needs to know which resources are used: ",
		},
		"a pod that the API server would reject": {
			file: podYAML("1"),
			in: func(c *testCluster) {
				c.admit = func(*v1.Pod) error {
					return apierrors.NewInvalid(v1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "web", nil)
				}
			},
			want: `the API server would reject the pod: Pod "web" is invalid`,
		},
		"an unknown PriorityClass, without a dry run": {
			file: podYAML("1", "priorityClassName: top"), in: func(c *testCluster) { c.mayCreate = false },
			want: `spec.priorityClassName: PriorityClass "top" not found`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newTestCluster(t)
			if test.in != nil {
				test.in(c)
			}
			var args []string
			if test.args != nil {
				args = test.args(c)
			}
			out, code := c.run(test.file, args...)
			if code != 2 || !strings.Contains(out, test.want) {
				t.Errorf("exit code %d, want 2 with %q:\n%s", code, test.want, out)
			}
		})
	}
}
