package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	internal "k8s.io/kubernetes/pkg/scheduler/apis/config"
	upstreamplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/upstreamconfig"
	"github.com/berthdev/berth/test/exactness/oracle/compare"
	"github.com/berthdev/berth/test/exactness/oracle/upstream"
	"github.com/berthdev/berth/test/replay/generate"
	"github.com/berthdev/berth/test/replay/run"
)

var (
	conversions = flag.Int("conversions", 1000, "number of generated configurations that are converted there and back")
	histories   = flag.Int("histories", 100, "number of them that also decide a history")
)

// perConversion is the number of attempts in each of those histories.
const perConversion = 30

// A kube-scheduler configuration that is converted to profiles and back runs the same plugins
// with the same weights and arguments, and the profiles decide as kube-scheduler does with the
// first file.
func TestConversionsThereAndBack(t *testing.T) {
	var profiles, decisions int
	for i := range *conversions {
		seed := *firstSeed + uint64(i)
		config, generators := randomConfiguration(t, seed)
		text, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		read, err := upstreamconfig.FromConfiguration(text, upstreamconfig.Options{Registry: plugins.InTree(), Inline: seed%4 == 0})
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		if lost := upstreamconfig.LostRemarks(read.Remarks); len(lost) > 0 {
			t.Fatalf("seed %d: %v is lost\n%s", seed, lost, text)
		}
		first := readUpstream(t, seed, text)
		second := readUpstream(t, seed, convertBack(t, seed, read))
		for j := range first.Profiles {
			compareProfiles(t, seed, &first.Profiles[j], &second.Profiles[j], text)
			profiles++
			if i >= *histories {
				continue
			}
			decisions += perConversion
			compareConverted(t, seed, &first.Profiles[j], run.Config{Profile: read.Profiles[j], Configs: configsOf(read)}, generators[j])
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d configurations with %d profiles there and back, %d decisions by those of %d", *conversions, profiles, decisions, min(*histories, *conversions))
}

// randomConfiguration returns a configuration of one to three profiles, with a history for
// each.
func randomConfiguration(t *testing.T, seed uint64) (*configv1.KubeSchedulerConfiguration, []*generate.Generator) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	config := &configv1.KubeSchedulerConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: configv1.SchemeGroupVersion.String(), Kind: upstreamconfig.Kind},
	}
	var generators []*generate.Generator
	for i := range 1 + random.IntN(3) {
		generator := generate.New(seed*4+uint64(i), perConversion)
		made := generator.Config()
		if i > 0 && !keepsQueueSort(made) { // kube-scheduler has one QueueSort for all profiles
			continue
		}
		profile, err := upstream.V1Profile(made)
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprint("generated-", i)
		profile.SchedulerName = &name
		if profile.PercentageOfNodesToScore != nil && *profile.PercentageOfNodesToScore == 0 && random.IntN(2) == 0 {
			profile.PercentageOfNodesToScore = nil
		}
		config.Profiles = append(config.Profiles, *profile)
		generators = append(generators, generator)
		if !keepsQueueSort(made) {
			break
		}
	}
	for _, chance := range []func(){
		func() { n := int32(1 + random.IntN(100)); config.PercentageOfNodesToScore = &n },
		func() { n := int64(1 + random.IntN(5)); config.PodInitialBackoffSeconds = &n },
		func() { n := int64(5 + random.IntN(50)); config.PodMaxBackoffSeconds = &n },
		func() { n := int32(1 + random.IntN(32)); config.Parallelism = &n },
	} {
		if random.IntN(2) == 0 {
			chance()
		}
	}
	return config, generators
}

// keepsQueueSort says whether a profile has the default QueueSort.
func keepsQueueSort(config run.Config) bool {
	spec := config.Profile.Spec
	if spec.Base == v1alpha1.BaseNone {
		return false
	}
	if spec.Plugins == nil {
		return true
	}
	queueSort := spec.Plugins.QueueSort
	return len(queueSort.Enabled)+len(queueSort.Disabled) == 0
}

