// Command images writes the container images of `make real-node` as docker archives,
// without a daemon and without a registry: the manager as the Dockerfile builds it,
// a workload and a pause container.
//
//	go run . --root=../.. --out=DIR --version=v0.0.0-real-node
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// workloadUser is the user of the images that only tests use; it is not root, so that
// their pods keep the restricted pod security level.
const workloadUser = "65532:65532"

func main() {
	root := flag.String("root", ".", "the repository's root, with the Dockerfile")
	out := flag.String("out", "", "the folder that the archives are written to")
	version := flag.String("version", "v0.0.0-snapshot", "the version that the manager reports")
	registry := flag.String("registry", "berth.test", "the registry in the images' names; no such host need exist")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *root, *out, *version, *registry); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

// run writes OUT/manager.tar, OUT/workload.tar and OUT/pause.tar and prints the name
// of each image.
func run(ctx context.Context, root, out, version, registry string) error {
	if out == "" {
		return errors.New("--out must name a folder")
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	manager, err := managerImage(ctx, root, out, version)
	if err != nil {
		return fmt.Errorf("build the manager's image: %w", err)
	}
	workload := filepath.Join(out, "workload")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", workload, "./test/install/realnode/workload")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build the workload: %w", err)
	}
	test := recipe{user: workloadUser, binary: "/workload", entrypoint: []string{"/workload"}}
	web, err := test.image(workload)
	if err != nil {
		return err
	}
	test.entrypoint = []string{"/workload", "pause"}
	pause, err := test.image(workload)
	if err != nil {
		return err
	}
	for _, image := range []struct {
		name  string
		image v1.Image
	}{{"manager", manager}, {"workload", web}, {"pause", pause}} {
		if err := write(image.image, registry+"/"+image.name+":"+version, filepath.Join(out, image.name+".tar")); err != nil {
			return fmt.Errorf("write the image %s: %w", image.name, err)
		}
	}
	return nil
}

// write writes an image as a docker archive and prints its name.
func write(image v1.Image, reference, path string) error {
	tag, err := name.NewTag(reference)
	if err != nil {
		return err
	}
	if err := tarball.WriteToFile(path, tag, image); err != nil {
		return err
	}
	_, err = fmt.Println(tag.Name())
	return err
}

// managerImage builds the manager with the command of the Dockerfile and puts it into
// an image with the settings of the Dockerfile's last stage.
func managerImage(ctx context.Context, root, out, version string) (v1.Image, error) {
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		return nil, err
	}
	recipe, err := parseDockerfile(string(text))
	if err != nil {
		return nil, fmt.Errorf("Dockerfile: %w", err)
	}
	binary, err := filepath.Abs(filepath.Join(out, "manager"))
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(binary, " \t'\"$") {
		return nil, fmt.Errorf("--out %q: its path must have no spaces or quotes", out)
	}
	command := strings.Replace(recipe.build, "-o "+recipe.built, "-o "+binary, 1)
	build := exec.CommandContext(ctx, "sh", "-c", command)
	build.Dir = root
	build.Env = append(os.Environ(), "TARGETOS=linux", "TARGETARCH="+runtime.GOARCH, "VERSION="+version, "GOWORK=off")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	return recipe.image(binary)
}
