package olm

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berthdev/berth/test/support/controlplane"
)

const channel = "candidate-v0"

// catalog is a catalog that opm serves: one package, and its versions.
type catalog struct {
	address string
	server  *controlplane.Process
}

// render has opm read a bundle.
func render(ctx context.Context, bundle string) []byte {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, filepath.Join(*binaries, "opm"), "render", bundle)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	Expect(err).NotTo(HaveOccurred(), stderr.String())
	return out
}

// serve has a catalog of these versions, each replacing the one before, served in the
// place of what was served before.
func (c *catalog) serve(ctx context.Context, versions map[string]string, order ...string) {
	GinkgoHelper()
	type entry struct {
		Name     string `json:"name"`
		Replaces string `json:"replaces,omitempty"`
	}
	var entries []entry
	var rendered [][]byte
	for i, version := range order {
		e := entry{Name: "berth.v" + version}
		if i > 0 {
			e.Replaces = "berth.v" + order[i-1]
		}
		entries = append(entries, e)
		rendered = append(rendered, render(ctx, versions[version]))
	}
	head, err := json.Marshal(map[string]any{"schema": "olm.package", "name": "berth", "defaultChannel": channel})
	Expect(err).NotTo(HaveOccurred())
	body, err := json.Marshal(map[string]any{"schema": "olm.channel", "package": "berth", "name": channel, "entries": entries})
	Expect(err).NotTo(HaveOccurred())
	dir := filepath.Join(work, "catalog-"+strings.Join(order, "-"))
	Expect(os.MkdirAll(dir, 0o755)).To(Succeed())
	text := bytes.Join(append([][]byte{head, body}, rendered...), []byte("\n"))
	Expect(os.WriteFile(filepath.Join(dir, "catalog.json"), text, 0o644)).To(Succeed())

	said, err := exec.CommandContext(ctx, filepath.Join(*binaries, "opm"), "validate", dir).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(said))
	Expect(string(said)).To(BeEmpty(), "opm validate")
	c.run(ctx, dir)
}

// run serves a folder, always at one address: the CatalogSource names it.
func (c *catalog) run(ctx context.Context, dir string) {
	GinkgoHelper()
	if c.server != nil {
		cp.End(c.server)
	} else {
		addresses, err := controlplane.FreeAddresses(1)
		Expect(err).NotTo(HaveOccurred())
		c.address = addresses[0]
	}
	_, port, err := net.SplitHostPort(c.address)
	Expect(err).NotTo(HaveOccurred())
	c.server, err = cp.Run(filepath.Join(*binaries, "opm"), "serve", dir, "--port="+port, "--pprof-addr=",
		"--cache-dir="+dir+"-cache", "--cache-enforce-integrity=false", "--termination-log="+dir+"-ended")
	Expect(err).NotTo(HaveOccurred())
	Expect(c.server.Until(ctx, func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.address)
		if err == nil {
			err = conn.Close()
		}
		return err
	})).To(Succeed())
}

// bundleOf makes the bundle of this tree under another version.
func bundleOf(ctx context.Context, version string) string {
	GinkgoHelper()
	out := filepath.Join(work, "v"+version)
	cmd := exec.CommandContext(ctx, "go", "run", ".", "--out="+out, "--version="+version)
	cmd.Dir = filepath.Join(root, "tools", "bundle")
	said, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(said))
	return filepath.Join(out, "bundle")
}
