// Package release checks the files of a release, which `make release-snapshot` makes: go test
// ./test/install/release -args -release FOLDER -krew FILE. Without -release there is nothing to
// check.
package release

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var (
	folder = flag.String("release", "", "the `folder` with the files of a release")
	krew   = flag.String("krew", "", "the `path` of krew, which installs the plugin; empty: that test is skipped")
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

func TestTheChecksumsAreThoseOfTheFiles(t *testing.T) {
	sums := checksums(t)
	var archives, documents, installs int
	for name, want := range sums {
		if got, err := checksum(filepath.Join(releaseFolder(t), name)); err != nil {
			t.Error(err)
		} else if got != want {
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

// checksum returns the SHA-256 of a file.
func checksum(file string) (string, error) {
	content, err := os.ReadFile(file)
	return fmt.Sprintf("%x", sha256.Sum256(content)), err
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
	return untar(t, unzipped)
}

// untar returns the files of a tar archive, by name.
func untar(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for archive := tar.NewReader(r); ; {
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
