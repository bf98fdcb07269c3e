package decisions

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/kubectltest"
)

const unschedulableMessage = "0/500 nodes are available: 480 Insufficient cpu, 20 node(s) had untolerated taint(s). preemption: 0/500 nodes are available."

func bound(ago time.Duration, pod, node string) v1alpha1.RecentDecision {
	return v1alpha1.RecentDecision{Time: kubectltest.Ago(ago), Namespace: "shop", Pod: pod, Result: "Bound", Node: node, Generation: 6, Hash: "9f3c1a2b4d"}
}

func unschedulable(ago time.Duration, pod string) v1alpha1.RecentDecision {
	return v1alpha1.RecentDecision{Time: kubectltest.Ago(ago), Namespace: "default", Pod: pod, Result: "Unschedulable", Generation: 6, Hash: "9f3c1a2b4d", Message: unschedulableMessage}
}

func testProfiles() []client.Object {
	batch, web, quiet := kubectltest.Profile("batch", 6), kubectltest.Profile("web", 1), kubectltest.Profile("quiet", 1)
	batch.Status.RecentDecisions = []v1alpha1.RecentDecision{bound(2*time.Second, "web-1-x2x8k", "n17"), unschedulable(5*time.Second, "web-2"), bound(13*time.Hour, "old", "n3")}
	batch.Status.OmittedDecisions = 981
	web.Status.RecentDecisions = []v1alpha1.RecentDecision{bound(4*time.Second, "front", "n1")}
	quiet.Spec.Decisions.History = new(int32)
	quiet.Status.OmittedDecisions = 7
	return []client.Object{batch, web, quiet}
}

func TestDecisions(t *testing.T) {
	for name, c := range map[string]struct {
		objects   []client.Object
		args      []string
		namespace string
	}{
		"of all profiles, newest first":      {objects: testProfiles()},
		"decisions that bound no pod":        {objects: testProfiles(), args: []string{"--failed"}},
		"of one profile, with full messages": {objects: testProfiles(), args: []string{"--profile", "batch", "-o", "wide"}},
		"of one namespace":                   {objects: testProfiles(), namespace: "shop"},
		"as JSON":                            {objects: testProfiles(), args: []string{"--profile", "web", "-o", "json"}},
		"none as YAML":                       {args: []string{"-o", "yaml"}},
		"no decisions":                       {objects: []client.Object{kubectltest.Profile("web", 1)}},
		"of a profile that is misspelled":    {objects: testProfiles(), args: []string{"--profile", "wbe"}},
		"an unsupported format":              {args: []string{"-o", "name"}},
	} {
		t.Run(name, func(t *testing.T) {
			env := kubectltest.New(t, c.objects...)
			if c.namespace != "" {
				env.Namespace, env.NamespaceGiven = c.namespace, true
			}
			kubectltest.Golden(t, name, env.Run(New, c.args...), strings.Contains(name, "full messages"))
		})
	}
}

func TestAWatchPrintsNewDecisions(t *testing.T) {
	env := kubectltest.New(t, testProfiles()...)
	await := env.Watch(New, "--watch")
	await("web-1-x2x8k")
	p, err := env.Profile(t.Context(), "batch")
	if err != nil {
		t.Fatal(err)
	}
	was := p.Status.RecentDecisions
	p.Status.RecentDecisions = []v1alpha1.RecentDecision{bound(0, "third", "n9"), unschedulable(time.Second, "second"), was[0]}
	p.Status.OmittedDecisions += 2 // two of the known decisions are left out now
	if err := env.Client.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	await("third")
	p.Status.RecentDecisions = []v1alpha1.RecentDecision{bound(0, "ninth", "n9")}
	p.Status.OmittedDecisions += 7
	if err := env.Client.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	kubectltest.Golden(t, "a watch", await("ninth"), false)
}
