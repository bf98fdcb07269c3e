package integration

import (
	"github.com/berthdev/berth/test/support/apitest"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

var _ = Describe("The manager that all of these specs speak about", func() {
	It("has the shipped ServiceAccount, and no right that is not shipped", minute, func(ctx SpecContext) {
		its, err := kubernetes.NewForConfig(accountConfig(ctx))
		Expect(err).NotTo(HaveOccurred())
		who, err := its.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(who.Status.UserInfo.Username).To(Equal("system:serviceaccount:berth-system:berth-manager"))
		Expect(who.Status.UserInfo.Groups).To(ConsistOf(
			"system:serviceaccounts", "system:serviceaccounts:berth-system", "system:authenticated"))

		may := func(verb, resource, subresource string) bool {
			review, err := its.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: verb, Resource: resource, Subresource: subresource,
				}},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			return review.Status.Allowed
		}
		Expect(may("create", "pods", "binding")).To(BeTrue())
		Expect(may("patch", "pods", "status")).To(BeTrue())
		Expect(may("update", "pods", "")).To(BeFalse())
		Expect(may("get", "secrets", "")).To(BeFalse())
	})
})

var _ = Describe("When the leader goes", func() {
	It("its pods are bound by the next one, and it says nothing more about those that it began with", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx, neverFlushing, sluicedAt(atPreBind))
		seen := watching(ctx, y)
		node := aNode(ctx, y.node("n").Capacity("cpu", "2"))
		unfit := aPod(ctx, y.pod(p, "unfit").Requests("cpu", "3"))
		expectHeld(ctx, v1.PodReasonUnschedulable, unfit)
		open := sluices.preBind.close()
		defer open()
		begun := aPod(ctx, y.pod(p, "begun").Requests("cpu", "1"))
		Eventually(waiting(p)).Should(HaveField("InFlight", 1))

		stopManager()
		open()
		meanwhile := aPod(ctx, y.pod(p, "meanwhile").Requests("cpu", "1").NodeSelector(v1.LabelHostname, node.Name))
		aNode(ctx, y.node("big").Capacity("cpu", "3").Taint("for", "unfit", v1.TaintEffectNoSchedule))
		apitest.Change(ctx, admin, unfit, func(pod *v1.Pod) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, v1.Toleration{Key: "for", Operator: v1.TolerationOpExists})
		})
		berth = startManager(ctx)
		admin.ExpectBound(ctx, begun, meanwhile, unfit)
		Eventually(seen.standings(begun)).Should(ContainElement("True"))
		Expect(seen.standings(begun)()).To(HaveExactElements(HavePrefix("Unknown LeaderHandover"), Equal("True")), "never an error that was none")
	})
})
