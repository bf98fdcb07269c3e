package integration

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/docs"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

// allPages returns the pages of the documentation. The first spec reports the error.
func allPages() ([]docs.Page, error) {
	root, err := controlplane.ModuleRoot()
	if err != nil {
		return nil, err
	}
	return docs.All(root)
}

// setupCommands are commands to run before those of a page, by its path.
var setupCommands = map[string]string{
	"docs/guide/default-scheduler.md": "kubectl annotate sprof default-scheduler berth.dev/take-over=true",
	"docs/plugins/README.md":          "kubectl wait --for=condition=Ready sprof/batch",
}

// cleanupCommand deletes what a page leaves behind beside the objects that it shows. Berth adds
// a finalizer to claims, and no controller runs here that would remove it.
const cleanupCommand = "kubectl delete pods --all -n default --force --grace-period=0 --ignore-not-found 2>/dev/null; " +
	"kubectl delete deployments,sprof,plugcfg --all -n default --ignore-not-found --wait=false; " +
	"kubectl delete deviceclasses,resourceslices,resourceclaimtemplates,resourceclaims --all -n default --wait=false; " +
	"for claim in $(kubectl get resourceclaims -n default -o name); do " +
	"kubectl patch -n default $claim --type=merge --patch='{\"metadata\": {\"finalizers\": null}}'; done; " +
	"kubectl delete namespace red-shop --ignore-not-found --wait=false"

var _ = Describe("The documentation", Ordered, ContinueOnFailure, func() {
	BeforeAll(func(ctx SpecContext) {
		// A page runs the driver, and a spec has no time to compile it.
		for folder, command := range map[string]string{".": "./cmd/kubectl-berth", "test/support/devicedriver": "."} {
			build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", filepath.Join(moduleRoot(), "bin")+"/", command)
			build.Dir, build.Stdout, build.Stderr = filepath.Join(moduleRoot(), folder), GinkgoWriter, GinkgoWriter
			Expect(build.Run()).To(Succeed())
		}
	}, NodeTimeout(10*time.Minute))

	BeforeEach(func(ctx SpecContext) {
		DeferCleanup(func(ctx SpecContext) { shell(ctx, cleanupCommand) })
	})

	for _, path := range []string{"guide/second-scheduler.md", "guide/leaving.md", "guide/migration.md"} {
		It("has the output of the commands of "+path, SpecTimeout(4*time.Minute), func(ctx SpecContext) {
			// Of nodes with equal scores the first wins. A manager starts each cycle at the
			// node after the last one of the cycle before, and a new manager at the first
			// node. Nodes that exist when it starts are in the order of their names, later
			// ones in the order of creation.
			stopManager()
			berth = startManager(ctx)
			createPageNodes(ctx)
			for _, profile := range []string{"shop", "web", "batch"} {
				deleteRevisions(ctx, profile)
			}
			checkPage(ctx, filepath.FromSlash(path))
		})
	}

	It("has manifests that the API server accepts", SpecTimeout(4*time.Minute), func(ctx SpecContext) {
		all, err := allPages()
		Expect(err).NotTo(HaveOccurred())
		monitoring := filepath.Join(moduleRoot(), "test", "install", "monitoring", "kinds.yaml")
		Expect(cp.InstallCRDs(ctx, monitoring)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(kubectl(ctx, "delete", "--wait=false", "-f", monitoring)).Error().NotTo(HaveOccurred())
		})
		for _, page := range all {
			for _, block := range page.Blocks {
				if block.Language != "yaml" {
					continue
				}
				text, err := block.Manifests(moduleRoot())
				Expect(err).NotTo(HaveOccurred())
				if strings.Contains(text, "kind: Kustomization") {
					checkOverlay(ctx, text)
					continue
				}
				_, err = cp.Kubectl(ctx, strings.NewReader(text), "apply", "--dry-run=server", "--validate=strict", "-f", "-")
				Expect(err).NotTo(HaveOccurred(), "%s:%d", page.Path, block.Line)
			}
		}
	})

	all, err := allPages()
	It("is readable", func() { Expect(err).NotTo(HaveOccurred()) })
	for _, page := range all {
		var run []docs.Command
		for _, c := range page.Commands() {
			if !c.Shown {
				run = append(run, c)
			}
		}
		if len(run) == 0 {
			continue
		}
		It("has commands that succeed, in "+page.Path, SpecTimeout(3*time.Minute), func(ctx SpecContext) {
			createPageNodes(ctx)
			folder := readerFolder()
			if !slices.Contains(docs.VerifiedPages, page.Path) {
				applyManifests(ctx, page)
			}
			if first := setupCommands[page.Path]; first != "" {
				shell(ctx, first)
			}
			for _, c := range run {
				text := c.Text
				if other, is := docs.RuleFor(c); is && other.Append+other.Instead == "" {
					continue
				} else if is && other.Instead != "" {
					text = other.Instead
				} else if is {
					text += other.Append
				}
				By(fmt.Sprintf("%s:%d: %s", page.Path, c.Line, text))
				shell(ctx, "cd "+folder+" && "+text)
			}
		})
	}
})

