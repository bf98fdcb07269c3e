package integration

import (
	"context"
	"fmt"
	"path/filepath"
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
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
)

// What the API server rejects when config/admission is applied. The API server enforces a
// policy some time after it is created, and for some time after it is deleted: specs wait
// for both.
var _ = Describe("The policies of config/admission", func() {
	It("allow the profiles that a namespace's labels name", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		ask := func(ctx context.Context) error { return admin.Create(ctx, env.pod(p, "web").Valid(), client.DryRunAll) }
		applyPolicy(ctx, "profiles-by-namespace.yaml", ask)

		Expect(ask(ctx)).To(MatchError(ContainSubstring("spec.schedulerName: namespace " + env.namespace + " may not use profile " + p.Name +
			": it has no label profiles.berth.dev/" + p.Name + "=allowed")))
		Expect(admin.Create(ctx, env.pod(p, "other").SchedulerName(v1.DefaultSchedulerName).Valid(), client.DryRunAll)).To(Succeed())
		label := func(value string) {
			_, err := kubectl(ctx, "label", "namespace", env.namespace, "profiles.berth.dev/"+p.Name+value)
			Expect(err).NotTo(HaveOccurred())
		}
		label("=allowed")
		Eventually(ask).WithContext(ctx).Should(Succeed())
		label("-")
		Eventually(ask).WithContext(ctx).ShouldNot(Succeed())
	})

	It("restrict what Berth's Bindings carry", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		node := createNode(ctx, env.node("n").Label(v1.LabelTopologyZone, "z1").Label(v1.LabelTopologyRegion, "r1"))
		expectReady(ctx, p)
		bind := dryRunBind(ctx, createPod(ctx, env.pod(p, "pending").NodeSelector("no", "where")), node)
		applyPolicy(ctx, "what-a-binding-carries.yaml", func(ctx context.Context) error { return bind(ctx, nil, foreignAnnotation) })

		Expect(bind(ctx, nil, foreignAnnotation)).To(MatchError(ContainSubstring(
			"metadata.annotations: a Binding of Berth carries berth.dev/decision alone, has pod-security.example.com/exempt")))
		Expect(bind(ctx, map[string]string{"app": "bank"}, nil)).To(MatchError(ContainSubstring(
			"metadata.labels: a Binding of Berth carries the labels of zone and region alone, has app")))
		bound := createPod(ctx, env.pod(p, "web"))
		admin.ExpectBound(ctx, bound)
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(bound), bound)).To(Succeed())
		Expect(bound.Labels).To(HaveKeyWithValue(v1.LabelTopologyZone, "z1"), "the API server adds its own labels")
		Expect(bound.Annotations).To(HaveKey(v1alpha1.AnnotationDecision))
	})

	It("reject the deletion of a profile that has pending pods, unless it is annotated", minute, func(ctx SpecContext) {
		p := createProfileWithPendingPod(ctx, newTestEnv(ctx))
		remove := dryRunDelete(p)
		applyPolicy(ctx, "no-orphaned-pods.yaml", remove)

		Expect(remove(ctx)).To(MatchError(ContainSubstring("1 pods wait for profile " + p.Name +
			": bind or delete them first, or annotate it with berth.dev/delete-anyway=true")))
		_, err := kubectl(ctx, "annotate", "sprof", p.Name, "berth.dev/delete-anyway=true")
		Expect(err).NotTo(HaveOccurred())
		Expect(remove(ctx)).To(Succeed())
		_, err = kubectl(ctx, "annotate", "sprof", p.Name, "berth.dev/delete-anyway-")
		Expect(err).NotTo(HaveOccurred())
		Expect(remove(ctx)).NotTo(Succeed())
	})

	// Status is written by hand: Berth, with nothing to count, does not write it again.
	It("reject the deletion of a profile whose only pod is in flight, or whose pods are not counted", minute, func(ctx SpecContext) {
		p := createProfile(ctx, publishEvery(1))
		expectReady(ctx, p)
		Eventually(func(g Gomega) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
			g.Expect(p.Status.Queue).NotTo(BeNil())
		}).Should(Succeed())
		remove := dryRunDelete(p)
		setQueue := func(queue string) {
			GinkgoHelper()
			Expect(admin.Status().Patch(ctx, p.DeepCopy(), mergePatch(`{"status":{"queue":`+queue+`}}`))).To(Succeed())
		}
		setQueue(`{"inFlight":1}`)
		applyPolicy(ctx, "no-orphaned-pods.yaml", remove)

		Expect(remove(ctx)).To(MatchError(ContainSubstring("1 pods wait for profile " + p.Name)))
		setQueue(`{"inFlight":0}`)
		Expect(remove(ctx)).To(Succeed())
		setQueue(`null`)
		Expect(remove(ctx)).To(MatchError(ContainSubstring("Berth has not counted the pods that wait for profile " + p.Name +
			": wait for its status.queue, or annotate it with berth.dev/delete-anyway=true")))
	})
})

