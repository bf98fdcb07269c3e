package compare

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/replay/run"
	"github.com/berthdev/berth/test/support/logs"
)

// Case is a history in which a difference was found: NAME.jsonl, and the profile in NAME.yaml.
type Case struct {
	Name   string
	Config run.Config
	Ops    []log.Op
}

// Save writes a case into dir.
func (c Case) Save(dir string) error {
	documents := []any{c.Config.Profile}
	for _, named := range c.Config.Configs {
		documents = append(documents, named)
	}
	var profile bytes.Buffer
	for _, document := range documents {
		text, err := yaml.Marshal(document)
		if err != nil {
			return err
		}
		profile.WriteString("---\n")
		profile.Write(text)
	}
	var ops bytes.Buffer
	if err := log.WriteAll(&ops, c.Ops); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, c.Name+".yaml"), profile.Bytes(), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, c.Name+".jsonl"), ops.Bytes(), 0o644)
}

// Load reads every case of dir.
func Load(dir string) ([]Case, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	var cases []Case
	for _, file := range files {
		c := Case{Name: strings.TrimSuffix(filepath.Base(file), ".jsonl")}
		if c.Ops, err = loadOps(file); err != nil {
			return nil, err
		}
		if c.Config, err = loadConfig(strings.TrimSuffix(file, ".jsonl") + ".yaml"); err != nil {
			return nil, err
		}
		cases = append(cases, c)
	}
	return cases, nil
}

func loadOps(file string) ([]log.Op, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return logs.ReadAll(f)
}

func loadConfig(file string) (run.Config, error) {
	f, err := os.Open(file)
	if err != nil {
		return run.Config{}, err
	}
	defer f.Close()
	return run.ReadProfile(f)
}
