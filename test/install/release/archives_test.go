package release

import (
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// The most bytes that the programs may have. With all methods that nothing calls they had 76 MB
// and 80 MB: test/architecture says why the linker kept these, and .goreleaser.yaml how the
// manager does without.
var maxSize = map[string]int{"kubectl-berth": 60_000_000, "manager": 66_000_000}

// program is a program in an archive of the release.
type program struct {
	archive, name, version, os, arch string
	// content is the program, license the file LICENSE beside it.
	content, license []byte
}

var archiveName = regexp.MustCompile(`^(?:berth-)?(manager|kubectl-berth)_(v.+)_([a-z]+)_([a-z0-9]+)\.(?:tar\.gz|zip)$`)

// programs returns the programs of all archives that checksums.txt names.
func programs(t *testing.T) []program {
	t.Helper()
	var all []program
	for archive := range checksums(t) {
		parts := archiveName.FindStringSubmatch(archive)
		if parts == nil {
			continue
		}
		p := program{archive: archive, name: parts[1], version: parts[2], os: parts[3], arch: parts[4]}
		file := p.name
		if p.os == "windows" {
			file += ".exe"
		}
		files := unpack(t, archive)
		p.content, p.license = files[file], files["LICENSE"]
		if len(p.content) == 0 || len(p.license) == 0 || len(files) != 2 {
			t.Errorf("%s has %d files, want %s and LICENSE", archive, len(files), file)
			continue
		}
		all = append(all, p)
	}
	if len(all) != 7 {
		t.Errorf("%d archives have a program, want 7", len(all))
	}
	return all
}

func TestEachProgramIsForThePlatformOfItsArchiveAndSmall(t *testing.T) {
	license, err := os.ReadFile(filepath.Join("..", "..", "..", "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs(t) {
		info, err := buildinfo.Read(bytes.NewReader(p.content))
		if err != nil {
			t.Errorf("%s: %v", p.archive, err)
			continue
		}
		settings := map[string]string{}
		for _, setting := range info.Settings {
			settings[setting.Key] = setting.Value
		}
		if settings["GOOS"] != p.os || settings["GOARCH"] != p.arch || settings["CGO_ENABLED"] != "0" {
			t.Errorf("%s: %s is for %s/%s with CGO_ENABLED=%s", p.archive, p.name, settings["GOOS"], settings["GOARCH"], settings["CGO_ENABLED"])
		}
		// The linker writes the version into the program as it is.
		if !bytes.Contains(p.content, []byte(p.version)) {
			t.Errorf("%s: %s does not have the version %s", p.archive, p.name, p.version)
		}
		if len(p.content) > maxSize[p.name] {
			t.Errorf("%s: %s has %d bytes, at most %d are allowed", p.archive, p.name, len(p.content), maxSize[p.name])
		}
		if !bytes.Equal(p.license, license) {
			t.Errorf("%s: LICENSE is not that of the repository", p.archive)
		}
	}
}

// emulators run programs for Linux on other architectures, if the machine has them.
var emulators = map[string]string{"amd64": "qemu-x86_64-static", "arm64": "qemu-aarch64-static"}

// command returns the words that start a plugin on this machine, for which it is written to a
// file. It returns nil where the machine cannot run it.
func command(t *testing.T, p program) []string {
	t.Helper()
	var words []string
	if p.os != runtime.GOOS {
		return nil
	}
	if p.arch != runtime.GOARCH {
		emulator, err := exec.LookPath(emulators[p.arch])
		if err != nil {
			return nil
		}
		words = []string{emulator}
	}
	file := filepath.Join(t.TempDir(), p.name)
	if err := os.WriteFile(file, p.content, 0o755); err != nil {
		t.Fatal(err)
	}
	return append(words, file)
}

func TestThePluginRunsAsItWasUnpacked(t *testing.T) {
	var ran []string
	for _, p := range programs(t) {
		if p.name != "kubectl-berth" {
			continue
		}
		t.Run(p.os+"/"+p.arch, func(t *testing.T) {
			words := command(t, p)
			if words == nil {
				t.Skip("this machine cannot run it")
			}
			expectPlugin(t, words, p.version)
			ran = append(ran, p.os+"/"+p.arch)
		})
	}
	if here := runtime.GOOS + "/" + runtime.GOARCH; !strings.Contains(fmt.Sprint(ran), here) {
		t.Errorf("the plugin ran as %v, want %s among them", ran, here)
	}
}

// expectPlugin starts a plugin by its words, and compares the version that it prints.
func expectPlugin(t *testing.T, words []string, version string) {
	t.Helper()
	run := func(args ...string) []byte {
		t.Helper()
		out, err := exec.Command(words[0], append(words[1:len(words):len(words)], args...)...).Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return out
	}
	var versions struct{ Plugin string }
	if err := json.Unmarshal(run("version", "--client", "-o", "json"), &versions); err != nil {
		t.Fatal(err)
	}
	if versions.Plugin != version {
		t.Errorf("the plugin says that its version is %s, want %s", versions.Plugin, version)
	}
	profile := filepath.Join(t.TempDir(), "profile.yaml")
	if err := os.WriteFile(profile, []byte("{apiVersion: berth.dev/v1alpha1, kind: SchedulingProfile, metadata: {name: shop}, spec: {}}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := string(run("lint", "--offline", "-f", profile)); !strings.Contains(out, "SchedulingProfile/shop is valid") {
		t.Errorf("lint prints %s", out)
	}
}

// The archives of the image are of a snapshot alone: the workflow pushes the image of a release.
func TestEachImageHasTheManagerOfItsPlatform(t *testing.T) {
	archives, err := filepath.Glob(filepath.Join(releaseFolder(t), "berth-manager-image_*.tar"))
	if err != nil {
		t.Fatal(err)
	}
	if len(archives) == 0 {
		t.Skip("the release has no archive of the image")
	}
	for _, p := range programs(t) {
		if p.name != "manager" {
			continue
		}
		name := fmt.Sprintf("berth-manager-image_%s_%s_%s.tar", p.version, p.os, p.arch)
		archive, err := os.Open(filepath.Join(releaseFolder(t), name))
		if err != nil {
			t.Error(err)
			continue
		}
		checkImage(t, untar(t, archive), p)
		archive.Close()
	}
}

// checkImage compares a docker archive of an image with the manager in it.
func checkImage(t *testing.T, files map[string][]byte, p program) {
	t.Helper()
	var images []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(files["manifest.json"], &images); err != nil || len(images) != 1 || len(images[0].Layers) != 2 {
		t.Fatalf("the image for %s: %v, %v, want one with two layers", p.arch, images, err)
	}
	var config struct {
		OS, Architecture string
		Config           struct {
			User       string
			Entrypoint []string
		}
	}
	if err := json.Unmarshal(files[images[0].Config], &config); err != nil {
		t.Fatal(err)
	}
	if config.OS != p.os || config.Architecture != p.arch || config.Config.User != "65532:65532" || fmt.Sprint(config.Config.Entrypoint) != "[/manager]" {
		t.Errorf("the image for %s/%s has the configuration %+v", p.os, p.arch, config)
	}
	top, err := gzip.NewReader(bytes.NewReader(files[images[0].Layers[1]]))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(untar(t, top)["manager"], p.content) {
		t.Errorf("the image for %s has another manager than %s", p.arch, p.archive)
	}
	if tags := fmt.Sprint(images[0].RepoTags); !strings.HasSuffix(tags, "berth:snapshot]") {
		t.Errorf("the image for %s has the names %s, want that of the manifests, berth:snapshot", p.arch, tags)
	}
}