// foreignAnnotation is an annotation that Berth's Bindings may not carry.
var foreignAnnotation = map[string]string{"pod-security.example.com/exempt": "true"}

// dryRunBind returns a function that binds the pod as Berth, in a dry run.
func dryRunBind(ctx context.Context, pod *v1.Pod, node *v1.Node) func(ctx context.Context, labels, annotations map[string]string) error {
	GinkgoHelper()
	account := kubernetes.NewForConfigOrDie(accountConfig(ctx))
	return func(ctx context.Context, labels, annotations map[string]string) error {
		return account.CoreV1().Pods(pod.Namespace).Bind(ctx, &v1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Labels: labels, Annotations: annotations},
			Target:     v1.ObjectReference{Kind: "Node", Name: node.Name},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
}

// createProfileWithPendingPod creates a profile whose status counts one pending pod.
func createProfileWithPendingPod(ctx context.Context, env testEnv) *v1alpha1.SchedulingProfile {
	GinkgoHelper()
	p := createProfile(ctx, publishEvery(1))
	expectReady(ctx, p)
	createPod(ctx, env.pod(p, "web").NodeSelector("no", "where"))
	Eventually(func(g Gomega) {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		g.Expect(p.Status.Queue).To(HaveValue(HaveField("Pending", BeEquivalentTo(1))))
	}).Should(Succeed())
	return p
}

// dryRunDelete returns a function that deletes the profile in a dry run.
func dryRunDelete(p *v1alpha1.SchedulingProfile) func(context.Context) error {
	return func(ctx context.Context) error { return admin.Delete(ctx, p, client.DryRunAll) }
}

// applyPolicy applies a file of config/admission and waits until the API server rejects the
// request; when the spec ends, it deletes the policy and waits until the request succeeds. The
// request must be one that the policy rejects then.
func applyPolicy(ctx context.Context, file string, refused func(context.Context) error) {
	GinkgoHelper()
	file = policyFile(file)
	Expect(refused(ctx)).To(Succeed(), "before the policy is applied")
	_, err := kubectl(ctx, "apply", "--server-side", "-f", file)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(refused(ctx)).NotTo(Succeed(), "or the end of the policy would not be seen")
		_, err := kubectl(ctx, "delete", "--ignore-not-found", "-f", file)
		Expect(err).NotTo(HaveOccurred())
		Eventually(refused).WithContext(ctx).Should(Succeed(), "after the policy is deleted")
	})
	Eventually(refused).WithContext(ctx).Should(MatchError(ContainSubstring("ValidatingAdmissionPolicy")))
}

// policyFile returns the path of a file of config/admission.
func policyFile(name string) string {
	GinkgoHelper()
	root, err := controlplane.ModuleRoot()
	Expect(err).NotTo(HaveOccurred())
	return filepath.Join(root, "config", "admission", name)
}

// The API server validates the other folders of config in a dry run.
var _ = Describe("The manifests of config", func() {
	DescribeTable("are accepted by the API server",
		func(ctx SpecContext, how, path string) {
			root, err := controlplane.ModuleRoot()
			Expect(err).NotTo(HaveOccurred())
			output, err := kubectl(ctx, "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict",
				how+filepath.Join(root, "config", filepath.FromSlash(path)))
			Expect(err).NotTo(HaveOccurred())
			Expect(output).To(ContainSubstring("serverside-applied (server dry run)"))
		},
		Entry("with all components", minute, "--kustomize=", "production"),
		Entry("for a static pod", minute, "--kustomize=", "static-pod"),
		Entry("the static pod", minute, "--filename=", "static-pod/berth.yaml"),
		Entry("the policies", minute, "--kustomize=", "admission"),
	)
})

