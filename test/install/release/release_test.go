// Package release checks the files of a release, which `make release-snapshot` makes: go test
// ./test/install/release -args -release FOLDER. Without that flag there is nothing to check.
package release

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var folder = flag.String("release", "", "the `folder` with the files of a release")

// The most bytes that the programs may have. With all methods that nothing calls they had 76 MB
// and 80 MB: test/architecture says why the linker kept these, and .goreleaser.yaml how the
// manager does without.
const (
	maxPluginSize  = 60_000_000
	maxManagerSize = 66_000_000
)

func releaseFolder(t *testing.T) string {
	t.Helper()
	if *folder == "" {
		t.Skip("no -release")
	}
	return *folder
}

// checksums returns the SHA-256 of each file of the release, by its name.
func checksums(t *testing.T) map[string]string {
	t.Helper()
	file, err := os.Open(filepath.Join(releaseFolder(t), "checksums.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	sums := map[string]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		sum, name, is := strings.Cut(lines.Text(), "  ")
		if !is {
			t.Fatalf("checksums.txt: %q is not a checksum and a name", lines.Text())
		}
		sums[name] = sum
	}
	return sums
}

// The files that GoReleaser did not make are in the folder above.
func TestTheChecksumsAreThoseOfTheFiles(t *testing.T) {
	sums := checksums(t)
	var archives, documents, installs int
	for name, want := range sums {
		text, err := os.ReadFile(filepath.Join(releaseFolder(t), name))
		if errors.Is(err, os.ErrNotExist) {
			text, err = os.ReadFile(filepath.Join(releaseFolder(t), "..", name))
		}
		if err != nil {
			t.Error(err)
			continue
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(text)); got != want {
			t.Errorf("%s: SHA-256 is %s, checksums.txt has %s", name, got, want)
		}
		switch {
		case strings.HasSuffix(name, ".cdx.json"):
			documents++
		case strings.HasPrefix(name, "kubectl-berth_") || strings.HasPrefix(name, "berth-manager_"):
			archives++
		default:
			installs++
		}
	}
	// Two manifests, the chart, the bundle and the catalog.
	if archives != 7 || documents != 7 || installs != 5 {
		t.Errorf("checksums.txt has %d archives, %d SBOMs and %d files that install, want 7, 7 and 5: %v", archives, documents, installs, sums)
	}
}

// TestTheManifestOfKrew checks what krew's own validator does not: it reads no archive.
func TestTheManifestOfKrew(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(releaseFolder(t), "krew", "berth.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Version   string
			Platforms []struct {
				URI, Sha256, Bin string
				Selector         struct{ MatchLabels map[string]string }
				Files            []struct{ From, To string }
			}
		}
	}
	if err := yaml.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	sums := checksums(t)
	var platforms []string
	for _, platform := range manifest.Spec.Platforms {
		goos, goarch := platform.Selector.MatchLabels["os"], platform.Selector.MatchLabels["arch"]
		platforms = append(platforms, goos+"/"+goarch)
		name := path.Base(platform.URI)
		if !strings.Contains(name, "_"+goos+"_"+goarch) || !strings.Contains(name, strings.TrimPrefix(manifest.Spec.Version, "v")) {
			t.Errorf("%s/%s: the archive is %s", goos, goarch, name)
		}
		if platform.Sha256 == "" || sums[name] != platform.Sha256 {
			t.Errorf("%s: the manifest has SHA-256 %q, checksums.txt has %q", name, platform.Sha256, sums[name])
		}
		binary := unpack(t, name)[platform.Bin]
		if len(binary) == 0 {
			t.Errorf("%s has no file %s, which the manifest names", name, platform.Bin)
		}
		if len(binary) > maxPluginSize {
			t.Errorf("%s: %s has %d bytes, at most %d are allowed", name, platform.Bin, len(binary), maxPluginSize)
		}
	}
	slices.Sort(platforms)
	if want := []string{"darwin/amd64", "darwin/arm64", "linux/amd64", "linux/arm64", "windows/amd64"}; !slices.Equal(platforms, want) {
		t.Errorf("the manifest has platforms %v, want %v", platforms, want)
	}
}

func TestTheManagersAreSmall(t *testing.T) {
	for name := range checksums(t) {
		if !strings.HasPrefix(name, "berth-manager_") || strings.HasSuffix(name, ".cdx.json") {
			continue
		}
		if size := len(unpack(t, name)["manager"]); size == 0 || size > maxManagerSize {
			t.Errorf("%s: the manager has %d bytes, at most %d are allowed", name, size, maxManagerSize)
		}
	}
}

// The plugin of this platform runs as it was unpacked.
func TestTheArchiveOfThisPlatform(t *testing.T) {
	var archive string
	for name := range checksums(t) {
		if strings.HasPrefix(name, "kubectl-berth_") && strings.Contains(name, "_"+runtime.GOOS+"_"+runtime.GOARCH+".") {
			archive = name
		}
	}
	if archive == "" {
		t.Skipf("the release has no plugin for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	content := unpack(t, archive)
	if len(content["LICENSE"]) == 0 {
		t.Errorf("%s has no LICENSE", archive)
	}
	plugin := filepath.Join(t.TempDir(), "kubectl-berth")
	if err := os.WriteFile(plugin, content["kubectl-berth"], 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) []byte {
		t.Helper()
		out, err := exec.Command(plugin, args...).Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return out
	}
	var versions struct{ Plugin string }
	if err := json.Unmarshal(run("version", "--client", "-o", "json"), &versions); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(archive, "_"+versions.Plugin+"_") {
		t.Errorf("the plugin in %s says that its version is %s", archive, versions.Plugin)
	}
	profile := filepath.Join(t.TempDir(), "profile.yaml")
	if err := os.WriteFile(profile, []byte("{apiVersion: berth.dev/v1alpha1, kind: SchedulingProfile, metadata: {name: shop}, spec: {}}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := string(run("lint", "--offline", "-f", profile)); !strings.Contains(out, "SchedulingProfile/shop is valid") {
		t.Errorf("lint prints %s", out)
	}
}

// unpack returns the files of an archive of the release, by name.
func unpack(t *testing.T, name string) map[string][]byte {
	t.Helper()
	file := filepath.Join(releaseFolder(t), name)
	files := map[string][]byte{}
	if strings.HasSuffix(name, ".zip") {
		archive, err := zip.OpenReader(file)
		if err != nil {
			t.Fatal(err)
		}
		defer archive.Close()
		for _, entry := range archive.File {
			content, err := entry.Open()
			if err != nil {
				t.Fatal(err)
			}
			if files[entry.Name], err = io.ReadAll(content); err != nil {
				t.Fatal(err)
			}
		}
		return files
	}
	open, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	unzipped, err := gzip.NewReader(open)
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(unzipped); ; {
		entry, err := archive.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[entry.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}
