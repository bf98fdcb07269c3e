// Package realnode shows Berth from its image on a real kubelet: with what config
// installs, on containerd, under load and while its leader ends in every way.
//
// `make real-node` runs it in namespaces of its own. Without that the suite is skipped,
// since it changes the network and the mounts of the machine.
package realnode

import (
	"context"
	"flag"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berthdev/berth/test/install/realnode/node"
	"github.com/berthdev/berth/test/support/apitest"
)

var (
	dir     = flag.String("dir", "", "the folder of the clusters' data and logs")
	kubelet = flag.String("kubelet", "", "the path of the kubelet")
	images  = flag.String("images", "", "the folder with the images' archives")
	version = flag.String("version", "", "the version in the images' names")
	attach  = flag.String("attach", "", "do not start a cluster: use the one that runs in this folder")
	keep    = flag.Bool("keep", false, "leave the cluster of the last spec running until Ctrl-C")
)

func TestRealNode(t *testing.T) {
	if *dir == "" && *attach == "" {
		t.Skip("make real-node runs this suite, in namespaces of its own")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "a real node")
}

const (
	// fewMinutes bounds one spec: pods start within seconds, a Lease is free after 15,
	// and the kubelet takes two minutes to restart a process that hangs.
	fewMinutes = SpecTimeout(5 * time.Minute)
	// starting bounds the start of a cluster.
	starting = NodeTimeout(5 * time.Minute)
)

var (
	cluster *node.Cluster
	admin   apitest.API
)

var _ = BeforeSuite(func() {
	log.SetLogger(GinkgoLogr)
	SetDefaultEventuallyTimeout(90 * time.Second)
	SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
})

func imagesOnNode() node.Images {
	name := func(image string) string { return "berth.test/" + image + ":" + *version }
	return node.Images{Dir: *images, Manager: name("manager"), Workload: name("workload"), Pause: name("pause")}
}

// clusterFor starts a cluster before the first spec of an Ordered container, and stops
// it after the last one.
func clusterFor(name string, options node.Options) {
	BeforeAll(func(ctx SpecContext) {
		var err error
		if *attach != "" {
			cluster, err = node.Attach(ctx, *attach, imagesOnNode())
			Expect(err).NotTo(HaveOccurred())
		} else {
			options.Dir, options.Kubelet, options.Images = filepath.Join(*dir, name), *kubelet, imagesOnNode()
			cluster, err = node.Start(ctx, options)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(stopCluster)
		}
		admin.Client, err = client.New(cluster.Config(), client.Options{Scheme: scheme.Scheme})
		Expect(err).NotTo(HaveOccurred())
	}, starting)
}

func stopCluster() {
	if *keep {
		GinkgoWriter.Println("kept until Ctrl-C:", cluster.Dir())
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		<-ctx.Done()
	}
	if err := cluster.Stop(); err != nil {
		GinkgoWriter.Println("the cluster did not end in order:", err)
	}
}

// installed applies a folder under config and waits until its manager leads.
func installed(config string, ready int32) {
	BeforeAll(func(ctx SpecContext) {
		Expect(cluster.Install(ctx, config)).To(Succeed())
		expectReady(ctx, ready)
	}, starting)
}

// A spec that fails prints what the managers logged and what the cluster holds.
var _ = JustAfterEach(func(ctx SpecContext) {
	if !CurrentSpecReport().Failed() || cluster == nil {
		return
	}
	for _, args := range []string{"get nodes,pods,leases,sprof --all-namespaces --output=wide", "get events --all-namespaces --sort-by=.lastTimestamp"} {
		text, err := cluster.Kubectl(ctx, nil, strings.Fields(args)...)
		GinkgoWriter.Printf("kubectl %s: %v\n%s\n", args, err, tail(text, 60))
	}
	for path, text := range managerLogs() {
		GinkgoWriter.Printf("%s:\n%s\n", path, tail(text, 40))
	}
}, NodeTimeout(time.Minute))