// The specs have the roles and the policy that config ships.
var _ = Describe("The policy about approvals", func() {
	It("forbids the editor of a profile to approve the change", minute, func(ctx SpecContext) {
		editor, approver := userWithRoles(ctx, "berth-profile-editor-role"), userWithRoles(ctx, "berth-profile-approver-role")
		applyApprovalPolicy(ctx, editor)
		config := createPluginConfig(ctx, scoringStrategy("MostAllocated"))
		p := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{GenerateName: "batch-"}}
		p.Spec.Activation = v1alpha1.ActivationManual
		p.Spec.PluginConfig = []v1alpha1.PluginArguments{{Name: "NodeResourcesFit", ConfigRef: &v1alpha1.PluginConfigReference{Name: config.Name}}}
		Expect(editor.Create(ctx, p)).To(Succeed(), "an editor may create a profile that waits for approval")
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, p))).To(Succeed()) })
		expectAwaiting := func() {
			GinkgoHelper()
			Eventually(currentConditions(ctx, p)).Should(ContainElement("Programmed False AwaitingApproval"))
		}
		expectAwaiting()

		By("an editor and an approver approve")
		hash := hashToApprove(p)
		Expect(approveAs(ctx, editor, p, hash)).To(beMissingApprove(p, "metadata.annotations[berth.dev/approved-hash]"))
		Expect(approveAs(ctx, approver, p, hash)).To(Succeed())
		expectReady(ctx, p)

		By("the approved profile and its PluginConfig are edited")
		Expect(patchAs(ctx, editor, p, `{"spec":{"percentageOfNodesToScore":50}}`)).To(Succeed())
		expectAwaiting()
		Expect(p.Status.Programmed.Hash).To(Equal(hash), "an approval is for one hash")
		Expect(approveAs(ctx, editor, p, hashToApprove(p))).To(beMissingApprove(p, "metadata.annotations"))
		Expect(approveAs(ctx, approver, p, hashToApprove(p))).To(Succeed())
		expectReady(ctx, p)
		editPluginConfig(ctx, config, scoringStrategy("LeastAllocated"))
		expectAwaiting()
		Expect(approveAs(ctx, editor, p, hashToApprove(p))).To(beMissingApprove(p, "metadata.annotations"))

		By("the editor tries to bypass the approval")
		Expect(patchAs(ctx, editor, p, `{"spec":{"activation":"Automatic"}}`)).To(beMissingApprove(p, "spec.activation"))
		Expect(patchAs(ctx, editor, p, `{"spec":{"activation":null}}`)).To(beMissingApprove(p, "spec.activation"))
		replace := func() error {
			replaced := p.DeepCopy()
			if err := admin.Get(ctx, client.ObjectKeyFromObject(p), replaced); err != nil {
				return err
			}
			replaced.Spec = v1alpha1.SchedulingProfileSpec{}
			return editor.Update(ctx, replaced)
		}
		Eventually(replace).Should(beMissingApprove(p, "spec.activation"), "or a conflict with Berth's next status")
		Expect(editor.Delete(ctx, p)).To(beMissingApprove(p, "must not be deleted"))
		mayDeleteAll := apitest.Created(ctx, admin, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "deletes-all-"},
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"schedulingprofiles"}, Verbs: []string{"deletecollection"},
			}},
		})
		deletesAll := userWithRoles(ctx, mayDeleteAll.Name)
		Expect(deletesAll.DeleteAllOf(ctx, &v1alpha1.SchedulingProfile{}, client.MatchingFields{"metadata.name": p.Name})).
			To(beMissingApprove(p, "must not be deleted"))
		collector := cp.Config()
		collector.Impersonate = rest.ImpersonationConfig{
			UserName: "system:serviceaccount:kube-system:generic-garbage-collector",
			Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"},
		}
		collects, err := client.New(collector, client.Options{Scheme: operator.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		Expect(collects.Delete(ctx, p)).To(beMissingApprove(p, "must not be deleted"), "an editor may name an owner that does not exist")
		early := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: p.Name + "-early", Annotations: map[string]string{v1alpha1.AnnotationApprovedHash: hash}}}
		Expect(editor.Create(ctx, early)).To(beMissingApprove(early, "metadata.annotations"))
		account, err := client.New(accountConfig(ctx), client.Options{Scheme: operator.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		patched := p.DeepCopy()
		Expect(account.Status().Patch(ctx, patched, mergePatch(approvalPatch(hashToApprove(p))))).To(Succeed())
		Expect(patched.Annotations[v1alpha1.AnnotationApprovedHash]).NotTo(Equal(hashToApprove(p)), "the status has no annotations")
		expectAwaiting()

		By("the approval is revoked")
		Expect(patchAs(ctx, editor, p, `{"metadata":{"annotations":{"berth.dev/approved-hash":null}}}`)).To(Succeed())
		Expect(approveAs(ctx, editor, p, hash)).To(beMissingApprove(p, "metadata.annotations"))
	})

	It("forbids an approver to edit", minute, func(ctx SpecContext) {
		editor, approver := userWithRoles(ctx, "berth-profile-editor-role"), userWithRoles(ctx, "berth-profile-approver-role")
		both := userWithRoles(ctx, "berth-profile-editor-role", "berth-profile-approver-role")
		applyApprovalPolicy(ctx, editor)
		p := createProfile(ctx, func(s *v1alpha1.SchedulingProfileSpec) { s.Activation = v1alpha1.ActivationManual })
		for what, patch := range map[string]string{
			"the spec":                 `{"spec":{"percentageOfNodesToScore":50}}`,
			"the spec and the hash":    `{"metadata":{"annotations":{"berth.dev/approved-hash":"0123456789"}},"spec":{"percentageOfNodesToScore":50}}`,
			"the activation":           `{"spec":{"activation":"Automatic"}}`,
			"a label":                  `{"metadata":{"labels":{"a":"b"}}}`,
			"another annotation":       `{"metadata":{"annotations":{"berth.dev/take-over":"true"}}}`,
			"a finalizer":              `{"metadata":{"finalizers":["example.com/kept"]}}`,
			"the owner of the profile": `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"1"}]}}`,
		} {
			Expect(patchAs(ctx, approver, p, patch)).To(beDenied("may approve SchedulingProfile "+p.Name+
				" and so must change its annotation berth.dev/approved-hash alone: to edit it takes the verb update"), what)
			Expect(patchAs(ctx, both, p, patch, client.DryRunAll)).To(Succeed(), what)
		}
		Expect(apierrors.IsForbidden(approver.Update(ctx, p.DeepCopy()))).To(BeTrue())
		Expect(apierrors.IsForbidden(approver.Delete(ctx, p))).To(BeTrue())
		Expect(both.Delete(ctx, p, client.DryRunAll)).To(Succeed())
	})

	It("lets a user approve one profile only", minute, func(ctx SpecContext) {
		editor := userWithRoles(ctx, "berth-profile-editor-role")
		applyApprovalPolicy(ctx, editor)
		manual := func(s *v1alpha1.SchedulingProfileSpec) { s.Activation = v1alpha1.ActivationManual }
		own, other := createProfile(ctx, manual), createProfile(ctx, manual)
		role := apitest.Created(ctx, admin, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "approves-one-"},
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"schedulingprofiles"},
				ResourceNames: []string{own.Name}, Verbs: []string{"approve"},
			}},
		})
		user := userWithRoles(ctx, role.Name, "berth-profile-editor-role")
		Expect(approveAs(ctx, user, own, "0123456789")).To(Succeed())
		Expect(approveAs(ctx, user, other, "0123456789")).To(beMissingApprove(other, "metadata.annotations"))
	})
})

