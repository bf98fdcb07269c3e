package run

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
)

// Config says how a log is run.
type Config struct {
	Profile *v1alpha1.SchedulingProfile
	// Configs are the PluginConfigs that the profile may name.
	Configs map[string]*v1alpha1.PluginConfig
	// Explain asks for the scores of every node that was scored.
	Explain bool
	// Plain lets Berth ask every plugin about every node and look at every pod,
	// each time: the dumb twin of what is remembered and counted.
	Plain bool
	// Opaque are plugins whose word on what they read Berth does not get to
	// hear, so that it has to ask them every time.
	Opaque []string
	// Foreign are plugins of somebody else, beside those that are built in.
	Foreign []framework.Registration
	// Preempt lets PostFilter plugins run for pods that fit nowhere.
	Preempt bool
}

// DefaultProfile is kube-scheduler's.
func DefaultProfile() *v1alpha1.SchedulingProfile {
	return &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: "default-scheduler"}}
}

// ReadProfile reads YAML documents: a SchedulingProfile and PluginConfigs.
// Where there is no profile it is the default one. The error names the
// document and its field.
func ReadProfile(r io.Reader) (Config, error) {
	config := Config{Configs: map[string]*v1alpha1.PluginConfig{}}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(r))
	for i := 1; ; i++ {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = config.read(text)
		}
		if err != nil {
			return config, fmt.Errorf("document %d: %w", i, err)
		}
	}
	if config.Profile == nil {
		config.Profile = DefaultProfile()
	}
	return config, nil
}

func (c *Config) read(text []byte) error {
	var is metav1.TypeMeta
	if err := yaml.Unmarshal(text, &is); err != nil {
		return err
	}
	if is == (metav1.TypeMeta{}) {
		return nil // comments alone
	}
	if want := v1alpha1.GroupVersion.String(); is.APIVersion != want {
		return fmt.Errorf("apiVersion: must be %s, is %q", want, is.APIVersion)
	}
	switch is.Kind {
	case "SchedulingProfile":
		if c.Profile != nil {
			return fmt.Errorf("kind: there may be one SchedulingProfile, %s came before", c.Profile.Name)
		}
		c.Profile = &v1alpha1.SchedulingProfile{}
		return yaml.UnmarshalStrict(text, c.Profile)
	case "PluginConfig":
		var config v1alpha1.PluginConfig
		err := yaml.UnmarshalStrict(text, &config)
		c.Configs[config.Name] = &config
		return err
	}
	return fmt.Errorf("kind: must be SchedulingProfile or PluginConfig, is %q", is.Kind)
}
