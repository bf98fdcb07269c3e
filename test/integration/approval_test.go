package integration

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/operator"
)

// The verb approve of the roles that are shipped, under the policy that is shipped.
var _ = Describe("The policy about approvals", func() {
	It("keeps whoever edits a profile from letting the change run", minute, func(ctx SpecContext) {
		editor, approver := userWith(ctx, "berth-profile-editor-role"), userWith(ctx, "berth-profile-approver-role")
		applyApprovals(ctx, editor)
		config := aPluginConfig(ctx, strategy("MostAllocated"))
		p := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{GenerateName: "batch-"}}
		p.Spec.Activation = v1alpha1.ActivationManual
		p.Spec.PluginConfig = []v1alpha1.PluginArguments{{Name: "NodeResourcesFit", ConfigRef: &v1alpha1.PluginConfigReference{Name: config.Name}}}
		Expect(editor.Create(ctx, p)).To(Succeed(), "a profile that waits for approval may be created")
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, p))).To(Succeed()) })
		awaits := func() {
			GinkgoHelper()
			Eventually(now(ctx, p)).Should(ContainElement("Programmed False AwaitingApproval"))
		}
		awaits()

		By("approving as one who may, and as one who may not")
		hash := waitsFor(p)
		Expect(annotated(ctx, editor, p, hash)).To(lackApprove(p, "metadata.annotations[berth.dev/approved-hash]"))
		Expect(annotated(ctx, approver, p, hash)).To(Succeed())
		expectReady(ctx, p)

		By("editing what was approved, in the profile and in what it refers to")
		Expect(patched(ctx, editor, p, `{"spec":{"percentageOfNodesToScore":50}}`)).To(Succeed())
		awaits()
		Expect(p.Status.Programmed.Hash).To(Equal(hash), "an approval is of one hash")
		Expect(annotated(ctx, editor, p, waitsFor(p))).To(lackApprove(p, "metadata.annotations"))
		Expect(annotated(ctx, approver, p, waitsFor(p))).To(Succeed())
		expectReady(ctx, p)
		editConfig(ctx, config, strategy("LeastAllocated"))
		awaits()
		Expect(annotated(ctx, editor, p, waitsFor(p))).To(lackApprove(p, "metadata.annotations"))

		By("going round it")
		Expect(patched(ctx, editor, p, `{"spec":{"activation":"Automatic"}}`)).To(lackApprove(p, "spec.activation"))
		Expect(patched(ctx, editor, p, `{"spec":{"activation":null}}`)).To(lackApprove(p, "spec.activation"))
		replaced := p.DeepCopy()
		replaced.Spec = v1alpha1.SchedulingProfileSpec{}
		Expect(editor.Update(ctx, replaced)).To(lackApprove(p, "spec.activation"))
		Expect(editor.Delete(ctx, p)).To(lackApprove(p, "must not be deleted"))
		mayDeleteAll := apitest.Created(ctx, admin, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "deletes-all-"},
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"schedulingprofiles"}, Verbs: []string{"deletecollection"},
			}},
		})
		deletesAll := userWith(ctx, mayDeleteAll.Name)
		Eventually(func() error {
			return deletesAll.DeleteAllOf(ctx, &v1alpha1.SchedulingProfile{}, client.MatchingFields{"metadata.name": p.Name})
		}).Should(lackApprove(p, "must not be deleted"), "once the rights of a new user count")
		collector := cp.Config()
		collector.Impersonate = rest.ImpersonationConfig{
			UserName: "system:serviceaccount:kube-system:generic-garbage-collector",
			Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"},
		}
		collects, err := client.New(collector, client.Options{Scheme: operator.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		Expect(collects.Delete(ctx, p)).To(lackApprove(p, "must not be deleted"), "an editor may name an owner that is not there")
		early := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: p.Name + "-early", Annotations: map[string]string{v1alpha1.AnnotationApprovedHash: hash}}}
		Expect(editor.Create(ctx, early)).To(lackApprove(early, "metadata.annotations"))
		account, err := client.New(accountConfig(ctx), client.Options{Scheme: operator.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		Expect(account.Status().Patch(ctx, p.DeepCopy(), mergePatch(annotation(waitsFor(p))))).To(Succeed())
		awaits()

		By("taking an approval back")
		Expect(patched(ctx, editor, p, `{"metadata":{"annotations":{"berth.dev/approved-hash":null}}}`)).To(Succeed())
		Expect(annotated(ctx, editor, p, hash)).To(lackApprove(p, "metadata.annotations"))
	})

	It("keeps whoever approves from editing", minute, func(ctx SpecContext) {
		editor, approver := userWith(ctx, "berth-profile-editor-role"), userWith(ctx, "berth-profile-approver-role")
		both := userWith(ctx, "berth-profile-editor-role", "berth-profile-approver-role")
		applyApprovals(ctx, editor)
		p := aProfile(ctx, func(s *v1alpha1.SchedulingProfileSpec) { s.Activation = v1alpha1.ActivationManual })
		for what, patch := range map[string]string{
			"the spec":                   `{"spec":{"percentageOfNodesToScore":50}}`,
			"the spec with the hash":     `{"metadata":{"annotations":{"berth.dev/approved-hash":"0123456789"}},"spec":{"percentageOfNodesToScore":50}}`,
			"the activation":             `{"spec":{"activation":"Automatic"}}`,
			"a label":                    `{"metadata":{"labels":{"a":"b"}}}`,
			"another annotation":         `{"metadata":{"annotations":{"berth.dev/take-over":"true"}}}`,
			"a finalizer":                `{"metadata":{"finalizers":["example.com/kept"]}}`,
			"who the profile's owner is": `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"1"}]}}`,
		} {
			Expect(patched(ctx, approver, p, patch)).To(beDenied("may approve SchedulingProfile "+p.Name+
				" and so must change its annotation berth.dev/approved-hash alone: to edit it takes the verb update"), what)
			Expect(patched(ctx, both, p, patch, client.DryRunAll)).To(Succeed(), what)
		}
		Expect(apierrors.IsForbidden(approver.Update(ctx, p.DeepCopy()))).To(BeTrue())
		Expect(apierrors.IsForbidden(approver.Delete(ctx, p))).To(BeTrue())
		Expect(both.Delete(ctx, p, client.DryRunAll)).To(Succeed())
	})

	It("lets somebody approve one profile alone", minute, func(ctx SpecContext) {
		editor := userWith(ctx, "berth-profile-editor-role")
		applyApprovals(ctx, editor)
		manual := func(s *v1alpha1.SchedulingProfileSpec) { s.Activation = v1alpha1.ActivationManual }
		own, other := aProfile(ctx, manual), aProfile(ctx, manual)
		role := apitest.Created(ctx, admin, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "approves-one-"},
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"schedulingprofiles"},
				ResourceNames: []string{own.Name}, Verbs: []string{"approve"},
			}},
		})
		who := userWith(ctx, role.Name, "berth-profile-editor-role")
		Expect(annotated(ctx, who, own, "0123456789")).To(Succeed())
		Expect(annotated(ctx, who, other, "0123456789")).To(lackApprove(other, "metadata.annotations"))
	})
})

