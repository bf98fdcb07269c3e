// Command images writes the container images of `make real-node` as docker archives,
// without a daemon and without a registry: the manager as the Dockerfile builds it,
// a workload and a pause container.
//
//	go run . --root=../.. --out=DIR --version=v0.0.0-real-node
//
// With --manager=FILE the manager is not built. --only=manager leaves out the other images, as
// for a snapshot of a release, and --only=tests leaves out the manager.
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

// options are the flags.
type options struct {
	root, out, version, registry string
	manager, arch, name          string
	only                         string
}

// The values of --only.
const onlyManager, onlyTests = "manager", "tests"

func main() {
	var o options
	flag.StringVar(&o.root, "root", ".", "the repository's root, with the Dockerfile")
	flag.StringVar(&o.out, "out", "", "the folder that the archives are written to")
	flag.StringVar(&o.version, "version", "v0.0.0-snapshot", "the version that the manager reports")
	flag.StringVar(&o.registry, "registry", "berth.test", "the registry in the images' names; no such host need exist")
	flag.StringVar(&o.manager, "manager", "", "a `file` with the manager, for Linux; it is built if there is none")
	flag.StringVar(&o.arch, "arch", runtime.GOARCH, "the architecture of that file")
	flag.StringVar(&o.name, "name", "", "the name of the manager's image; REGISTRY/manager:VERSION if it is empty")
	flag.StringVar(&o.only, "only", "", "write only the image of the manager, `manager`, or only those of tests, tests")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

// run writes OUT/manager.tar, and OUT/workload.tar and OUT/pause.tar for tests, of which o.only
// leaves some out, and prints the name of each image.
func run(ctx context.Context, o options) error {
	if o.out == "" {
		return errors.New("--out must name a folder")
	}
	if o.only != "" && o.only != onlyManager && o.only != onlyTests {
		return fmt.Errorf("--only %q: it must be %s or %s", o.only, onlyManager, onlyTests)
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	if o.only != onlyTests {
		if err := writeManagerImage(ctx, o); err != nil {
			return err
		}
	}
	if o.only == onlyManager {
		return nil
	}
	return writeTestImages(ctx, o)
}

// writeManagerImage writes OUT/manager.tar.
func writeManagerImage(ctx context.Context, o options) error {
	manager, err := managerImage(ctx, o)
	if err != nil {
		return fmt.Errorf("build the manager's image: %w", err)
	}
	if o.name == "" {
		o.name = o.imageName("manager")
	}
	if err := write(manager, o.name, filepath.Join(o.out, "manager.tar")); err != nil {
		return fmt.Errorf("write the image manager: %w", err)
	}
	return nil
}

// imageName returns the name of an image in the registry.
func (o options) imageName(image string) string { return o.registry + "/" + image + ":" + o.version }

// writeTestImages writes OUT/workload.tar and OUT/pause.tar.
func writeTestImages(ctx context.Context, o options) error {
	workload := filepath.Join(o.out, "workload")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", workload, "./test/install/realnode/workload")
	build.Dir, build.Env = o.root, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build the workload: %w", err)
	}
	test := recipe{user: workloadUser, binary: "/workload", entrypoint: []string{"/workload"}}
	web, err := test.image(workload, runtime.GOARCH)
	if err != nil {
		return err
	}
	test.entrypoint = []string{"/workload", "pause"}
	pause, err := test.image(workload, runtime.GOARCH)
	if err != nil {
		return err
	}
	for _, image := range []struct {
		name  string
		image v1.Image
	}{{"workload", web}, {"pause", pause}} {
		if err := write(image.image, o.imageName(image.name), filepath.Join(o.out, image.name+".tar")); err != nil {
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

// managerImage builds the manager with the command of the Dockerfile, unless a file has it, and
// puts it into an image with the settings of the Dockerfile's last stage.
func managerImage(ctx context.Context, o options) (v1.Image, error) {
	text, err := os.ReadFile(filepath.Join(o.root, "Dockerfile"))
	if err != nil {
		return nil, err
	}
	recipe, err := parseDockerfile(string(text))
	if err != nil {
		return nil, fmt.Errorf("Dockerfile: %w", err)
	}
	if o.manager != "" {
		return recipe.image(o.manager, o.arch)
	}
	binary, err := filepath.Abs(filepath.Join(o.out, "manager"))
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(binary, " \t'\"$") {
		return nil, fmt.Errorf("--out %q: its path must have no spaces or quotes", o.out)
	}
	command := strings.Replace(recipe.build, "-o "+recipe.built, "-o "+binary, 1)
	build := exec.CommandContext(ctx, "sh", "-c", command)
	build.Dir = o.root
	build.Env = append(os.Environ(), "TARGETOS=linux", "TARGETARCH="+runtime.GOARCH, "VERSION="+o.version, "GOWORK=off")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	return recipe.image(binary, runtime.GOARCH)
}
