package release

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sbom has the fields of a CycloneDX document that the tests read.
type sbom struct {
	BOMFormat, SpecVersion string
	Metadata               struct {
		Component  struct{ Name, Version string }
		Properties []struct{ Name, Value string }
	}
	Components []struct{ Name, Version string }
}

// TestEachSBOMIsOfItsProgram compares each document with what Go's linker wrote into the program
// that it is about: the modules, their versions, and the version of Go.
func TestEachSBOMIsOfItsProgram(t *testing.T) {
	for _, p := range programs(t) {
		name := fmt.Sprintf("%s_%s_%s.cdx.json", p.name, p.os, p.arch)
		text, err := os.ReadFile(filepath.Join(releaseFolder(t), name))
		if err != nil {
			t.Error(err)
			continue
		}
		var document sbom
		if err := json.Unmarshal(text, &document); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		info, err := buildinfo.Read(bytes.NewReader(p.content))
		if err != nil {
			t.Errorf("%s: %v", p.archive, err)
			continue
		}
		if document.BOMFormat != "CycloneDX" || document.SpecVersion != "1.6" {
			t.Errorf("%s is a document of %s %s, want CycloneDX 1.6", name, document.BOMFormat, document.SpecVersion)
		}
		if got := document.Metadata.Component; got.Name != info.Main.Path || got.Version != p.version {
			t.Errorf("%s is about %s %s, want %s %s", name, got.Name, got.Version, info.Main.Path, p.version)
		}
		want := map[string]string{"std": info.GoVersion}
		for _, module := range info.Deps {
			if module.Replace != nil {
				module = module.Replace
			}
			want[module.Path] = module.Version
		}
		got := map[string]string{}
		for _, component := range document.Components {
			got[component.Name] = component.Version
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: modules (-program,+SBOM):\n%s", name, diff)
		}
		hash := fmt.Sprintf("%x", sha256.Sum256(p.content))
		if got := property(document, "cdx:gomod:binary:hash:SHA-256"); !strings.EqualFold(got, hash) {
			t.Errorf("%s is of a program with SHA-256 %q, that in %s has %s", name, got, p.archive, hash)
		}
	}
}

func property(document sbom, name string) string {
	for _, p := range document.Metadata.Properties {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}
