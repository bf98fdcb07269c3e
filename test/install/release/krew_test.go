package release

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"
)

// krewManifest is a manifest of krew's schema, krew.googlecontainertools.github.com/v1alpha2,
// with all fields that krew knows.
type krewManifest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string         `json:"version"`
		ShortDescription string         `json:"shortDescription"`
		Description      string         `json:"description"`
		Caveats          string         `json:"caveats"`
		Homepage         string         `json:"homepage"`
		Platforms        []krewPlatform `json:"platforms"`
	} `json:"spec"`
}

type krewPlatform struct {
	URI      string `json:"uri"`
	Sha256   string `json:"sha256"`
	Bin      string `json:"bin"`
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	Files []struct {
		From string `json:"from"`
		To   string `json:"to"`
	} `json:"files"`
}

func (p krewPlatform) os() string   { return p.Selector.MatchLabels["os"] }
func (p krewPlatform) arch() string { return p.Selector.MatchLabels["arch"] }

func krewManifestFile(t *testing.T) string {
	return filepath.Join(releaseFolder(t), "krew", "berth.yaml")
}

// readKrewManifest fails for a field that krew does not know: krew ignores it.
func readKrewManifest(t *testing.T) krewManifest {
	t.Helper()
	text, err := os.ReadFile(krewManifestFile(t))
	if err != nil {
		t.Fatal(err)
	}
	var manifest krewManifest
	if err := yaml.UnmarshalStrict(text, &manifest); err != nil {
		t.Fatal(err)
	}
	return manifest
}

// TestTheManifestOfKrew checks what krew's own validator does not: it reads no archive.
func TestTheManifestOfKrew(t *testing.T) {
	manifest, sums := readKrewManifest(t), checksums(t)
	if manifest.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || manifest.Kind != "Plugin" || manifest.Metadata.Name != "berth" {
		t.Errorf("the manifest is a %s of %s with the name %s", manifest.Kind, manifest.APIVersion, manifest.Metadata.Name)
	}
	var platforms []string
	for _, platform := range manifest.Spec.Platforms {
		platforms = append(platforms, platform.os()+"/"+platform.arch())
		name := path.Base(platform.URI)
		parts := archiveName.FindStringSubmatch(name)
		if parts == nil || parts[2] != manifest.Spec.Version || parts[3] != platform.os() || parts[4] != platform.arch() {
			t.Errorf("%s/%s of version %s: the archive is %s", platform.os(), platform.arch(), manifest.Spec.Version, name)
		}
		if platform.Sha256 == "" || sums[name] != platform.Sha256 {
			t.Errorf("%s: the manifest has SHA-256 %q, checksums.txt has %q", name, platform.Sha256, sums[name])
		}
		if len(unpack(t, name)[platform.Bin]) == 0 {
			t.Errorf("%s has no file %s, which the manifest names", name, platform.Bin)
		}
	}
	slices.Sort(platforms)
	if want := []string{"darwin/amd64", "darwin/arm64", "linux/amd64", "linux/arm64", "windows/amd64"}; !slices.Equal(platforms, want) {
		t.Errorf("the manifest has platforms %v, want %v", platforms, want)
	}
}

// TestKrewInstallsThePlugin has krew install each platform's archive, as it does on a machine of
// that platform, but for the download, and starts the plugin of this platform.
func TestKrewInstallsThePlugin(t *testing.T) {
	manifest := readKrewManifest(t)
	if *krew == "" {
		t.Skip("no -krew")
	}
	for _, platform := range manifest.Spec.Platforms {
		archive := path.Base(platform.URI)
		t.Run(platform.os()+"/"+platform.arch(), func(t *testing.T) {
			dir := t.TempDir()
			install := exec.Command(*krew, "install", "--manifest="+krewManifestFile(t), "--archive="+filepath.Join(releaseFolder(t), archive))
			install.Env = append(os.Environ(), "KREW_ROOT="+dir, "KREW_OS="+platform.os(), "KREW_ARCH="+platform.arch(), "KREW_NO_UPGRADE_CHECK=1")
			if out, err := install.CombinedOutput(); err != nil {
				t.Fatalf("krew install: %v\n%s", err, out)
			}
			store := filepath.Join(dir, "store", "berth", manifest.Spec.Version)
			for _, name := range []string{platform.Bin, "LICENSE"} {
				installed, err := os.ReadFile(filepath.Join(store, name))
				if err != nil || !bytes.Equal(installed, unpack(t, archive)[name]) {
					t.Errorf("%s (%v) is not that of %s", name, err, archive)
				}
			}
			// What krew puts on the PATH.
			if platform.os() == runtime.GOOS && platform.arch() == runtime.GOARCH {
				expectPlugin(t, []string{filepath.Join(dir, "bin", platform.Bin)}, manifest.Spec.Version)
			}
		})
	}
}

// TestKrewRefusesAnotherArchive shows that krew compares the checksum of what it installs.
func TestKrewRefusesAnotherArchive(t *testing.T) {
	platform := readKrewManifest(t).Spec.Platforms[0]
	if *krew == "" {
		t.Skip("no -krew")
	}
	content, err := os.ReadFile(filepath.Join(releaseFolder(t), path.Base(platform.URI)))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	changed := filepath.Join(dir, path.Base(platform.URI))
	if err := os.WriteFile(changed, append(content, 0), 0o644); err != nil {
		t.Fatal(err)
	}
	install := exec.Command(*krew, "install", "--manifest="+krewManifestFile(t), "--archive="+changed)
	install.Env = append(os.Environ(), "KREW_ROOT="+dir, "KREW_OS="+platform.os(), "KREW_ARCH="+platform.arch(), "KREW_NO_UPGRADE_CHECK=1")
	out, err := install.CombinedOutput()
	if want := fmt.Sprintf("checksum does not match, want: %s", platform.Sha256); err == nil || !bytes.Contains(out, []byte(want)) {
		t.Errorf("krew install: %v\n%s\nwant that it says %q", err, out, want)
	}
}
