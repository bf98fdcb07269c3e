package architecture

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// replaced are words that Berth's code and messages once had for things that
// kube-scheduler, client-go or kubectl have a word for, and the word to use. They are
// searched in identifiers, comments and strings of what ships, in every case and form
// that is listed. docs/glossary.md has the words that are Berth's own.
var replaced = map[string]string{
	"house": "manager, assembly", "rooms": "packages, components",
	"town": "sandbox", "towns": "sandboxes", "desk": "explanation queue", "errand": "task", "errands": "tasks",
	"dorm": "unschedulable pods by plugin", "dormant": "unschedulable", "roster": "pods by profile",
	"ailment": "degradation", "ailments": "degradations", "ails": "is degraded", "deaf": "missed events",
	"parked": "held", "tenure": "leadership", "intake": "eventhandlers", "makeup": "profile key",
	"poison": "plugin fault", "poisoned": "quarantined", "twin": "reference implementation",
	"nobodysbusiness": "skipPodSchedule", "whoever": "the actor's name", "aside": "held or quarantined",
}

// kept are the exceptions by file.
var kept = map[string][]string{}

// shipped are the folders whose words users and developers read first.
var shipped = []string{"api", "cmd", "controllers", "operator", "scheduler"}

func TestWhatShipsUsesTheWordsOfKubernetes(t *testing.T) {
	read, used := 0, map[string]bool{}
	for _, folder := range shipped {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(entry.Name(), "zz_") {
				return err
			}
			read++
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			found, err := replacedIn(path, nil)
			for _, f := range found {
				used[filepath.ToSlash(name)+" "+f.word] = true
				if !slices.Contains(kept[filepath.ToSlash(name)], f.word) {
					t.Errorf("%s:%d: %q is not a word of Kubernetes: use %s", name, f.line, f.word, replaced[f.word])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for file, words := range kept {
		for _, word := range words {
			if !used[file+" "+word] {
				t.Errorf("%s has no %q any more: remove the exception", file, word)
			}
		}
	}
	if read == 0 {
		t.Error("no file was read: does this test read the right folders?")
	}
}

func TestReplacedWordsAreFound(t *testing.T) {
	for sentence, c := range map[string]struct {
		code string
		want []string
	}{
		"a name":                         {"var theDesk int", []string{"desk"}},
		"a part of a name":               {"func putInTown() {}", []string{"town"}},
		"a comment":                      {"// Whoever reads it.\nvar x int", []string{"whoever"}},
		"a message":                      {`var x = "the pod is parked"`, []string{"parked"}},
		"a field":                        {"type t struct { Ailments int }", []string{"ailments"}},
		"a longer word that contains it": {"var mushrooms, township int", nil},
		"words of Kubernetes":            {`var heldPods = "the pod is held"`, nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			found, err := replacedIn("x.go", []byte("package p\n"+c.code))
			if err != nil {
				t.Fatal(err)
			}
			var words []string
			for _, f := range found {
				words = append(words, f.word)
			}
			if diff := cmp.Diff(c.want, words); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}

type replacedWord struct {
	word string
	line int
}

// replacedIn returns the replaced words of a file, in the order of lines. Uses of names
// that are declared elsewhere do not count; source nil reads the file.
func replacedIn(path string, source []byte) (found []replacedWord, err error) {
	files := token.NewFileSet()
	var src any
	if source != nil {
		src = source
	}
	file, err := parser.ParseFile(files, path, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("reading words: %w", err)
	}
	search := func(at token.Pos, text string) {
		for _, word := range wordsOf(text) {
			if _, is := replaced[word]; is {
				found = append(found, replacedWord{word, files.Position(at).Line})
			}
		}
	}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			search(comment.Pos(), comment.Text)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			search(n.Pos(), n.Name.Name)
		case *ast.TypeSpec:
			search(n.Pos(), n.Name.Name)
		case *ast.ValueSpec:
			for _, name := range n.Names {
				search(name.Pos(), name.Name)
			}
		case *ast.Field:
			for _, name := range n.Names {
				search(name.Pos(), name.Name)
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				search(n.Pos(), n.Value)
			}
		}
		return true
	})
	return found, nil
}

// wordsOf returns the words of a text, in lower case; those of a name in camel case are
// several.
func wordsOf(text string) (words []string) {
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
		}
		word = word[:0]
	}
	for _, r := range text {
		switch {
		case !unicode.IsLetter(r):
			end()
			continue
		case unicode.IsUpper(r) && len(word) > 0 && unicode.IsLower(word[len(word)-1]):
			end()
		}
		word = append(word, r)
	}
	end()
	return words
}
