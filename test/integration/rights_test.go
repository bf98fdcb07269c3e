package integration

import (
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/berthdev/berth/test/audit"
	"github.com/berthdev/berth/test/operator"
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

// When all specs have run, the manager has asked for nothing that it may not do,
// and has made use of everything that it may.
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
	var unused []string
	for _, right := range audit.Unused(granted, entries) {
		unused = append(unused, right.String())
	}
	Expect(unused).To(BeEmpty(), "what config/rbac lets the manager do for nothing")
}, NodeTimeout(patience))

func beForbidden() types.GomegaMatcher {
	return WithTransform(func(e audit.Entry) bool { return e.Forbidden() }, BeTrue())
}