// The policies do not apply to other schedulers.
var _ = Describe("Under all policies of config/admission another scheduler", func() {
	It("can create, update and bind its pods", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		expectReady(ctx, p)
		node := createNode(ctx, env.node("n"))
		bind := dryRunBind(ctx, createPod(ctx, env.pod(p, "pending").NodeSelector("no", "where")), node)
		applyPolicy(ctx, "what-a-binding-carries.yaml", func(ctx context.Context) error { return bind(ctx, nil, foreignAnnotation) })
		applyPolicy(ctx, "no-orphaned-pods.yaml", dryRunDelete(createProfileWithPendingPod(ctx, newTestEnv(ctx))))
		applyApprovalPolicy(ctx, userWithRoles(ctx, "berth-profile-editor-role"))
		applyPolicy(ctx, "profiles-by-namespace.yaml", func(ctx context.Context) error {
			return admin.Create(ctx, env.pod(p, "refused").Valid(), client.DryRunAll)
		})
		scheduler := cp.Config()
		scheduler.Impersonate = rest.ImpersonationConfig{UserName: "system:kube-scheduler", Groups: []string{"system:authenticated"}}
		api := kubernetes.NewForConfigOrDie(scheduler)
		for at, name := range []string{v1.DefaultSchedulerName, "volcano", "my-scheduler"} {
			pod := env.pod(p, fmt.Sprint("other-", at)).SchedulerName(name).Valid()
			Expect(admin.Create(ctx, pod)).To(Succeed(), name)
			pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: "no nodes"}}
			_, err := api.CoreV1().Pods(env.namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
			Expect(err).NotTo(HaveOccurred(), name)
			Expect(api.CoreV1().Pods(env.namespace).Bind(ctx, &v1.Binding{
				ObjectMeta: metav1.ObjectMeta{
					Name: pod.Name, Namespace: env.namespace, UID: pod.UID,
					Labels: map[string]string{"volcano.sh/queue": "q"}, Annotations: map[string]string{"scheduler.example.com/why": "first"},
				},
				Target: v1.ObjectReference{Kind: "Node", Name: node.Name},
			}, metav1.CreateOptions{})).To(Succeed(), name)
		}
	})
})

