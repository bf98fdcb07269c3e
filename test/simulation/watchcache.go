package simulation

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/api/v1alpha1"
)

// In a history of replicas there are two API servers on one etcd. Writes, and reads without a
// resource version, go to etcd. Watches, and lists with a version, are served from a watch cache
// of each kind, which has the writes later: k8s.io/apiserver/pkg/storage/cacher. The informers
// do as client-go's reflector does: k8s.io/client-go/tools/cache, reflector.go.

// apiServer is one of the API servers.
type apiServer struct {
	name   string
	caches map[string]*watchCache // by kind
}

// watchCache is an API server's watch cache of one kind.
type watchCache struct {
	sim     *simulation
	kind    string
	objects map[string]object
	// index is how much of the server's log it has. Of the writes before oldest it has no events
	// any more.
	index, oldest int
	// stalled says that it does not read on.
	stalled bool
}

func (sim *simulation) newAPIServer(name string) *apiServer {
	s := &apiServer{name: name, caches: map[string]*watchCache{}}
	for _, kind := range sim.watchedKinds() {
		s.caches[kind] = &watchCache{sim: sim, kind: kind, objects: map[string]object{}}
	}
	return s
}

// watchedKinds are the kinds of the informers, by their names.
func (sim *simulation) watchedKinds() []string {
	kinds := []string{"pods", "nodes"}
	if sim.hasGangs() {
		kinds = append(kinds, podGroupResource.Resource)
	}
	if sim.controllers.on {
		kinds = append(kinds, profilesKind)
	}
	return kinds
}

func (c change) kind() string {
	o := c.new
	if o == nil {
		o = c.old
	}
	switch o.(type) {
	case *v1.Pod:
		return "pods"
	case *v1.Node:
		return "nodes"
	case *v1alpha1.SchedulingProfile:
		return profilesKind
	}
	return "podgroups"
}

// hasUnread says whether there are writes of its kind that the cache lacks.
func (c *watchCache) hasUnread() bool {
	for c.index < len(c.sim.server.log) && c.sim.server.log[c.index].kind() != c.kind {
		c.index++
	}
	return c.index < len(c.sim.server.log)
}

// readNext reads one more write.
func (c *watchCache) readNext() {
	w := c.sim.server.log[c.index]
	c.index++
	if w.new == nil {
		delete(c.objects, keyOf(w.old))
		return
	}
	c.objects[keyOf(w.new)] = w.new
}

// catchUp reads all writes.
func (c *watchCache) catchUp() {
	for c.hasUnread() {
		c.readNext()
	}
}

// version is the resource version up to which the cache is complete.
func (c *watchCache) version() int { return c.sim.server.versionAt(c.index) }

// oldestVersion is the oldest resource version from which a watch can go on.
func (c *watchCache) oldestVersion() int { return c.sim.server.versionAt(c.oldest) }

// versionAt is the resource version of the last of the first n writes.
func (s *server) versionAt(n int) int {
	if n == 0 {
		return 0
	}
	return s.log[n-1].version
}

// list returns the objects of the cache that are selected, by key.
func (c *watchCache) list(selects func(object) bool) map[string]object {
	found := map[string]object{}
	for key, o := range c.objects {
		if selects(o) {
			found[key] = c.sim.server.delivered(o)
		}
	}
	return found
}

// watchConnection is the connection of an informer's watch to an API server.
type watchConnection struct {
	replica *replica
	// api is the API server; nil in histories without replicas, whose watches read the server's
	// log.
	api       *apiServer
	connected bool
	// slow says that no event arrives.
	slow bool
	// synced is the resource version of the last event, bookmark or list.
	synced int
}

func (i *informer) cache() *watchCache { return i.api.caches[i.name] }

// syncedTo notes the resource version up to which the store is complete.
func (i *informer) syncedTo(version int) {
	i.synced, i.resourceVersion = version, itoa(version)
	i.replica.seen[i.name] = max(i.replica.seen[i.name], version)
}

// unreadBefore says whether there are writes of the informer's kind before that place of the log
// that it has not read.
func (i *informer) unreadBefore(end int) bool {
	log := i.sim.server.log
	for i.logIndex < end && log[i.logIndex].kind() != i.name {
		i.logIndex++
	}
	return i.logIndex < end
}

// receives says whether anything of the watch can arrive.
func (i *informer) receives() bool {
	return i.handler != nil && !i.slow && !i.replica.dead && !i.replica.stopped && !i.replica.cutOff
}

// mayRead says whether readNext may be called.
func (i *informer) mayRead() bool {
	if i.api == nil {
		return i.hasUnread()
	}
	return i.receives() && (!i.connected || i.unreadBefore(i.cache().index))
}

// mayGetBookmark says whether a bookmark would tell a newer version.
func (i *informer) mayGetBookmark() bool {
	return i.receives() && i.connected && i.cache().version() > i.synced && !i.unreadBefore(i.cache().index)
}

