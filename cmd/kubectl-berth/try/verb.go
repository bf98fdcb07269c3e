package try

import (
	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/state"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// Verb describes it.
var Verb = verb.Verb{
	Name: "try", Arguments: "-f FILE [--replicas N] [--profile NAME] [--without-node NODE] [--with-node FILE]",
	Short: "Say where pods would go, or why nowhere, without creating them",
	Long: `Reads nodes, pods and what else plugins look at, with your rights, and asks the
scheduler's own cache, cycle and plugins, on that copy. Nothing is written.

FILE holds a Pod, or one of Deployment, ReplicaSet, StatefulSet, Job, CronJob,
ReplicationController and PodTemplate, whose template is taken, as often as it says
(replicas, parallelism) or --replicas does. Each pod is counted before the next;
pods that would have to leave for one are gone for the next. Claims that a controller
would make for the pods, of volumeClaimTemplates, are made on the copy where they are
not there yet, and the volumes that a pod gets are gone for the next.

The profile is the one that runs now under the pod's schedulerName, or under
--profile; --profile-file takes one that is not applied. What the API server
fills in (priority, requests, webhooks, LimitRanges) it is asked for by a dry run;
where you may not create pods, the defaults that need no cluster are filled in here,
and a note says so.

Of nodes that score the same, where Berth's walk over the nodes stands decides,
which cannot be seen from outside: all of them are named then. With 100 nodes or
more, a walk may stop before it saw them all (percentageOfNodesToScore): the answer
is that of one walk. Pods that wait already may take the room first. Extenders are
not asked; a note names those that would be.

With --without-node, the pods of that node are gone, not placed anew. With
--with-node, a Node needs a name and status.allocatable or status.capacity; the label
kubernetes.io/hostname is its name unless it says otherwise.`,
	Permissions: append([]verb.Permission{
		{Verbs: []string{"list"}, Resource: "nodes"},
		{Verbs: []string{"list"}, Resource: "pods"},
		{Verbs: []string{"list"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles", Purpose: "unless --profile-file"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "controllerrevisions", Scope: verb.InBerthNamespace, Purpose: "for what runs, rather than what is written"},
		{Verbs: []string{"get"}, Group: v1alpha1.GroupVersion.Group, Resource: "pluginconfigs", Purpose: "where no revision says the arguments"},
		{Verbs: []string{"create"}, Resource: "pods", Scope: verb.InNamespace, Purpose: "for the dry run"},
		{Verbs: []string{"list"}, Resource: "namespaces", Purpose: "for namespaceSelectors and allowedNamespaces"},
		{Verbs: []string{"list"}, Resource: "services", Purpose: "for default spreading"},
		{Verbs: []string{"list"}, Resource: "replicationcontrollers", Purpose: "for default spreading"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "replicasets", Purpose: "for default spreading"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "statefulsets", Purpose: "for default spreading"},
		{Verbs: []string{"list"}, Group: "policy", Resource: "poddisruptionbudgets", Purpose: "for preemption"},
		{Verbs: []string{"list"}, Group: "resource.k8s.io", Resource: "deviceclasses", Purpose: "for resources that devices back"},
		{Verbs: []string{"list"}, Group: "scheduling.k8s.io", Resource: "priorityclasses", Purpose: "without the dry run"},
	}, state.StoragePermissions("for pods with volumes", "list")...),
	Examples: []verb.Example{
		{Description: "Where would it go, and why there?", Command: "kubectl berth try -f pod.yaml"},
		{Description: "Would 50 of them fit, were node n7 drained?", Command: "kubectl berth try -f deployment.yaml --replicas 50 --without-node n7"},
		{Description: "What would another profile do, before it is applied?", Command: "kubectl berth try -f pod.yaml --profile-file batch.yaml"},
	},
	OnSuccess: "every pod would find a node", OnFindings: "some would not",
}
