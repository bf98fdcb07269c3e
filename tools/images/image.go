package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const (
	nonroot = 65532
	// certificates is the path of the certificate authorities in the base image and in Debian.
	certificates = "/etc/ssl/certs/ca-certificates.crt"
)

// entry is a file or folder of a layer.
type entry struct {
	path    string
	mode    int64
	owner   int
	content []byte // nil for a folder
}

// baseLayout returns the files of the base image, distroless static for the user nonroot: no
// shell, no package manager, only the files that a static binary reads.
func baseLayout() []entry {
	passwd := "root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"
	group := "root:x:0:\nnobody:x:65534:\ntty:x:5:\nstaff:x:50:\nnonroot:x:65532:\n"
	entries := []entry{
		{path: "/etc", mode: 0o755}, {path: "/etc/ssl", mode: 0o755}, {path: "/etc/ssl/certs", mode: 0o755},
		{path: "/etc/passwd", mode: 0o644, content: []byte(passwd)},
		{path: "/etc/group", mode: 0o644, content: []byte(group)},
		{path: "/etc/nsswitch.conf", mode: 0o644, content: []byte("hosts: files dns\n")},
		{path: "/home", mode: 0o755}, {path: "/home/nonroot", mode: 0o700, owner: nonroot},
		{path: "/root", mode: 0o700}, {path: "/tmp", mode: 0o1777}, {path: "/var", mode: 0o755}, {path: "/var/tmp", mode: 0o1777},
	}
	// On a machine without certificates, the image has none: programs in these images connect
	// only to the API server, which has its own.
	if text, err := os.ReadFile(certificates); err == nil {
		entries = append(entries, entry{path: certificates, mode: 0o644, content: text})
	}
	return entries
}

// layer returns entries as one layer with fixed times, so that equal contents have equal
// digests.
func layer(entries []entry) (v1.Layer, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, e := range entries {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: e.path[1:], Mode: e.mode, Uid: e.owner, Gid: e.owner, Size: int64(len(e.content))}
		if e.content == nil {
			header.Typeflag, header.Name = tar.TypeDir, header.Name+"/"
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(buffer.Bytes())), nil
	})
}

// image returns the base layout with the binary, for an architecture, at path binary on this
// machine.
func (r recipe) image(binary, arch string) (v1.Image, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	bottom, err := layer(baseLayout())
	if err != nil {
		return nil, err
	}
	top, err := layer([]entry{{path: path.Clean(r.binary), mode: 0o755, content: content}})
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, bottom, top)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", arch
	file.Config = v1.Config{
		User: r.user, Entrypoint: r.entrypoint, WorkingDir: "/home/nonroot",
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "SSL_CERT_FILE=" + certificates},
	}
	return mutate.ConfigFile(image, file)
}
