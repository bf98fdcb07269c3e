package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestTheImageFollowsTheDockerfile(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseDockerfile(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got.build, "CGO_ENABLED=0") || !strings.Contains(got.build, "operator.version=$VERSION") {
		t.Errorf("the build command is %q: want the Dockerfile's, static and with a version", got.build)
	}
	got.build = ""
	want := recipe{built: "/manager", binary: "/manager", user: "65532:65532", entrypoint: []string{"/manager"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(recipe{})); diff != "" {
		t.Errorf("recipe (-want,+got):\n%s", diff)
	}
}

func TestADockerfileThatWouldGiveAnotherImageIsRefused(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]struct{ from, to, want string }{
		"another base image":             {"FROM gcr.io/distroless/static-debian12:nonroot", "FROM alpine:3", "the last stage is FROM"},
		"an instruction that sets more":  {"ENTRYPOINT", "ENV A=b\nENTRYPOINT", "does not know this instruction in the last stage"},
		"a second command in the build":  {"ARG VERSION=dev", "RUN strip /manager", "does not know this instruction in a build stage"},
		"a file from elsewhere":          {"COPY --from=build /manager", "COPY --from=build /other", "must be COPY --from=build /manager PATH"},
		"no user, which would mean root": {"USER 65532:65532", "", "is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(string(text), change.from, change.to, 1)
			if changed == string(text) {
				t.Fatalf("the Dockerfile has no %q", change.from)
			}
			if _, err := parseDockerfile(changed); err == nil || !strings.Contains(err.Error(), change.want) {
				t.Errorf("error %v, want one with %q", err, change.want)
			}
		})
	}
}

func TestAnImageRunsItsBinaryAsItsUserFromEqualLayers(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "binary")
	if err := os.WriteFile(binary, []byte("not really one"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := recipe{binary: "/manager", user: "65532:65532", entrypoint: []string{"/manager"}}
	image, err := r.image(binary, "arm64")
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != r.user || !cmp.Equal(config.Config.Entrypoint, r.entrypoint) || config.OS != "linux" || config.Architecture != "arm64" {
		t.Errorf("config %+v, want user %s and entrypoint %v", config.Config, r.user, r.entrypoint)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 2 || len(config.RootFS.DiffIDs) != 2 {
		t.Fatalf("%d layers and %d diff ids (%v), want 2 of each", len(layers), len(config.RootFS.DiffIDs), err)
	}
	top, err := layers[1].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	content, err := io.ReadAll(top)
	if err != nil || !strings.Contains(string(content), "not really one") {
		t.Errorf("the top layer lacks the binary (%v)", err)
	}
	again, err := r.image(binary, "arm64")
	if err != nil {
		t.Fatal(err)
	}
	first, _ := image.Digest()
	if second, err := again.Digest(); err != nil || first != second {
		t.Errorf("digests %s and %s (%v), want equal ones", first, second, err)
	}
}

func TestTheImageOfAManagerThatIsBuiltHasItsName(t *testing.T) {
	out, manager := t.TempDir(), filepath.Join(t.TempDir(), "manager")
	if err := os.WriteFile(manager, []byte("not really one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), options{root: filepath.Join("..", ".."), out: out, manager: manager, arch: "arm64", name: "berth:snapshot", only: onlyManager}); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("berth:snapshot")
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(filepath.Join(out, "manager.tar"), &tag)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil || config.Architecture != "arm64" {
		t.Errorf("config %+v (%v), want the architecture arm64", config, err)
	}
	if _, err := os.Stat(filepath.Join(out, "workload.tar")); !os.IsNotExist(err) {
		t.Errorf("workload.tar: %v, want that it does not exist", err)
	}
}

func TestOnlyTheImagesThatExistCanBeAskedFor(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	err := run(t.Context(), options{root: filepath.Join("..", ".."), out: out, only: "managers"})
	if err == nil || !strings.Contains(err.Error(), `--only "managers": it must be manager or tests`) {
		t.Errorf("error %v, want one that names the values", err)
	}
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Errorf("%s: %v, want that it does not exist", out, err)
	}
}