// getBookmark is a bookmark of the watch: an event with a version only.
func (i *informer) getBookmark() {
	i.sim.count("a bookmark")
	i.syncedTo(i.cache().version())
}

// reconnect begins the watch again from its version, with either API server. Events that the
// store has are not sent again, however old the watch cache is. Where the watch cache has no
// events from that version on, the answer is 410, and the informer lists again.
func (i *informer) reconnect() {
	sim := i.sim
	if sim.chance(0.5) {
		i.api = sim.apiServers[sim.random.IntN(len(sim.apiServers))]
	}
	cache := i.cache()
	if i.synced < cache.oldestVersion() {
		sim.count("a watch expires, which is 410")
		sim.logf("the watch of %s by %s from version %d is expired at %s", i.name, i.replica.name, i.synced, i.api.name)
		i.listAgain()
		return
	}
	sim.count("a watch resumes from its version")
	if cache.version() < i.synced {
		sim.count("a watch resumes at an API server that is behind it")
	}
	sim.logf("the watch of %s by %s resumes from version %d at %s, which has %d", i.name, i.replica.name, i.synced, i.api.name, cache.version())
	i.connected = true
}

// listAgain lists, and watches from there. The first list of a process names version 0, which
// any watch cache satisfies, or comes as events of a watch, which is as new as etcd. A later
// list names the version of the informer. A watch cache that does not have it yet makes the API
// server answer "Too large resource version", and the informer lists without a version.
func (i *informer) listAgain() {
	if i.api == nil {
		i.list()
		return
	}
	i.connected = true
	sim, cache := i.sim, i.cache()
	switch {
	case i.resourceVersion == "" && sim.watchLists:
		sim.count("the first list comes by a watch")
	case i.resourceVersion != "" && cache.version() < i.synced:
		sim.count("a watch cache does not have the version of a list")
	default:
		sim.noteStaleList(i, cache)
		i.replace(cache.list(i.selects))
		i.logIndex = cache.index
		i.syncedTo(cache.version())
		sim.logf("%s lists %s from the watch cache of %s: version %d of %d", i.replica.name, i.name, i.api.name, cache.version(), sim.server.version)
		return
	}
	i.list()
	i.syncedTo(sim.server.version)
	sim.logf("%s lists %s from etcd: version %d", i.replica.name, i.name, sim.server.version)
}

// noteStaleList counts lists from a watch cache that lacks writes.
func (sim *simulation) noteStaleList(i *informer, cache *watchCache) {
	if !cache.hasUnread() {
		return
	}
	sim.count("a list is older than etcd")
	if i.name == podGroupResource.Resource {
		sim.count("a list of PodGroups is older than etcd")
	}
	if i.resourceVersion == "" && cache.version() < i.replica.seen[i.name] {
		sim.count("the first list of a process is older than what the process before it saw")
	}
}

// offerWatches offers the steps of the watch caches and of bookmarks.
func (sim *simulation) offerWatches(offer func(int, func())) {
	for _, s := range sim.apiServers {
		for _, kind := range sim.watchedKinds() {
			switch cache := s.caches[kind]; {
			case !sim.cachesLag:
				cache.catchUp()
			case !cache.stalled && cache.hasUnread():
				offer(sim.settings.weights.watch, cache.readNext)
			}
		}
	}
	if !sim.bookmarks {
		return
	}
	for _, r := range sim.replicas {
		for _, watch := range r.informers {
			if watch.mayGetBookmark() {
				offer(1, watch.getBookmark)
			}
		}
	}
}

// restartAPIServer ends the connections of an API server. Its watch caches begin again with what
// etcd has, without older events. Of the requests under way to it none is answered.
func (sim *simulation) restartAPIServer(s *apiServer) {
	sim.logf("%s restarts", s.name)
	for _, cache := range s.caches {
		cache.catchUp()
		cache.oldest, cache.stalled = cache.index, false
	}
	for _, r := range sim.replicas {
		for _, watch := range r.informers {
			watch.connected = watch.connected && watch.api != s
		}
	}
	for _, request := range sim.requests {
		if request.replica.api == s && !request.replica.cutOff {
			sim.loseConnection(request)
		}
	}
	for _, r := range sim.replicas {
		if r.api == s {
			r.api = sim.apiServers[sim.random.IntN(len(sim.apiServers))]
		}
	}
}

// loseConnection lets a request fail for its caller. One that has not arrived may arrive later.
func (sim *simulation) loseConnection(r *request) {
	sim.count("a connection is lost while a request is under way")
	sim.logf("the connection of %q is lost", r.description)
	if !r.arrived && r.verb != "get" && r.verb != "list" {
		sim.lateWrites = append(sim.lateWrites, r)
	}
	r.arrived, r.pod, r.err, r.retryAfter = true, nil, errLost, false
}
