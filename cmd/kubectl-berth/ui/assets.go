package ui

import (
	"embed"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strconv"
)

// dist is the built page. `make ui` builds it, and it is committed, so that building the
// plugin does not need npm.
//
//go:embed all:web/dist
var dist embed.FS

// contentTypes are the types of assets by extension. The types of the system are not used:
// they differ between machines.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
	".png":  "image/png",
	".txt":  "text/plain; charset=utf-8", // the licenses of what the page is built from
}

// hashed are the paths of assets with a hash of their content in their name.
var hashed = regexp.MustCompile(`^/assets/.+-[A-Za-z0-9_-]{8,}\.[a-z]+$`)

// immutableCaching is the value of Cache-Control for these.
const immutableCaching = "public, max-age=31536000, immutable"

// asset is a file of the page.
type asset struct {
	contentType, caching string
	body                 []byte
}

// embeddedAssets returns the assets by their path in a URL.
func embeddedAssets() map[string]asset {
	files, err := fs.Sub(dist, "web/dist")
	if err != nil {
		panic(err) // the path is constant and valid
	}
	return assetsOf(files)
}

// assetsOf returns the files with a known extension by their path in a URL; index.html is
// "/". Only exact paths of files are served, so that a path cannot lead elsewhere.
func assetsOf(files fs.FS) map[string]asset {
	assets := map[string]asset{}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		contentType := contentTypes[path.Ext(name)]
		if err != nil || entry.IsDir() || contentType == "" {
			return err
		}
		body, err := fs.ReadFile(files, name)
		one := asset{contentType: contentType, body: body}
		urlPath := "/" + name
		switch {
		case name == "index.html":
			urlPath = "/"
		case hashed.MatchString(urlPath):
			one.caching = immutableCaching
		}
		assets[urlPath] = one
		return err
	})
	if err != nil {
		panic(err) // the files are in memory
	}
	return assets
}

// static serves the assets; all other paths do not exist.
func (s *server) static(w http.ResponseWriter, r *http.Request) {
	one, there := s.assets[r.URL.Path]
	if !there {
		writeError(w, errNoPath)
		return
	}
	header := w.Header()
	header.Set("Content-Type", one.contentType)
	header.Set("Content-Length", strconv.Itoa(len(one.body)))
	if one.caching != "" {
		header.Set("Cache-Control", one.caching)
	}
	_, _ = w.Write(one.body) // an error means that the browser is gone
}
