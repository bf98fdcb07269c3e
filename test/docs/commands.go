package docs

import (
	"slices"
	"strings"
)

// Command is a command in a page.
type Command struct {
	Line int
	Text string
	// Shown: the page shows its output as well.
	Shown bool
}

// VerifiedPages are the pages whose sessions a spec of test/integration runs and compares
// with their output.
var VerifiedPages = []string{"README.md", "docs/tour/README.md", "docs/hot-swap.md", "docs/kubectl.md", "docs/guide/second-scheduler.md", "docs/guide/leaving.md", "docs/guide/migration.md"}

// CommandRule says what is done with commands that are not run as they are.
type CommandRule struct {
	// Prefix is the beginning of the commands.
	Prefix string
	// Append is added to the command, or Instead run in its place; if both are empty, the
	// command is not run.
	Append, Instead string
	Reason          string
}

const (
	reasonInProcess  = "Berth runs in the process of the suite, which has applied these objects"
	reasonNoKubelet  = "no kubelet runs the pods of Berth here"
	reasonNoImages   = "images are neither built nor stored here"
	reasonMakeTarget = "a target of the Makefile, whose existence this package checks"
	reasonSource     = "a folder of the sources, whose existence this package checks"
	reasonExcerpt    = "an excerpt of a run of make demo, or of docs/kubectl.md, in the README"
)

// CommandRules are the rules for all commands that are not run as they are; the first with a
// matching prefix applies.
var CommandRules = []CommandRule{
	{Prefix: "make ", Reason: reasonMakeTarget},
	{Prefix: "go run ./", Reason: reasonSource},
	{Prefix: "go run -C test/support/devicedriver . publish ", Append: " --once", Reason: "it runs until it is interrupted"},
	{Prefix: "docker ", Reason: reasonNoImages},
	{Prefix: "helm ", Reason: "test/install/helm installs, upgrades and rolls back as this says, with the image that is there"},
	{Prefix: "kubectl label namespace berth-system ", Append: " --overwrite --dry-run=server", Reason: reasonInProcess},
	{Prefix: "mkdir berth-catalog", Reason: reasonNoImages},
	{Prefix: "printf ", Reason: reasonNoImages},
	{Prefix: "opm ", Reason: reasonNoImages + "; test/install/olm has opm render, validate and serve the bundle"},
	{Prefix: "kubectl apply -f config/olm/", Reason: "tools/bundle validates these files, and test/install/olm installs as they do"},
	{Prefix: "cosign ", Reason: "there is no release yet"},
	{Prefix: "sha256sum ", Reason: "there is no release yet"},
	{Prefix: "go build ", Reason: "builds the reader's own scheduler: test/integration/outoftree is one"},
	{Prefix: "kubectl apply --server-side -k config/", Append: " --force-conflicts --dry-run=server", Reason: reasonInProcess},
	{Prefix: "kubectl apply -f config/admission/", Append: " --dry-run=server", Reason: "nothing deletes it again, and it would refuse pods of other pages"},
	{Prefix: "kubectl create clusterrolebinding ", Append: " --dry-run=server", Reason: "nothing deletes it again"},
	{Prefix: "kubectl -n berth-system create serviceaccount ", Append: " --dry-run=server", Reason: "nothing deletes it again"},
	{Prefix: "kubectl -n berth-system rollout status ", Reason: reasonNoKubelet},
	{Prefix: "kubectl -n berth-system logs ", Reason: reasonNoKubelet},
	{Prefix: "kubectl -n berth-system port-forward ", Reason: reasonNoKubelet},
	{Prefix: "curl -k ", Reason: reasonNoKubelet + "; test/handover/restarts sends the same request to a manager"},
	{Prefix: "kubectl get why", Reason: reasonExcerpt},
	{Prefix: "kubectl berth explain pod/", Reason: reasonExcerpt},
	{Prefix: "kubectl get sprof,plugcfg", Reason: reasonExcerpt},
}

// RuleFor returns the rule for a command, if it is not run as it is. A command whose output
// is shown on a page that is not verified is an excerpt; the other rules are for commands
// without output.
func RuleFor(c Command) (CommandRule, bool) {
	at := slices.IndexFunc(CommandRules, func(o CommandRule) bool {
		return strings.HasPrefix(c.Text, o.Prefix) && (o.Reason == reasonExcerpt) == c.Shown
	})
	if at < 0 {
		return CommandRule{}, false
	}
	return CommandRules[at], true
}

// Commands returns the commands of a page: each line of a block sh, and in other blocks what
// follows "$ ". A line that ends in a backslash continues in the next one; in a session,
// lines after "> " continue the command.
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

// stripComment returns a command without the comment behind it.
func stripComment(text string) string {
	text, _, _ = strings.Cut(text, "  # ")
	return strings.TrimSpace(text)
}
