package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// profileName is the name that the demo's pods carry as schedulerName.
const profileName = "shop"

//go:embed manifests/profile.yaml
var profileManifest []byte

// The changes that the story makes to the profile, as merge patches.
const (
	useSpread   = `{"spec":{"pluginConfig":[{"name":"NodeResourcesFit","configRef":{"name":"spread"}}]}}`
	usePack     = `{"spec":{"pluginConfig":[{"name":"NodeResourcesFit","configRef":{"name":"pack"}}]}}`
	misspelt    = `{"spec":{"plugins":{"score":{"enabled":[{"name":"NodeResourceFit"}]}}}}`
	spelt       = `{"spec":{"plugins":{"score":{"enabled":[{"name":"NodeResourcesFit"}]}}}}`
	faultyField = "spec.plugins.score.enabled[0].name"
)

// profile is what the demo reads of a SchedulingProfile: what any client sees.
type profile struct {
	Metadata struct {
		Generation int64 `json:"generation"`
	} `json:"metadata"`
	Status struct {
		ObservedGeneration int64              `json:"observedGeneration"`
		Conditions         []metav1.Condition `json:"conditions"`
		Programmed         struct {
			Generation int64  `json:"generation"`
			Hash       string `json:"hash"`
		} `json:"programmed"`
		Queue struct {
			Pending int64 `json:"pending"`
		} `json:"queue"`
		Totals struct {
			Bound    int64 `json:"bound"`
			Refusals int64 `json:"refusals"`
		} `json:"totals"`
	} `json:"status"`
}

func (s *stage) profile(ctx context.Context) (profile, error) {
	var p profile
	path := "/apis/berth.dev/v1alpha1/schedulingprofiles/" + profileName
	raw, err := s.cp.Client().Discovery().RESTClient().Get().AbsPath(path).DoRaw(ctx)
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(raw, &p)
}

// lacks says what the profile lacks to run exactly as written; "" is nothing.
func (p profile) lacks() string {
	for _, want := range []string{"Accepted", "ResolvedRefs", "Programmed", "Ready"} {
		c := meta.FindStatusCondition(p.Status.Conditions, want)
		switch {
		case c == nil:
			return "condition " + want
		case c.ObservedGeneration != p.Metadata.Generation:
			return fmt.Sprintf("condition %s for generation %d, it speaks of %d", want, p.Metadata.Generation, c.ObservedGeneration)
		case c.Status != metav1.ConditionTrue:
			return fmt.Sprintf("condition %s: it is %s, %s: %s", want, c.Status, c.Reason, c.Message)
		}
	}
	if runs := p.Status.Programmed.Generation; runs != p.Metadata.Generation {
		return fmt.Sprintf("generation %d, generation %d runs", p.Metadata.Generation, runs)
	}
	return ""
}

// untilRuns waits until the profile runs as written, and returns it.
func (s *stage) untilRuns(ctx context.Context) (profile, error) {
	var p profile
	err := s.until(ctx, func() (string, error) {
		var err error
		p, err = s.profile(ctx)
		return p.lacks(), err
	})
	return p, err
}

func (s *stage) patchProfile(ctx context.Context, patch string) error {
	return s.kubectl(ctx, "patch", "sprof", profileName, "--type=merge", "--patch", patch)
}

func (s *stage) applyProfile(ctx context.Context) error {
	if _, err := s.cp.Kubectl(ctx, bytes.NewReader(profileManifest), "apply", "--server-side", "-f", "-"); err != nil {
		return err
	}
	s.say("$ kubectl apply -f demo/manifests/profile.yaml")
	if _, err := s.untilRuns(ctx); err != nil {
		return err
	}
	return s.kubectl(ctx, "get", "sprof,plugcfg")
}

func (s *stage) switchToPack(ctx context.Context) error {
	before, err := s.profile(ctx)
	if err != nil {
		return err
	}
	if err := s.patchProfile(ctx, usePack); err != nil {
		return err
	}
	after, err := s.untilRuns(ctx)
	if err != nil {
		return err
	}
	if after.Status.Programmed.Hash == before.Status.Programmed.Hash {
		return fmt.Errorf("the profile runs as %s, as before the switch", after.Status.Programmed.Hash)
	}
	s.say("generation %d (%s) runs, in the place of %d (%s); no process was restarted",
		after.Metadata.Generation, after.Status.Programmed.Hash, before.Metadata.Generation, before.Status.Programmed.Hash)
	return s.kubectl(ctx, "get", "sprof,plugcfg")
}
