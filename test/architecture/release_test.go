package architecture

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fromRoot reads a file by its path from the module's root.
func fromRoot(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The linker ignores a variable that does not exist: such a release would have the version
// "dev".
func TestVariablesThatAReleaseSetsExist(t *testing.T) {
	set := regexp.MustCompile(`-X ` + modulePath + `/([\w./-]+)\.(\w+)=`)
	for _, file := range []string{"Dockerfile", ".goreleaser.yaml"} {
		found := set.FindAllStringSubmatch(fromRoot(t, file), -1)
		if len(found) == 0 {
			t.Errorf("%s sets no variable", file)
		}
		for _, f := range found {
			if !hasString(t, filepath.Join("..", "..", f[1]), f[2]) {
				t.Errorf("%s sets %s.%s, which is not a string variable of that package", file, f[1], f[2])
			}
		}
	}
}

// hasString says whether the package in dir declares a variable of that name with a string
// value.
func hasString(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == 1 && spec.Names[0].Name == name && len(spec.Values) == 1 {
				text, ok := spec.Values[0].(*ast.BasicLit)
				found = found || ok && text.Kind == token.STRING
			}
			_, inFunction := n.(*ast.FuncDecl)
			return !inFunction
		})
	}
	return found
}

func TestTheImageIsBuiltFromAllThatTheManagerImports(t *testing.T) {
	command := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")
	command.Dir = filepath.Join("..", "..")
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	kept := fromRoot(t, ".dockerignore")
	for _, path := range strings.Fields(string(out)) {
		folder, ok := strings.CutPrefix(path, modulePath+"/")
		top, _, _ := strings.Cut(folder, "/")
		if ok && !strings.Contains(kept, "\n!"+top+"\n") && !strings.Contains(kept, "\n!"+folder+"/*.go\n") {
			t.Errorf(".dockerignore leaves out %s, which the manager imports", path)
		}
	}
}

func TestWorkflowsUseActionsByTheirCommit(t *testing.T) {
	uses, pinned := regexp.MustCompile(`(?m)uses:\s*(\S+)`), regexp.MustCompile(`@[0-9a-f]{40}$`)
	for _, file := range []string{".github/workflows/ci.yml", ".github/workflows/release.yml"} {
		for _, action := range uses.FindAllStringSubmatch(fromRoot(t, file), -1) {
			if !pinned.MatchString(action[1]) {
				t.Errorf("%s: %s can change: name it by its commit", file, action[1])
			}
		}
	}
}

func TestBaseImagesAreNamedByTheirDigest(t *testing.T) {
	from, pinned := regexp.MustCompile(`(?m)^FROM (?:--\S+ )?(\S+)`), regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)
	for _, file := range []string{"Dockerfile", "bundle.Dockerfile"} {
		images := from.FindAllStringSubmatch(fromRoot(t, file), -1)
		if len(images) == 0 {
			t.Errorf("%s has no FROM", file)
		}
		for _, image := range images {
			if image[1] != "scratch" && !pinned.MatchString(image[1]) {
				t.Errorf("%s: %s can change: add its digest", file, image[1])
			}
		}
	}
}

// These print through text/template, which calls methods by name. The linker then keeps every
// method of every type, among them all of client-go's clients: kubectl-berth had 76 MB with them,
// and has 52 MB without. test/install/release checks the size of what is released.
var templatePrinters = regexp.MustCompile(`\b(genericclioptions\.New(Print|KubeTemplatePrint|GoTemplatePrint)Flags|printers\.NewGoTemplatePrinter)\b`)

func TestTheKubectlPluginPrintsNoTemplates(t *testing.T) {
	read := 0
	err := filepath.WalkDir(filepath.Join(root, "cmd"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		read++
		if found := templatePrinters.Find(text); found != nil {
			t.Errorf("%s uses %s: the linker would keep every method of every type", path, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if read == 0 {
		t.Error("no file was read")
	}
}

// .goreleaser.yaml says what the tag is for.
func TestTheManagerIsBuiltWithoutTracesOfGRPC(t *testing.T) {
	for file, want := range map[string]string{"Dockerfile": "go build -tags grpcnotrace ", ".goreleaser.yaml": "tags: [grpcnotrace]"} {
		if !strings.Contains(fromRoot(t, file), want) {
			t.Errorf("%s does not have %q", file, want)
		}
	}
}

// Dependabot does not update a module that it does not know. tools/older is left out: it pins
// older versions of Kubernetes.
func TestDependabotKnowsEveryModule(t *testing.T) {
	command := exec.Command("bash", filepath.Join("..", "..", "tools", "modules.sh"))
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	known := fromRoot(t, ".github/dependabot.yml")
	for _, module := range strings.Fields(string(out)) {
		folder := "/" + strings.TrimPrefix(module, ".")
		if !strings.Contains(known, "\n    - "+folder+"\n") {
			t.Errorf(".github/dependabot.yml does not list %s", folder)
		}
	}
}

// The lock file must have the packages of all platforms: npm installs what it lists, and the
// bundler needs the binary of its platform.
func TestTheSiteInstallsOnEveryPlatform(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "site", "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]struct {
			OptionalDependencies map[string]string
		}
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for name, p := range lock.Packages {
		for needs, version := range p.OptionalDependencies {
			checked++
			if _, is := lock.Packages["node_modules/"+needs]; !is {
				t.Errorf("site/package-lock.json: %s needs %s %s on some platform, and the file does not have it: "+
					"choose a version that the registry has for all, in site/package.json's overrides", name, needs, version)
			}
		}
	}
	if checked == 0 {
		t.Error("no package in site/package-lock.json differs by platform: is the file parsed correctly?")
	}
}
