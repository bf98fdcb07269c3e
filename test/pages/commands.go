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
var Played = []string{"README.md", "docs/hot-swap.md", "docs/kubectl.md", "docs/guide/second-scheduler.md", "docs/guide/leaving.md", "docs/guide/migration.md"}

// Other is what becomes of commands that are not run as they stand.
type Other struct {
	// Prefix is how they begin.
	Prefix string
	// Append makes of them what is run; where it is empty, and Instead is, too,
	// they are not run at all.
	Append, Instead string
	Why             string
}

const (
	ours   = "Berth runs in the suite's own process, with these applied before it"
	pods   = "no kubelet runs Berth's own pods here"
	images = "images are neither made nor stored here"
	target = "a target of the Makefile, which this package looks for"
	source = "a folder of the sources, which this package looks for"
	excerp = "an excerpt of a run of make demo, or of docs/kubectl.md, in the README"
)

// Others are all commands of the pages that are not run as they stand; the first
// whose prefix fits counts.
var Others = []Other{
	{Prefix: "make ", Why: target},
	{Prefix: "go run ./", Why: source},
	{Prefix: "docker ", Why: images},
	{Prefix: "helm ", Why: "test/helm installs, upgrades and rolls back as this says, with the image that is there"},
	{Prefix: "kubectl label namespace berth-system ", Append: " --overwrite --dry-run=server", Why: ours},
	{Prefix: "mkdir berth-catalog", Why: images},
	{Prefix: "printf ", Why: images},
	{Prefix: "opm ", Why: images + "; test/olm has opm render, validate and serve the bundle"},
	{Prefix: "kubectl apply -f config/olm/", Why: "tools/bundle judges these files, and test/olm installs as they do"},
	{Prefix: "cosign ", Why: "there is no release yet"},
	{Prefix: "sha256sum ", Why: "there is no release yet"},
	{Prefix: "go build ", Why: "builds the reader's own scheduler: test/foreign is one"},
	{Prefix: "kubectl apply --server-side -k config/", Append: " --force-conflicts --dry-run=server", Why: ours},
	{Prefix: "kubectl create clusterrolebinding ", Append: " --dry-run=server", Why: "nobody takes it away again"},
	{Prefix: "kubectl -n berth-system create serviceaccount ", Append: " --dry-run=server", Why: "nobody takes it away again"},
	{Prefix: "kubectl -n berth-system rollout status ", Why: pods},
	{Prefix: "kubectl -n berth-system logs ", Why: pods},
	{Prefix: "kubectl -n berth-system port-forward ", Why: pods},
	{Prefix: "curl -k ", Why: pods + "; test/restarts asks a manager the same"},
	{Prefix: "kubectl get why", Why: excerp},
	{Prefix: "kubectl berth explain pod/", Why: excerp},
	{Prefix: "kubectl get sprof,plugcfg", Why: excerp},
}

// Otherwise is the row that a command falls under, if it is not run as it stands.
// What a page shows the output of elsewhere than in a session that is played is an
// excerpt; the other rows are for what is told to be run.
func Otherwise(c Command) (Other, bool) {
	at := slices.IndexFunc(Others, func(o Other) bool { return strings.HasPrefix(c.Text, o.Prefix) && (o.Why == excerp) == c.Shown })
	if at < 0 {
		return Other{}, false
	}
	return Others[at], true
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
				all = append(all, Command{Line: line, Text: uncommented(text)})
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
func uncommented(text string) string {
	text, _, _ = strings.Cut(text, "  # ")
	return strings.TrimSpace(text)
}
