package decisions

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/plugin"
)

const unschedulableMessage = "0/500 nodes are available: 480 Insufficient cpu, 20 node(s) had untolerated taint(s). preemption: 0/500 nodes are available."

func bound(ago time.Duration, pod, node string) v1alpha1.RecentDecision {
	return v1alpha1.RecentDecision{Time: plugin.Ago(ago), Namespace: "shop", Pod: pod, Result: "Bound", Node: node, Generation: 6, Hash: "9f3c1a2b4d"}
}

func unschedulable(ago time.Duration, pod string) v1alpha1.RecentDecision {
	return v1alpha1.RecentDecision{Time: plugin.Ago(ago), Namespace: "default", Pod: pod, Result: "Unschedulable", Generation: 6, Hash: "9f3c1a2b4d", Message: unschedulableMessage}
}

func testProfiles() []client.Object {
	batch, web, quiet := plugin.Profile("batch", 6), plugin.Profile("web", 1), plugin.Profile("quiet", 1)
	batch.Status.RecentDecisions = []v1alpha1.RecentDecision{bound(2*time.Second, "web-1-x2x8k", "n17"), unschedulable(5*time.Second, "web-2"), bound(13*time.Hour, "old", "n3")}
	batch.Status.OmittedDecisions = 981
	web.Status.RecentDecisions = []v1alpha1.RecentDecision{bound(4*time.Second, "front", "n1")}
	quiet.Spec.Decisions.History = new(int32)
	quiet.Status.OmittedDecisions = 7
	return []client.Object{batch, web, quiet}
}

func TestDecisions(t *testing.T) {
	for sentence, c := range map[string]struct {
		objects   []client.Object
		args      []string
		namespace string
	}{
		"of all profiles, newest first":   {objects: testProfiles()},
		"those that failed":               {objects: testProfiles(), args: []string{"--failed"}},
		"of one profile, in full":         {objects: testProfiles(), args: []string{"--profile", "batch", "-o", "wide"}},
		"of one namespace":                {objects: testProfiles(), namespace: "shop"},
		"as JSON":                         {objects: testProfiles(), args: []string{"--profile", "web", "-o", "json"}},
		"none as YAML":                    {args: []string{"-o", "yaml"}},
		"there is none":                   {objects: []client.Object{plugin.Profile("web", 1)}},
		"of a profile that is misspelled": {objects: testProfiles(), args: []string{"--profile", "wbe"}},
		"a format that is none":           {args: []string{"-o", "name"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			stage := plugin.New(t, c.objects...)
			if c.namespace != "" {
				stage.Namespace, stage.NamespaceGiven = c.namespace, true
			}
			plugin.Golden(t, sentence, stage.Run(New, c.args...), strings.Contains(sentence, "in full"))
		})
	}
}

func TestAWatchPrintsNewDecisions(t *testing.T) {
	stage := plugin.New(t, testProfiles()...)
	await := stage.Watch(New, "--watch")
	await("web-1-x2x8k")
	p, err := stage.Profile(t.Context(), "batch")
	if err != nil {
		t.Fatal(err)
	}
	was := p.Status.RecentDecisions
	p.Status.RecentDecisions = []v1alpha1.RecentDecision{bound(0, "third", "n9"), unschedulable(time.Second, "second"), was[0]}
	p.Status.OmittedDecisions += 2 // which two of those that were known are now
	if err := stage.Client.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	await("third")
	p.Status.RecentDecisions = []v1alpha1.RecentDecision{bound(0, "ninth", "n9")}
	p.Status.OmittedDecisions += 7
	if err := stage.Client.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	plugin.Golden(t, "a watch", await("ninth"), false)
}