// createPageNodes creates the nodes that the pages have: two in each of two zones.
func createPageNodes(ctx context.Context) {
	GinkgoHelper()
	for _, name := range []string{"a-1", "a-2", "b-1", "b-2"} {
		node := fixture.Node(name).Label(v1.LabelTopologyZone, name[:1]).Capacity("cpu", "16", "memory", "64Gi", "pods", "110")
		if name == "b-2" {
			node = node.Label("pool", "shop").Label("example.com/gpu.present", "true")
		}
		createNode(ctx, node)
	}
}

// readerFolder returns a folder with what a reader of a page has: the sources, and a
// workload.
func readerFolder() string {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	for _, source := range []string{"config", "test"} {
		Expect(os.Symlink(filepath.Join(moduleRoot(), source), filepath.Join(folder, source))).To(Succeed())
	}
	deployment := "{apiVersion: apps/v1, kind: Deployment, metadata: {name: mine}, spec: {replicas: 2, selector: {matchLabels: {app: mine}}, " +
		"template: {metadata: {labels: {app: mine}}, spec: {containers: [{name: mine, image: mine}]}}}}"
	Expect(os.WriteFile(filepath.Join(folder, "deployment.yaml"), []byte(deployment), 0o644)).To(Succeed())
	return folder
}

// applyManifests applies the manifests of a page.
func applyManifests(ctx context.Context, page docs.Page) {
	GinkgoHelper()
	for _, block := range page.Blocks {
		if block.Language != "yaml" || block.Info != "" {
			continue
		}
		text, err := block.Manifests(moduleRoot())
		Expect(err).NotTo(HaveOccurred())
		_, err = cp.Kubectl(ctx, strings.NewReader(text), "apply", "-f", "-")
		Expect(err).NotTo(HaveOccurred(), "%s:%d", page.Path, block.Line)
	}
}

// checkOverlay applies an overlay of config in a dry run.
func checkOverlay(ctx context.Context, text string) {
	GinkgoHelper()
	folder := readerFolder()
	text = strings.ReplaceAll(text, "github.com/berthdev/berth/config/", "config/")
	Expect(os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o644)).To(Succeed())
	shell(ctx, "kubectl kustomize "+folder+" | kubectl apply --server-side --force-conflicts --dry-run=server -f -")
}

var _ = Describe("docs/hot-swap.md", func() {
	It("has the output of its commands", SpecTimeout(4*time.Minute), func(ctx SpecContext) {
		for _, name := range []string{"a-1", "a-2", "b-1", "b-2"} {
			createNode(ctx, fixture.Node(name).Label(v1.LabelTopologyZone, name[:1]).Capacity("cpu", "16", "pods", "110"))
		}
		DeferCleanup(func(ctx SpecContext) {
			_, _ = kubectl(ctx, "delete", "sprof", "web", "--ignore-not-found")
			Expect(admin.DeleteAllOf(ctx, &v1.Pod{}, client.InNamespace("default"), client.GracePeriodSeconds(0))).To(Succeed())
		})
		deleteRevisions(ctx, "web")
		checkPage(ctx, "hot-swap.md")
	})
})

// deleteRevisions deletes the revisions of profiles of this name that other specs created.
func deleteRevisions(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(admin.DeleteAllOf(ctx, &appsv1.ControllerRevision{}, client.InNamespace(operator.Namespace), client.MatchingLabels{v1alpha1.LabelProfile: name})).To(Succeed())
}

var update = flag.Bool("update", false, "write what pages of the documentation print anew")

// checkPage runs the commands of a page of docs.
func checkPage(ctx context.Context, name string) {
	GinkgoHelper()
	checkSession(ctx, filepath.Join("docs", name), normalizeTimes)
}

// checkSession runs the commands of a page, given by its path in the module, compares the
// normalized output with the page, and returns the page with the new output.
func checkSession(ctx context.Context, path string, plain func(string) string) string {
	GinkgoHelper()
	return checkRecordedSession(ctx, path, plain, nil)
}