// userCount is the number of users that this process created.
var userCount atomic.Int64

// userWithRoles returns the client of a new user that has these ClusterRoles, once the API
// server grants them.
func userWithRoles(ctx context.Context, roles ...string) client.Client {
	GinkgoHelper()
	name := fmt.Sprint("user-", GinkgoRandomSeed(), "-", userCount.Add(1))
	for _, role := range roles {
		apitest.Created(ctx, admin, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "of-" + name + "-"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
		})
		granted := &rbacv1.ClusterRole{}
		Expect(admin.Get(ctx, client.ObjectKey{Name: role}, granted)).To(Succeed())
		expectAllowed(ctx, name, "", granted.Rules...)
	}
	config := cp.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	user, err := client.New(config, client.Options{Scheme: operator.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return user
}

// applyApprovalPolicy applies the policy about approvals.
func applyApprovalPolicy(ctx context.Context, editor client.Client) {
	GinkgoHelper()
	approved := func(ctx context.Context) error {
		p := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: "never-there", Annotations: map[string]string{v1alpha1.AnnotationApprovedHash: "0123456789"}}}
		return editor.Create(ctx, p, client.DryRunAll)
	}
	applyPolicy(ctx, "approvals.yaml", approved)
}

func mergePatch(text string) client.Patch {
	return client.RawPatch(apitypes.MergePatchType, []byte(text))
}

func approvalPatch(hash string) string {
	return fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationApprovedHash, hash)
}

// approveAs approves a hash as a user.
func approveAs(ctx context.Context, user client.Client, p *v1alpha1.SchedulingProfile, hash string) error {
	return patchAs(ctx, user, p, approvalPatch(hash))
}

// patchAs patches a profile as a user.
func patchAs(ctx context.Context, user client.Client, p *v1alpha1.SchedulingProfile, patch string, with ...client.PatchOption) error {
	return user.Patch(ctx, p.DeepCopy(), mergePatch(patch), with...)
}

func beDenied(why string) types.GomegaMatcher {
	return SatisfyAll(WithTransform(apierrors.IsForbidden, BeTrue()), MatchError(ContainSubstring(why)))
}

func beMissingApprove(p *v1alpha1.SchedulingProfile, what string) types.GomegaMatcher {
	return SatisfyAll(beDenied(what), beDenied("lacks the verb approve on schedulingprofiles.berth.dev "+p.Name+"; the ClusterRole berth-profile-approver-role has it"))
}

// hashToApprove returns the hash that the profile's condition asks to approve.
func hashToApprove(p *v1alpha1.SchedulingProfile) string {
	GinkgoHelper()
	message := conditionMessage(p, v1alpha1.ConditionProgrammed)
	_, hash, found := strings.Cut(message, "--overwrite "+v1alpha1.AnnotationApprovedHash+"=")
	Expect(found).To(BeTrue(), message)
	return hash
}
