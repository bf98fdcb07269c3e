package record

import (
	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/state"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// Verb describes it.
var Verb = verb.Verb{
	Name: "record", Arguments: "LOG.jsonl [--profile NAME] [--for DURATION] [--pods N] [--node-order FILE] [--profile-out FILE]",
	Short: "Write down what is decided, so that it can be decided again",
	Long: `Lists what schedulers read, then watches, and writes a log of it: the state, and then
each change and each decision of the profile, in the order in which Berth met them.
The profile that runs is written beside it, arguments inline. Both are what a replay
takes, without a cluster:

  go run ./test/replay --profile LOG.jsonl.profile.yaml LOG.jsonl

The order is that of the annotation berth.dev/decision: it has the number of the
attempt, where its walk over the nodes started, and how far Berth had come by then in
what the API server tells of nodes and pods. Pods that another profile or scheduler
bound, that another generation decided about, or whose annotation is missing or was
decided about before the record's first decision, take their room and are not decided again.

What cannot be seen from outside is not in the log: attempts that were refused (but
where the next walk starts after them is), room that was held by a pod that was
not bound after all, and room that is promised between the promise and the pod's
status that tells of it. The order in which nodes are tried is found out with the help of
a checksum; where none of the likely orders has it, nothing is recorded, and --node-order
takes it from the process that decides: what its /debug/berth/order says. What may not
be read is named, with what that means. Commands, arguments, environments and
probes of containers are left out, since nothing reads them to decide.

It ends after --for, after --pods, or with ^C, and writes the log then; where nothing was
decided meanwhile that can be decided again, that is an error, and there is no log. When another
leader takes over, the log ends with the last decision of the one before.`,
	Permissions: append([]verb.Permission{
		{Verbs: []string{"list", "watch"}, Resource: "nodes"},
		{Verbs: []string{"list", "watch"}, Resource: "pods"},
		{Verbs: []string{"list"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "controllerrevisions", Scope: verb.InBerthNamespace, Purpose: "for what runs, rather than what is written"},
		{Verbs: []string{"get"}, Group: v1alpha1.GroupVersion.Group, Resource: "pluginconfigs", Purpose: "where no revision says the arguments"},
		{Verbs: []string{"list", "watch"}, Resource: "namespaces", Purpose: "for namespaceSelectors"},
		{Verbs: []string{"list", "watch"}, Resource: "services", Purpose: "for default spreading"},
		{Verbs: []string{"list", "watch"}, Resource: "replicationcontrollers", Purpose: "for default spreading"},
		{Verbs: []string{"list", "watch"}, Group: "apps", Resource: "replicasets", Purpose: "for default spreading"},
		{Verbs: []string{"list", "watch"}, Group: "apps", Resource: "statefulsets", Purpose: "for default spreading"},
		{Verbs: []string{"list", "watch"}, Group: "policy", Resource: "poddisruptionbudgets", Purpose: "for preemption"},
		{Verbs: []string{"list", "watch"}, Group: "resource.k8s.io", Resource: "deviceclasses", Purpose: "for resources that devices back"},
	}, state.StoragePermissions("for pods with volumes", "list", "watch")...),
	Examples: []verb.Example{
		{Description: "The next ten minutes", Command: "kubectl berth record day.jsonl --for 10m"},
		{Description: "The next 500 pods of one profile", Command: "kubectl berth record batch.jsonl --profile batch --pods 500"},
	},
	OnSuccess: "the log is written", OnFindings: "the log is written, and ends early or lacks something that decides: notes say what",
}
