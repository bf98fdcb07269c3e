package architecture

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// A lock file without the packages of the other platforms builds the site on one machine
// alone: npm installs what the file holds, and a bundler without its binary does not run.
func TestTheSiteInstallsOnEveryPlatform(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "site", "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]struct {
			OptionalDependencies map[string]string
		}
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for name, p := range lock.Packages {
		for needs, version := range p.OptionalDependencies {
			asked++
			if _, is := lock.Packages["node_modules/"+needs]; !is {
				t.Errorf("site/package-lock.json: %s needs %s %s on some platform, and the file does not have it: "+
					"choose a version of which the registry has all, in site/package.json's overrides", name, needs, version)
			}
		}
	}
	if asked == 0 {
		t.Error("no package in site/package-lock.json differs by platform: is the file read right?")
	}
}
