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

// profileName is the schedulerName of the pods.
const profileName = "shop"

//go:embed manifests/profile.yaml
var profileManifest []byte

// Merge patches of the profile.
const (
	patchSpread     = `{"spec":{"pluginConfig":[{"name":"NodeResourcesFit","configRef":{"name":"spread"}}]}}`
	patchPack       = `{"spec":{"pluginConfig":[{"name":"NodeResourcesFit","configRef":{"name":"pack"}}]}}`
	patchMisspelled = `{"spec":{"plugins":{"score":{"enabled":[{"name":"NodeResourceFit"}]}}}}`
	patchCorrected  = `{"spec":{"plugins":{"score":{"enabled":[{"name":"NodeResourcesFit"}]}}}}`
	rejectedField   = "spec.plugins.score.enabled[0].name"
)

// profile has the fields of a SchedulingProfile that the demo reads.
type profile struct {
	Metadata struct {
		Generation int64 `json:"generation"`
	} `json:"metadata"`
	Spec struct {
		PluginConfig []struct {
			ConfigRef struct {
				Name string `json:"name"`
			} `json:"configRef"`
		} `json:"pluginConfig"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
		Programmed struct {
			Generation int64  `json:"generation"`
			Hash       string `json:"hash"`
		} `json:"programmed"`
		Queue struct {
			Pending int `json:"pending"`
		} `json:"queue"`
		Totals struct {
			Bound int `json:"bound"`
		} `json:"totals"`
		RecentDecisions []struct {
			Pod     string `json:"pod"`
			Result  string `json:"result"`
			Message string `json:"message"`
		} `json:"recentDecisions"`
	} `json:"status"`
}

// pluginConfig has the fields of a PluginConfig that the demo reads.
type pluginConfig struct {
	Metadata struct {
		Generation int64 `json:"generation"`
	} `json:"metadata"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// readObject gets one of Berth's cluster-scoped objects.
func (s *demo) readObject(ctx context.Context, into any, resource, name string) error {
	path := "/apis/berth.dev/v1alpha1/" + resource + "/" + name
	raw, err := s.cp.Client().Discovery().RESTClient().Get().AbsPath(path).DoRaw(ctx)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

func (s *demo) profile(ctx context.Context) (profile, error) {
	var p profile
	err := s.readObject(ctx, &p, "schedulingprofiles", profileName)
	return p, err
}

// missingCondition says which of the wanted conditions is not True for generation; empty for
// none.
func missingCondition(conditions []metav1.Condition, generation int64, wanted ...string) string {
	for _, want := range wanted {
		c := meta.FindStatusCondition(conditions, want)
		switch {
		case c == nil:
			return "condition " + want
		case c.ObservedGeneration != generation:
			return fmt.Sprintf("condition %s for generation %d: it is for generation %d", want, generation, c.ObservedGeneration)
		case c.Status != metav1.ConditionTrue:
			return fmt.Sprintf("condition %s: it is %s, %s: %s", want, c.Status, c.Reason, c.Message)
		}
	}
	return ""
}

// missing says what the profile lacks to run its current spec; empty for nothing.
func (p profile) missing() string {
	generation := p.Metadata.Generation
	if l := missingCondition(p.Status.Conditions, generation, "Accepted", "ResolvedRefs", "Programmed", "Ready"); l != "" {
		return l
	}
	if runs := p.Status.Programmed.Generation; runs != generation {
		return fmt.Sprintf("running generation %d: generation %d is running", generation, runs)
	}
	return ""
}

// waitForProfile waits until the profile and its PluginConfigs are running their current
// specs, and returns the profile.
func (s *demo) waitForProfile(ctx context.Context) (profile, error) {
	var p profile
	err := s.poll(ctx, func() (lacking string, err error) {
		p, err = s.profile(ctx)
		if err != nil || p.missing() != "" {
			return p.missing(), err
		}
		for _, named := range p.Spec.PluginConfig {
			var c pluginConfig
			if err := s.readObject(ctx, &c, "pluginconfigs", named.ConfigRef.Name); err != nil {
				return "", err
			}
			if l := missingCondition(c.Status.Conditions, c.Metadata.Generation, "Accepted", "Programmed"); l != "" {
				return "PluginConfig " + named.ConfigRef.Name + ": " + l, nil
			}
		}
		return "", nil
	})
	return p, err
}

// showTables prints the tables of kubectl get once they agree with the pods: all bound pods
// are counted, and pending pods are pending.
func (s *demo) showTables(ctx context.Context, pending int, flags ...string) error {
	err := s.poll(ctx, func() (string, error) {
		p, err := s.profile(ctx)
		if p.Status.Totals.Bound == s.boundPods && p.Status.Queue.Pending == pending {
			return "", err
		}
		return fmt.Sprintf("a status with %d bound and %d pending pods: it has %d and %d",
			s.boundPods, pending, p.Status.Totals.Bound, p.Status.Queue.Pending), err
	})
	if err != nil {
		return err
	}
	return s.kubectl(ctx, append([]string{"get", "sprof,plugcfg"}, flags...)...)
}

func (s *demo) patchProfile(ctx context.Context, patch string) error {
	return s.kubectl(ctx, "patch", "sprof", profileName, "--type=merge", "--patch", patch)
}

func (s *demo) applyProfile(ctx context.Context) error {
	if _, err := s.cp.Kubectl(ctx, bytes.NewReader(profileManifest), "apply", "--server-side", "-f", "-"); err != nil {
		return err
	}
	s.printf("$ kubectl apply -f demo/manifests/profile.yaml")
	if _, err := s.waitForProfile(ctx); err != nil {
		return err
	}
	return s.showTables(ctx, 0)
}

func (s *demo) switchToPack(ctx context.Context) error {
	before, err := s.profile(ctx)
	if err != nil {
		return err
	}
	if err := s.patchProfile(ctx, patchPack); err != nil {
		return err
	}
	after, err := s.waitForProfile(ctx)
	if err != nil {
		return err
	}
	if after.Status.Programmed.Hash == before.Status.Programmed.Hash {
		return fmt.Errorf("hash %s is running, as before the change", after.Status.Programmed.Hash)
	}
	s.printf("generation %d (%s) is running instead of %d (%s); no process was restarted",
		after.Metadata.Generation, after.Status.Programmed.Hash, before.Metadata.Generation, before.Status.Programmed.Hash)
	return s.showTables(ctx, 0)
}