// What other schedulers do is none of the policies' business.
var _ = Describe("Under all policies of config/admission another scheduler", func() {
	It("gets its pods, says why they wait, and binds them", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		expectReady(ctx, p)
		node := aNode(ctx, y.node("n"))
		bind := binding(ctx, aPod(ctx, y.pod(p, "waits").NodeSelector("no", "where")), node)
		thePolicy(ctx, "what-a-binding-carries.yaml", func(ctx context.Context) error { return bind(ctx, nil, foreign) })
		thePolicy(ctx, "no-orphaned-pods.yaml", removing(aProfileThatIsWaitedFor(ctx, aYard(ctx))))
		applyApprovals(ctx, userWith(ctx, "berth-profile-editor-role"))
		thePolicy(ctx, "profiles-by-namespace.yaml", func(ctx context.Context) error {
			return admin.Create(ctx, y.pod(p, "refused").Valid(), client.DryRunAll)
		})
		scheduler := cp.Config()
		scheduler.Impersonate = rest.ImpersonationConfig{UserName: "system:kube-scheduler", Groups: []string{"system:authenticated"}}
		api := kubernetes.NewForConfigOrDie(scheduler)
		for at, name := range []string{v1.DefaultSchedulerName, "volcano", "my-scheduler"} {
			pod := y.pod(p, fmt.Sprint("other-", at)).SchedulerName(name).Valid()
			Expect(admin.Create(ctx, pod)).To(Succeed(), name)
			pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: "no nodes"}}
			_, err := api.CoreV1().Pods(y.name).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
			Expect(err).NotTo(HaveOccurred(), name)
			Expect(api.CoreV1().Pods(y.name).Bind(ctx, &v1.Binding{
				ObjectMeta: metav1.ObjectMeta{
					Name: pod.Name, Namespace: y.name, UID: pod.UID,
					Labels: map[string]string{"volcano.sh/queue": "q"}, Annotations: map[string]string{"scheduler.example.com/why": "first"},
				},
				Target: v1.ObjectReference{Kind: "Node", Name: node.Name},
			}, metav1.CreateOptions{})).To(Succeed(), name)
		}
	})
})

