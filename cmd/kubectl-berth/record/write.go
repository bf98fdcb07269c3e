package record

import (
	"fmt"
	"io"
	"os"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/state"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/sandbox/log"
)

// writeProfile writes the profile that runs, arguments inline.
func (o *options) writeProfile(p *state.Profile) error {
	whole, err := compile.SelfContained(p.Source, p.Configs)
	if err != nil {
		return fmt.Errorf("SchedulingProfile %s: %w", p.Name, err)
	}
	text, err := yaml.JSONToYAML(whole)
	if err != nil {
		return err
	}
	return os.WriteFile(o.profileOut, text, 0o644)
}

// write writes the log, and says what it holds.
func (o *options) writeLog(out io.Writer, p *state.Profile, h *history, r *recording) error {
	if r.replayed == 0 {
		return fmt.Errorf("profile %s decided nothing meanwhile that can be decided again: there is no log%s", p.Name, gapsSuffix(r.gaps))
	}
	if err := log.WriteAll(out, r.ops); err != nil {
		return fmt.Errorf("%s: %w", o.file, err)
	}
	if r.notReplayed > 0 {
		o.note("%s not decided again, and its pod takes its room: of another profile or generation, or under way when the record began", show.Count(r.notReplayed, "decision"))
	}
	o.notes = append(o.notes, r.gaps...)
	for _, note := range o.notes {
		fmt.Fprintln(o.ErrOut, show.Wrap("note: "+note, "", "  "))
	}
	_, err := fmt.Fprintf(o.Out, "%s of profile %s, hash %s, in %s.\nTo decide them again: go run ./test/replay --profile %s %s\n",
		show.Count(r.replayed, "decision"), p.Name, h.hash, show.Count(len(r.ops), "line"), o.profileOut, o.file)
	if err == nil && len(o.gaps)+len(r.gaps) > 0 {
		return verb.ErrFindings
	}
	return err
}

// becauseOf appends what the log lacks to a message.
func gapsSuffix(faults []string) string {
	if len(faults) == 0 {
		return ""
	}
	return "; " + strings.Join(faults, "; ")
}
