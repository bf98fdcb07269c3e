package placement

import (
	. "github.com/onsi/ginkgo/v2"
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

// Which container of a pod wants a port.
type part string

const (
	container part = "a container"
	// starter runs before the containers, and ends.
	starter part = "an init container"
	// sidecar starts before the containers, and stays.
	sidecar part = "a sidecar"
)

// listens is a pod one part of which listens on ports.
func listens(name string, who part, ports ...v1.ContainerPort) *fixture.PodBuilder {
	return fixture.Pod(name).Mutate(func(pod *v1.Pod) {
		listener := v1.Container{Name: "listener", Ports: ports}
		switch who {
		case container:
			pod.Spec.Containers = append(pod.Spec.Containers, listener)
			return
		case sidecar:
			listener.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, listener)
	})
}

// inside is a port of the pod alone, outside one of its node.
func inside(port int32) v1.ContainerPort {
	return v1.ContainerPort{ContainerPort: port, Protocol: v1.ProtocolTCP}
}

func outside(port int32) v1.ContainerPort { return at("", v1.ProtocolTCP, port) }

func at(ip string, protocol v1.Protocol, port int32) v1.ContainerPort {
	return v1.ContainerPort{HostIP: ip, Protocol: protocol, HostPort: port, ContainerPort: port}
}

var (
	fits  = on("a")
	taken = refused("1 " + portTaken)
)

// after is a scenario of one node, a pod that is on it, and one that comes.
func after(old, pod *fixture.PodBuilder, want verdict) scenario {
	return scenario{nodes: nodes(fixture.Node("a")), there: pods(old.On("a")), pod: pod, want: want}
}

// Both orders of each two parts, since the one that is there is counted in
// another place than the one that comes.
var _ = func() bool {
	const same, another = 8001, 8002
	var entries []TableEntry
	for _, who := range []struct {
		old, new part
		clash    verdict
	}{
		{container, container, taken},
		{starter, container, fits},
		{sidecar, container, taken},
		{container, starter, fits},
		{container, sidecar, taken},
	} {
		begin := string(who.new) + " of the pod and " + string(who.old) + " of one that is there "
		for _, c := range []struct {
			sentence string
			old, new v1.ContainerPort
			want     verdict
		}{
			{"have the same port, each of its own", inside(same), inside(same), fits},
			{"want the same port of the node", outside(same), outside(same), who.clash},
			{"want different ports of the node", outside(same), outside(another), fits},
		} {
			entries = append(entries, entry(begin+c.sentence, after(listens("old", who.old, c.old), listens("new", who.new, c.new), c.want)))
		}
	}
	return table("A pod and the ports of a node:", entries...)
}()

var _ = table("A pod and the ports of a node's addresses:",
	entry("one of the two that are taken at an address", after(
		listens("old", container, at("127.0.0.1", v1.ProtocolTCP, 8081), at("127.0.0.1", v1.ProtocolTCP, 8082)),
		listens("new", container, at("127.0.0.1", v1.ProtocolTCP, 8081)), taken)),
	entry("a third one at that address", after(
		listens("old", container, at("127.0.0.1", v1.ProtocolTCP, 8081), at("127.0.0.1", v1.ProtocolTCP, 8082)),
		listens("new", container, at("127.0.0.1", v1.ProtocolTCP, 8080)), fits)),
	entry("the same port at another address", after(
		listens("old", container, at("127.0.0.1", v1.ProtocolTCP, 80)),
		listens("new", container, at("127.0.0.2", v1.ProtocolTCP, 80)), fits)),
	entry("the same port at all addresses", after(
		listens("old", container, at("127.0.0.1", v1.ProtocolTCP, 80)),
		listens("new", container, at("0.0.0.0", v1.ProtocolTCP, 80)), taken)),
	entry("the same port at one address when all are taken", after(
		listens("old", container, at("", v1.ProtocolTCP, 80)),
		listens("new", container, at("127.0.0.1", v1.ProtocolTCP, 80)), taken)),
	entry("the same port by another protocol", after(
		listens("old", container, at("127.0.0.1", v1.ProtocolTCP, 80)),
		listens("new", container, at("127.0.0.1", v1.ProtocolUDP, 80)), fits)),
)