// readUpstream reads a configuration as kube-scheduler does, and sets each profile's
// percentageOfNodesToScore.
func readUpstream(t *testing.T, seed uint64, text []byte) *internal.KubeSchedulerConfiguration {
	t.Helper()
	read, err := upstream.Read(text)
	if err != nil {
		t.Fatalf("seed %d: kube-scheduler refuses it: %v\n%s", seed, err, text)
	}
	for i := range read.Profiles {
		if read.Profiles[i].PercentageOfNodesToScore == nil {
			read.Profiles[i].PercentageOfNodesToScore = read.PercentageOfNodesToScore
		}
	}
	return read
}

// convertBack writes profiles as one configuration.
func convertBack(t *testing.T, seed uint64, read *upstreamconfig.Result) []byte {
	t.Helper()
	var blueprints []*compile.Blueprint
	for _, p := range read.Profiles {
		b, rejection := compile.Profile(compile.Input{Profile: p, Configs: configsOf(read), Registry: plugins.InTree()})
		if rejection != nil {
			t.Fatalf("seed %d: %s", seed, rejection.Message())
		}
		blueprints = append(blueprints, b)
	}
	config, remarks, err := upstreamconfig.ForKubeScheduler(blueprints, plugins.InTree())
	if err != nil || len(upstreamconfig.LostRemarks(remarks)) > 0 {
		t.Fatalf("seed %d: %v, remarks %v", seed, err, remarks)
	}
	text, err := upstreamconfig.JSON(config)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func configsOf(read *upstreamconfig.Result) map[string]*v1alpha1.PluginConfig {
	configs := map[string]*v1alpha1.PluginConfig{}
	for _, c := range read.Configs {
		configs[c.Name] = c
	}
	return configs
}

// compareProfiles compares what kube-scheduler runs for two profiles.
func compareProfiles(t *testing.T, seed uint64, first, second *internal.KubeSchedulerProfile, text []byte) {
	t.Helper()
	type effect struct {
		Chains     framework.Chains
		Percentage int32
		Args       map[string]any
	}
	of := func(p *internal.KubeSchedulerProfile) effect {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel() // thousands of running schedulers would slow each other down
		s, err := upstream.NewForProfile(ctx, p, run.Config{})
		if err != nil {
			t.Fatalf("seed %d: kube-scheduler does not start: %v\n%s", seed, err, text)
		}
		e := effect{Chains: s.Chains(), Percentage: *p.PercentageOfNodesToScore, Args: map[string]any{}}
		for _, chain := range e.Chains {
			for _, entry := range chain {
				if at := slices.IndexFunc(p.PluginConfig, func(c internal.PluginConfig) bool { return c.Name == entry.Name }); at >= 0 {
					e.Args[entry.Name] = p.PluginConfig[at].Args
				}
			}
		}
		return e
	}
	if diff := cmp.Diff(of(first), of(second)); diff != "" {
		pretty, _ := yaml.JSONToYAML(text)
		t.Errorf("seed %d, profile %s: what runs (-before,+after):\n%s%s", seed, first.SchedulerName, diff, pretty)
	}
}

// compareConverted decides a history twice: kube-scheduler with the first file, Berth with the
// profile that it was converted to.
func compareConverted(t *testing.T, seed uint64, profile *internal.KubeSchedulerProfile, config run.Config, generator *generate.Generator) {
	t.Helper()
	config.Reference, config.Opaque = modeOf(seed)
	difference, err := compare.RunWithProfile(profile, config, source{generator}, compare.NewCoverage())
	if err != nil {
		t.Errorf("seed %d, profile %s: %v", seed, config.Profile.Name, err)
	} else if difference != nil {
		t.Errorf("seed %d, profile %s, op %d:\n%v", seed, config.Profile.Name, difference.Op, difference)
	}
}

func TestUpstreamPluginsAreKubeSchedulers(t *testing.T) {
	var want []string
	for name := range upstreamplugins.NewInTreeRegistry() {
		want = append(want, name)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, upstreamconfig.UpstreamPlugins()); diff != "" {
		t.Errorf("kube-scheduler's plugins (-registry,+table):\n%s", diff)
	}
}
