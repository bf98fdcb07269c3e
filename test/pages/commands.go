package pages

import (
	"slices"
	"strings"
)

// Command is one that a page tells its reader to run.
type Command struct {
	Line int
	Text string
	// Shown says that the page shows what it prints, too.
	Shown bool
}

// Played are the pages whose sessions a spec of test/integration plays, and holds
// to what they show.
var VerifiedPages = []string{"README.md", "docs/hot-swap.md", "docs/kubectl.md", "docs/guide/second-scheduler.md", "docs/guide/leaving.md", "docs/guide/migration.md"}

// Other is what becomes of commands that are not run as they stand.
type CommandRule struct {
	// Prefix is how they begin.
	Prefix string
	// Append makes of them what is run; where it is empty, and Instead is, too,
	// they are not run at all.
	Append, Instead string
	Reason          string
}

const (
	reasonInProcess  = "Berth runs in the suite's own process, with these applied before it"
	reasonNoKubelet  = "no kubelet runs Berth's own pods here"
	reasonNoImages   = "images are neither made nor stored here"
	reasonMakeTarget = "a target of the Makefile, which this package looks for"
	reasonSource     = "a folder of the sources, which this package looks for"
	reasonExcerpt    = "an excerpt of a run of make demo, or of docs/kubectl.md, in the README"
)

// Others are all commands of the pages that are not run as they stand; the first
// whose prefix fits counts.
var CommandRules = []CommandRule{
	{Prefix: "make ", Reason: reasonMakeTarget},
	{Prefix: "go run ./", Reason: reasonSource},
	{Prefix: "docker ", Reason: reasonNoImages},
	{Prefix: "helm ", Reason: "test/helm installs, upgrades and rolls back as this says, with the image that is there"},
	{Prefix: "kubectl label namespace berth-system ", Append: " --overwrite --dry-run=server", Reason: reasonInProcess},
	{Prefix: "mkdir berth-catalog", Reason: reasonNoImages},
	{Prefix: "printf ", Reason: reasonNoImages},
	{Prefix: "opm ", Reason: reasonNoImages + "; test/olm has opm render, validate and serve the bundle"},
	{Prefix: "kubectl apply -f config/olm/", Reason: "tools/bundle judges these files, and test/olm installs as they do"},
	{Prefix: "cosign ", Reason: "there is no release yet"},
	{Prefix: "sha256sum ", Reason: "there is no release yet"},
	{Prefix: "go build ", Reason: "builds the reader's own scheduler: test/foreign is one"},
	{Prefix: "kubectl apply --server-side -k config/", Append: " --force-conflicts --dry-run=server", Reason: reasonInProcess},
	{Prefix: "kubectl create clusterrolebinding ", Append: " --dry-run=server", Reason: "nobody takes it away again"},
	{Prefix: "kubectl -n berth-system create serviceaccount ", Append: " --dry-run=server", Reason: "nobody takes it away again"},
	{Prefix: "kubectl -n berth-system rollout status ", Reason: reasonNoKubelet},
	{Prefix: "kubectl -n berth-system logs ", Reason: reasonNoKubelet},
	{Prefix: "kubectl -n berth-system port-forward ", Reason: reasonNoKubelet},
	{Prefix: "curl -k ", Reason: reasonNoKubelet + "; test/restarts asks a manager the same"},
	{Prefix: "kubectl get why", Reason: reasonExcerpt},
	{Prefix: "kubectl berth explain pod/", Reason: reasonExcerpt},
	{Prefix: "kubectl get sprof,plugcfg", Reason: reasonExcerpt},
}

// Otherwise is the row that a command falls under, if it is not run as it stands.
// What a page shows the output of elsewhere than in a session that is played is an
// excerpt; the other rows are for what is told to be run.
func RuleFor(c Command) (CommandRule, bool) {
	at := slices.IndexFunc(CommandRules, func(o CommandRule) bool {
		return strings.HasPrefix(c.Text, o.Prefix) && (o.Reason == reasonExcerpt) == c.Shown
	})
	if at < 0 {
		return CommandRule{}, false
	}
	return CommandRules[at], true
}

// Commands are those of a page: each line of a block sh, and in other blocks what
// follows "$ ". A line that ends in a backslash goes on in the next; in a session,
// lines after "> " go on.
func (p Page) Commands() []Command {
	var all []Command
	for _, block := range p.Blocks {
		line, open := block.Line, false
		for text := range strings.Lines(block.Text) {
			line++
			text = strings.TrimRight(text, "\n")
			first, prompted := strings.CutPrefix(text, "$ ")
			more, goesOn := strings.CutPrefix(text, "> ")
			switch {
			case block.Language == "sh" && open:
				last := &all[len(all)-1]
				last.Text = strings.TrimSuffix(last.Text, "\\") + strings.TrimLeft(text, " ")
				open = strings.HasSuffix(text, "\\")
			case block.Language == "sh" && text != "":
				all = append(all, Command{Line: line, Text: stripComment(text)})
				open = strings.HasSuffix(text, "\\")
			case block.Language != "sh" && prompted:
				all = append(all, Command{Line: line, Text: first, Shown: true})
			case block.Language == "console" && goesOn && len(all) > 0:
				all[len(all)-1].Text += "\n" + more
			}
		}
	}
	return all
}

// uncommented is a command without what the page says of it behind it.
func stripComment(text string) string {
	text, _, _ = strings.Cut(text, "  # ")
	return strings.TrimSpace(text)
}
