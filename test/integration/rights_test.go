package integration

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/berthdev/berth/test/support/audit"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
)

const managerAccount = "system:serviceaccount:" + operator.Namespace + ":" + operator.Account

// asked is what the API server notes of the manager's requests.
var asked audit.Log

// What runs here is the manager in this process: what it asks as the program that is
// shipped is asked by that.
var _ = Describe("The manager as a program", func() {
	// It takes minutes where nothing of it was compiled before.
	It("stands by, and lets those scrape it who may", SpecTimeout(10*time.Minute), func(ctx SpecContext) {
		binary, err := operator.Build(ctx)
		Expect(err).NotTo(HaveOccurred())
		manager, err := operator.Start(ctx, cp, binary, "--default-profile=")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { cp.End(manager.Process) })
		Expect(manager.Until(ctx, manager.Ready)).To(Succeed())
		token, err := operator.AccountWith(ctx, cp, "prometheus", operator.ScrapeRole)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() (int, error) {
			status, _, err := manager.Scrape(ctx, token)
			return status, err
		}).Should(Equal(http.StatusOK))
	})
})

// way is one of installing Berth.
type way struct {
	// folder is below config, static a file of it that holds the pod where the folder's
	// kustomization has none.
	folder, static string
	// lacks are the rights that it does not give, since its manager lacks the flag that
	// needs them.
	lacks []string
}

// The specs' manager has every flag, and every right that a component gives with one.
// dist/install.yaml is config/default, which `make verify` looks at, and so are the
// rights that come with the bundle, as tools/bundle's tests have it.
var ways = []way{
	{folder: "default", lacks: []string{forOtherLease, forSecrets}},
	{folder: "production", lacks: []string{forOtherLease, forSecrets}},
	{folder: "static-pod", static: "berth.yaml", lacks: []string{forSecrets}},
}

const (
	forOtherLease = "get leases.coordination.k8s.io kube-system/kube-scheduler"
	forSecrets    = "get secrets berth-system/"
)

// flags say by which flag a right is needed.
var flags = map[string]string{forSecrets: "--enable-extenders", forOtherLease: "--other-scheduler-lease="}

// rightsOf are what a way of installing gives the manager's account. The flags of its
// manager and the rights that it lacks must agree.
func rightsOf(ctx context.Context, w way) []audit.Right {
	GinkgoHelper()
	root, err := controlplane.ModuleRoot()
	Expect(err).NotTo(HaveOccurred())
	folder := filepath.Join(root, "config", w.folder)
	text, err := kubectl(ctx, "kustomize", folder)
	Expect(err).NotTo(HaveOccurred())
	manifests, err := audit.Manifests(text)
	Expect(err).NotTo(HaveOccurred())
	if w.static != "" {
		pod, err := os.ReadFile(filepath.Join(folder, w.static))
		Expect(err).NotTo(HaveOccurred())
		text = string(pod)
	}
	for right, flag := range flags {
		Expect(strings.Contains(text, "- "+flag)).To(Equal(!slices.Contains(w.lacks, right)), "%s: %s and the right to %s", w.folder, flag, right)
	}
	rights, err := audit.Granted(ctx, manifests, operator.Namespace, operator.Account)
	Expect(err).NotTo(HaveOccurred())
	return rights
}

func unused(rights []audit.Right, entries []audit.Entry) (names []string) {
	for _, right := range audit.Unused(rights, entries) {
		names = append(names, right.String())
	}
	return names
}

// missing are the rights that would be missing; that to any Secret counts once.
func missing(rights []audit.Right, entries []audit.Entry) (needs []string) {
	for _, need := range audit.Missing(rights, entries) {
		if strings.HasPrefix(need, forSecrets) {
			need = forSecrets
		}
		needs = append(needs, need)
	}
	return slices.Compact(needs)
}

// When all specs have run, the manager has asked for nothing that it may not do,
// and has made use of everything that it may; so it would have, but for the flags, in
// whichever way it was installed.
var _ = AfterSuite(func(ctx SpecContext) {
	if cp == nil {
		return // it did not start
	}
	entries, err := asked.Entries()
	Expect(err).NotTo(HaveOccurred())
	Expect(entries).NotTo(ContainElement(beForbidden()), "what config/rbac does not let the manager do")
	if suite, _ := GinkgoConfiguration(); len(suite.FocusStrings)+len(suite.SkipStrings)+len(suite.FocusFiles)+len(suite.SkipFiles) > 0 {
		return // what the other specs use is not used now
	}
	granted, err := audit.Granted(ctx, admin, operator.Namespace, operator.Account)
	Expect(err).NotTo(HaveOccurred())
	Expect(granted).NotTo(BeEmpty())
	Expect(audit.Missing(granted, entries)).To(BeEmpty(), "the suite's own installation")
	Expect(unused(granted, entries)).To(BeEmpty(), "what config/rbac lets the manager do for nothing")
	for _, w := range ways {
		rights := rightsOf(ctx, w)
		Expect(unused(rights, entries)).To(BeEmpty(), "%s: what it lets the manager do for nothing", w.folder)
		Expect(missing(rights, entries)).To(Equal(w.lacks), "%s: what it does not let the manager do", w.folder)
	}
}, NodeTimeout(patience))

func beForbidden() types.GomegaMatcher {
	return WithTransform(func(e audit.Entry) bool { return e.Forbidden() }, BeTrue())
}
