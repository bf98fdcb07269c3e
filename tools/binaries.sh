# Functions of tools/build.sh and tools/build-olm.sh. This file is sourced, not run. The
# caller sets here, the folder of the nested modules, and out, the folder of the binaries.

say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*" >&2; }

# folder NAME MODULE… prints the folder for the binaries of these modules. Its
# name changes when a pinned version changes.
folder() {
	local name=$1 module key
	shift
	key=$(for module in "$@"; do cat "$here/$module"/go.{mod,sum}; done | sha256sum | cut -c1-10)
	printf '%s\n' "${XDG_CACHE_HOME:-$HOME/.cache}/berth/tools/$name-$key"
}

# alone WHAT waits until no other process builds into out, so that Kubernetes is compiled
# only once.
alone() {
	mkdir -p "$out"
	exec 9>"$out/.lock"
	if command -v flock >/dev/null 2>&1 && ! flock -n 9; then
		say "another build of $1 is under way: waiting for it"
		flock 9
	fi
}

# source_of MODULE PATH prints the folder of the source of a Go module that tools/MODULE
# pins. Without the download go list prints nothing where the module cache lacks it.
source_of() { (cd "$here/$1" && go mod download "$2" && go list -m -f '{{.Dir}}' "$2"); }

# compile NAME MODULE PACKAGE FLAG… builds one binary and prints how long it took. The
# binary is moved into place at the end, so that it is never incomplete.
compile() {
	local name=$1 module=$2 package=$3 pid start
	shift 3
	say "building $name (once)"
	(
		cd "$here/$module"
		GOFLAGS=-mod=readonly go build "$@" -o "$out/.$name.part" "$package" &
		pid=$!
		start=$SECONDS
		while kill -0 $pid 2>/dev/null; do
			sleep 1
			if [ $(((SECONDS - start) % 30)) -eq 29 ]; then say "  … $name, $((SECONDS - start)) s"; fi
		done
		wait $pid
	)
	mv "$out/.$name.part" "$out/$name"
	say "built $name"
}
