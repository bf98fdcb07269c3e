package simulation

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// corpusFile has the inputs of a corpus, one a line, in its folder.
const corpusFile = "inputs.jsonl"

// readCorpus reads the inputs of a folder; none where it has none.
func readCorpus(folder string) ([]input, error) {
	file, err := os.Open(filepath.Join(folder, corpusFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the corpus: %w", err)
	}
	defer func() { _ = file.Close() }()
	var all []input
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		in, err := readInput(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", file.Name(), n, err)
		}
		all = append(all, in)
	}
	return all, lines.Err()
}

// writeCorpus replaces the inputs of a folder.
func writeCorpus(folder string, all []*kept) error {
	var text strings.Builder
	for _, k := range all {
		text.WriteString(k.String() + "\n")
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("writing the corpus: %w", err)
	}
	// A run that is killed leaves the old file or the new one.
	temporary := filepath.Join(folder, corpusFile+".new")
	if err := os.WriteFile(temporary, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("writing the corpus: %w", err)
	}
	if err := os.Rename(temporary, filepath.Join(folder, corpusFile)); err != nil {
		return fmt.Errorf("writing the corpus: %w", err)
	}
	return nil
}

// writeFailure saves a failing input and its story in the folder failed of a corpus.
func writeFailure(folder, name string, in input, story string) error {
	folder = filepath.Join(folder, "failed")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("saving a failure: %w", err)
	}
	err := os.WriteFile(filepath.Join(folder, name+".json"), []byte(in.String()+"\n"), 0o644)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name+".txt"), []byte(story+"\n"), 0o644)
	}
	if err != nil {
		return fmt.Errorf("saving a failure: %w", err)
	}
	return nil
}
