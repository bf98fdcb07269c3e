package integration

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/berthdev/berth/test/audit"
	"github.com/berthdev/berth/test/operator"
)

const managerAccount = "system:serviceaccount:" + operator.Namespace + ":" + operator.Account

// asked is what the API server notes of the manager's requests.
var asked audit.Log

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