// checkRecordedSession is checkSession with a recording, or nil.
func checkRecordedSession(ctx context.Context, path string, plain func(string) string, record *recording) string {
	GinkgoHelper()
	page := filepath.Join(moduleRoot(), path)
	text, err := os.ReadFile(page)
	Expect(err).NotTo(HaveOccurred())
	session := runSession(ctx, string(text), record)
	if *update {
		Expect(os.WriteFile(page, []byte(session), 0o644)).To(Succeed())
	} else {
		Expect(cmp.Diff(plain(string(text)), plain(session))).To(BeEmpty(), "-update writes the new output")
	}
	return session
}

func moduleRoot() string {
	GinkgoHelper()
	root, err := controlplane.ModuleRoot()
	Expect(err).NotTo(HaveOccurred())
	return root
}

// consoleBlocks are the blocks of a page with commands, after "$ ", and their output. Lines
// after "> " continue a command.
var consoleBlocks = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// runSession runs the commands of a page in order and returns the page with the new output.
// What it runs is added to the recording, which may be nil.
func runSession(ctx context.Context, page string, record *recording) string {
	GinkgoHelper()
	end := 0
	return consoleBlocks.ReplaceAllStringFunc(page, func(block string) string {
		start := end + strings.Index(page[end:], block)
		record.comment(introduction(page[end:start]))
		end = start + len(block)
		out := "```console\n"
		var command []string
		run := func() {
			if command == nil {
				return
			}
			text, began := strings.Join(command, "\n"), time.Now()
			printed := shell(ctx, text)
			record.command(text, printed, time.Since(began))
			out += "$ " + strings.ReplaceAll(text, "\n", "\n> ") + "\n" + printed
			command = nil
		}
		for line := range strings.Lines(consoleBlocks.FindStringSubmatch(block)[1]) {
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

// shell runs a command as the administrator.
func shell(ctx context.Context, command string) string {
	GinkgoHelper()
	binaries, err := controlplane.Assets(ctx)
	Expect(err).NotTo(HaveOccurred())
	tool, err := binaries.Path("kubectl")
	Expect(err).NotTo(HaveOccurred())
	c := exec.CommandContext(ctx, "sh", "-c", command)
	// The discovery cache is the cluster's own: another cluster may have had the same port.
	c.Dir = moduleRoot()
	c.Env = append(os.Environ(), "KUBECONFIG="+cp.Kubeconfig(), "KUBECACHEDIR="+filepath.Join(cp.Dir(), "kubectl"), fmt.Sprintf("PATH=%s:%s:%s", filepath.Join(moduleRoot(), "bin"), filepath.Dir(tool), os.Getenv("PATH")))
	out, err := c.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s\n%s", command, out)
	return string(out)
}

var (
	clockTimes = regexp.MustCompile(`\b\d\d:\d\d(:\d\d)?\b`)
	// ages are written as 2m for 2m0s.
	ages   = regexp.MustCompile(`\b(\d+m)?\d+s\b|\b[2-9]m\b`)
	spaces = regexp.MustCompile(` +`)
	// numberedPods are the names of pods that differ in the second in which they were
	// bound.
	numberedPods = regexp.MustCompile(`\bweb-([ab])-\d\b`)
	// revisionStates are the states of a revision, which depend on how long it ran.
	revisionStates = regexp.MustCompile(`(served, )?on probation|\bstable\b`)
	// continuationLines are line breaks that depend on the length of words.
	continuationLines = regexp.MustCompile(`\n {20}`)
	// leaseHolders are the identities of managers that hold the Lease.
	leaseHolders = regexp.MustCompile(`\S+_[0-9a-f]{8}-[0-9a-f-]{27}`)
	// leaderEpochs depend on how often the suite started a manager before.
	leaderEpochs = regexp.MustCompile(`leader epoch \d+`)
	// serverVersions are versions of the API server: a page shows the newest.
	serverVersions = regexp.MustCompile(`(Server|Kubernetes) +v1\.\d+\.\d+\b`)
)

// normalizeTimes removes what differs in another run.
func normalizeTimes(page string) string {
	page = continuationLines.ReplaceAllString(revisionStates.ReplaceAllString(page, "STANDING"), " ")
	page = leaderEpochs.ReplaceAllString(page, "leader epoch N")
	page = serverVersions.ReplaceAllString(leaseHolders.ReplaceAllString(page, "HOLDER"), "$1 VERSION")
	page = numberedPods.ReplaceAllString(clockTimes.ReplaceAllString(page, "HH:MM"), "web-$1-N")
	return spaces.ReplaceAllString(ages.ReplaceAllString(page, "Ns"), " ")
}
