package realnode

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/install/realnode/node"
)

const (
	storageClass = "host-path"
	provisioner  = "berth.test/host-path"
	// selectedNode is the annotation with the node for which a scheduler requests a volume.
	selectedNode = "volume.kubernetes.io/selected-node"
)

// specControllers specifies pods of controllers.
func specControllers() {
	It("runs the pods of a DaemonSet on the node that its controller names", specTimeout, func(ctx SpecContext) {
		set := &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "agents"},
			Spec:       appsv1.DaemonSetSpec{Selector: selector("agents"), Template: template("agents", "pause")},
		}
		createOwner(ctx, set)
		Eventually(func(g Gomega) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(set), set)).To(Succeed())
			g.Expect(set.Status.NumberReady).To(BeEquivalentTo(1))
			g.Expect(set.Status.DesiredNumberScheduled).To(BeEquivalentTo(1))
		}).Should(Succeed())
		Expect(podsWithApp(ctx, Default, "agents")).To(ConsistOf(SatisfyAll(HaveField("Spec.NodeName", node.Name), HaveField("Annotations", HaveKey("berth.dev/decision")))))
	})

	It("runs a Job to completion", specTimeout, func(ctx SpecContext) {
		job := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "batch"},
			Spec:       batchv1.JobSpec{Completions: new(int32(4)), Parallelism: new(int32(2)), Template: template("batch", "exit", "0")},
		}
		job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		createOwner(ctx, job)
		Eventually(func(g Gomega) int32 {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
			return job.Status.Succeeded
		}).Should(BeEquivalentTo(4))
		Expect(job.Status.Failed).To(BeZero())
	})

	It("has volumes provisioned for a StatefulSet on the selected node, and uses them again", specTimeout, func(ctx SpecContext) {
		class := &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: storageClass}, Provisioner: provisioner,
			VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
		}
		createOwner(ctx, class)
		volumes := filepath.Join(cluster.Dir(), "volumes")
		startProvisioner(volumes)
		set := &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "db"},
			Spec: appsv1.StatefulSetSpec{
				Replicas: new(int32(2)), Selector: selector("db"), Template: template("db", "write", "/data/log", "$(POD)"),
				VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
					ObjectMeta: metav1.ObjectMeta{Name: "data"},
					Spec: corev1.PersistentVolumeClaimSpec{
						AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new(storageClass),
						Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Mi")}},
					},
				}},
			},
		}
		set.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		createOwner(ctx, set)
		expectReplicas(ctx, set)

		By("a recreated pod uses its volume")
		first := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: "db-0"}}
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(first), first)).To(Succeed())
		uid := first.UID
		Expect(admin.Delete(ctx, first)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(first), first)).To(Succeed())
			g.Expect(first.UID).NotTo(Equal(uid))
		}).Should(Succeed())
		expectReplicas(ctx, set)
		var logs []string
		files, err := filepath.Glob(filepath.Join(volumes, "*", "log"))
		Expect(err).NotTo(HaveOccurred())
		for _, file := range files {
			text, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			logs = append(logs, string(text))
		}
		Expect(logs).To(ConsistOf("db-0\ndb-0\n", "db-1\n"))
	})
}

func selector(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
}

// template returns a template of webPod with other arguments and without probes.
func template(name string, args ...string) corev1.PodTemplateSpec {
	pod := webPod(metav1.NamespaceDefault, "")
	container := &pod.Spec.Containers[0]
	withoutProbes(container, args...)
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}}, Spec: pod.Spec}
}

// createOwner creates an object until the spec ends, and then deletes it with its
// dependents.
func createOwner(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(admin.Create(ctx, object)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(admin.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground)))).To(Succeed())
	})
}

func podsWithApp(ctx context.Context, g Gomega, app string) []corev1.Pod {
	var list corev1.PodList
	g.Expect(admin.List(ctx, &list, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{"app": app})).To(Succeed())
	return list.Items
}

func expectReplicas(ctx context.Context, set *appsv1.StatefulSet) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(set), set)).To(Succeed())
		g.Expect(set.Status.ReadyReplicas).To(Equal(*set.Spec.Replicas))
	}).Should(Succeed())
}

// startProvisioner runs a provisioner of the class until the spec ends: for a claim with a
// selected node it creates a folder and a volume.
func startProvisioner(folder string) {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.Background())
	claims, err := cluster.Client().CoreV1().PersistentVolumeClaims(metav1.NamespaceDefault).Watch(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	done := make(chan struct{})
	DeferCleanup(func() {
		cancel()
		claims.Stop()
		<-done
	})
	go func() {
		defer GinkgoRecover()
		defer close(done)
		for event := range claims.ResultChan() {
			claim, ok := event.Object.(*corev1.PersistentVolumeClaim)
			if !ok || claim.Spec.VolumeName != "" || claim.Annotations[selectedNode] == "" || claim.DeletionTimestamp != nil {
				continue
			}
			path := filepath.Join(folder, string(claim.UID))
			Expect(os.MkdirAll(path, 0o755)).To(Succeed())
			Expect(os.Chmod(path, 0o777)).To(Succeed()) // whatever the umask is: pods run as another user
			Expect(client.IgnoreAlreadyExists(admin.Create(ctx, volumeFor(claim, path)))).To(Succeed())
		}
	}()
}

func volumeFor(claim *corev1.PersistentVolumeClaim, path string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID), Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes, StorageClassName: storageClass,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef:                      &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{claim.Annotations[selectedNode]}}},
			}}}},
		},
	}
}