// users counts those of this process.
var users atomic.Int64

// userWith is a user of its own who has ClusterRoles and nothing else.
func userWith(ctx context.Context, roles ...string) client.Client {
	GinkgoHelper()
	who := fmt.Sprint("user-", GinkgoRandomSeed(), "-", users.Add(1))
	for _, role := range roles {
		apitest.Created(ctx, admin, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "of-" + who + "-"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: who}},
		})
	}
	config := cp.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: who, Groups: []string{"system:authenticated"}}
	user, err := client.New(config, client.Options{Scheme: operator.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return user
}

// applyApprovals applies the policy about approvals, and waits until it counts.
func applyApprovals(ctx context.Context, editor client.Client) {
	GinkgoHelper()
	approved := func(ctx context.Context) error {
		p := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: "never-there", Annotations: map[string]string{v1alpha1.AnnotationApprovedHash: "0123456789"}}}
		return editor.Create(ctx, p, client.DryRunAll)
	}
	// The rights of a new user count a little after they are there.
	Eventually(approved).WithContext(ctx).Should(Succeed())
	thePolicy(ctx, "approvals.yaml", approved)
}

func mergePatch(text string) client.Patch {
	return client.RawPatch(apitypes.MergePatchType, []byte(text))
}

func annotation(hash string) string {
	return fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationApprovedHash, hash)
}

// annotated is what is said to a user who approves a hash.
func annotated(ctx context.Context, user client.Client, p *v1alpha1.SchedulingProfile, hash string) error {
	return patched(ctx, user, p, annotation(hash))
}

// patched is what is said to a user who patches a profile.
func patched(ctx context.Context, user client.Client, p *v1alpha1.SchedulingProfile, patch string, with ...client.PatchOption) error {
	return user.Patch(ctx, p.DeepCopy(), mergePatch(patch), with...)
}

func beDenied(why string) types.GomegaMatcher {
	return SatisfyAll(WithTransform(apierrors.IsForbidden, BeTrue()), MatchError(ContainSubstring(why)))
}

func lackApprove(p *v1alpha1.SchedulingProfile, what string) types.GomegaMatcher {
	return SatisfyAll(beDenied(what), beDenied("lacks the verb approve on schedulingprofiles.berth.dev "+p.Name+"; the ClusterRole berth-profile-approver-role has it"))
}

// waitsFor is the hash that a profile's message asks to approve.
func waitsFor(p *v1alpha1.SchedulingProfile) string {
	GinkgoHelper()
	said := message(p, v1alpha1.ConditionProgrammed)
	_, hash, found := strings.Cut(said, "--overwrite "+v1alpha1.AnnotationApprovedHash+"=")
	Expect(found).To(BeTrue(), said)
	return hash
}
