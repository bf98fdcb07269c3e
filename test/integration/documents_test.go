package integration

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

var _ = Describe("docs/hot-swap.md", func() {
	It("shows what its commands print", SpecTimeout(4*time.Minute), func(ctx SpecContext) {
		for _, name := range []string{"a-1", "a-2", "b-1", "b-2"} {
			aNode(ctx, fixture.Node(name).Label(v1.LabelTopologyZone, name[:1]).Capacity("cpu", "16", "pods", "110"))
		}
		DeferCleanup(func(ctx SpecContext) {
			_, _ = kubectl(ctx, "delete", "sprof", "web", "--ignore-not-found")
			Expect(admin.DeleteAllOf(ctx, &v1.Pod{}, client.InNamespace("default"), client.GracePeriodSeconds(0))).To(Succeed())
		})
		forget(ctx, "web")
		expectPage(ctx, "hot-swap.md")
	})
})

// forget takes away what is stored of profiles of that name that other specs had:
// a page shows its own.
func forget(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(admin.DeleteAllOf(ctx, &appsv1.ControllerRevision{}, client.InNamespace(operator.Namespace), client.MatchingLabels{v1alpha1.LabelProfile: name})).To(Succeed())
}

var update = flag.Bool("update", false, "write what pages of the documentation print anew")

// expectPage plays a page of the documentation.
func expectPage(ctx context.Context, name string) {
	GinkgoHelper()
	expectPlayed(ctx, filepath.Join("docs", name), timeless)
}

// expectPlayed plays a page, whose path in the module that is, and holds what its
// commands print, as plain has it, to what stands there. It returns what they
// printed.
func expectPlayed(ctx context.Context, path string, plain func(string) string) string {
	GinkgoHelper()
	page := filepath.Join(moduleRoot(), path)
	text, err := os.ReadFile(page)
	Expect(err).NotTo(HaveOccurred())
	played := play(ctx, string(text))
	if *update {
		Expect(os.WriteFile(page, []byte(played), 0o644)).To(Succeed())
	} else {
		Expect(plain(played)).To(Equal(plain(string(text))), "-update writes the page anew")
	}
	return played
}

func moduleRoot() string {
	GinkgoHelper()
	root, err := controlplane.ModuleRoot()
	Expect(err).NotTo(HaveOccurred())
	return root
}

// consoles are the blocks of a page that show commands, after "$ ", and what
// they printed. Lines after "> " go on with a command.
var consoles = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// play runs the commands of a page, in turn, and returns the page with what
// they print now.
func play(ctx context.Context, page string) string {
	GinkgoHelper()
	return consoles.ReplaceAllStringFunc(page, func(block string) string {
		out := "```console\n"
		var command []string
		run := func() {
			if command == nil {
				return
			}
			out += "$ " + strings.Join(command, "\n> ") + "\n" + shell(ctx, strings.Join(command, "\n"))
			command = nil
		}
		for line := range strings.Lines(consoles.FindStringSubmatch(block)[1]) {
			line = strings.TrimSuffix(line, "\n")
			if first, ok := strings.CutPrefix(line, "$ "); ok {
				run()
				command = []string{first}
			} else if more, ok := strings.CutPrefix(line, "> "); ok && command != nil {
				command = append(command, more)
			}
		}
		run()
		return out + "```"
	})
}

// shell runs a command as who administers the cluster.
func shell(ctx context.Context, command string) string {
	GinkgoHelper()
	binaries, err := controlplane.Assets(ctx)
	Expect(err).NotTo(HaveOccurred())
	tool, err := binaries.Path("kubectl")
	Expect(err).NotTo(HaveOccurred())
	c := exec.CommandContext(ctx, "sh", "-c", command)
	// A discovery cache of its own: ports come again, for other clusters.
	c.Dir = moduleRoot()
	c.Env = append(os.Environ(), "KUBECONFIG="+cp.Kubeconfig(), "KUBECACHEDIR="+filepath.Join(cp.Dir(), "kubectl"), fmt.Sprintf("PATH=%s:%s:%s", filepath.Join(moduleRoot(), "bin"), filepath.Dir(tool), os.Getenv("PATH")))
	out, err := c.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s\n%s", command, out)
	return string(out)
}

var (
	clockTimes = regexp.MustCompile(`\b\d\d:\d\d(:\d\d)?\b`)
	ages       = regexp.MustCompile(`\b(\d+m)?\d+s\b`)
	spaces     = regexp.MustCompile(` +`)
	// numbered are pods that differ in the second in which they were bound.
	numbered = regexp.MustCompile(`\bweb-([ab])-\d\b`)
	// standings are what a revision has until it ran for a while, and then.
	standings = regexp.MustCompile(`(served, )?on probation|\bstable\b`)
	// continued are lines of a report that a longer word would break elsewhere.
	continued = regexp.MustCompile(`\n {20}`)
	// holders are managers that hold the Lease: a host and a number.
	holders = regexp.MustCompile(`\S+_[0-9a-f]{8}-[0-9a-f-]{27}`)
	// epochs are leader epochs: how often the suite started a manager before.
	epochs = regexp.MustCompile(`leader epoch \d+`)
	// servers are the version of the API server: a page shows the newest.
	servers = regexp.MustCompile(`(Server|Kubernetes) +v1\.\d+\.\d+\b`)
)

// timeless is a page without what a run on another day prints otherwise.
func timeless(page string) string {
	page = continued.ReplaceAllString(standings.ReplaceAllString(page, "STANDING"), " ")
	page = epochs.ReplaceAllString(page, "leader epoch N")
	page = servers.ReplaceAllString(holders.ReplaceAllString(page, "HOLDER"), "$1 VERSION")
	page = numbered.ReplaceAllString(clockTimes.ReplaceAllString(page, "HH:MM"), "web-$1-N")
	return spaces.ReplaceAllString(ages.ReplaceAllString(page, "Ns"), " ")
}
