package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// recipe describes an image: one binary on the base layout.
type recipe struct {
	// build is the shell command that compiles the binary, and built the path that it writes to.
	// Both are empty for images without a Dockerfile.
	build, built string
	// binary is the path of the binary in the image.
	binary string
	// user is "uid:gid".
	user       string
	entrypoint []string
}

// base is the only base image whose layout image.go writes.
const base = "gcr.io/distroless/static-debian12:nonroot"

// parseDockerfile reads the Dockerfile of Berth: a stage that compiles with one RUN … go
// build, and a final stage that copies the binary onto the base image. It returns an error
// for every unknown instruction, so that a change of the Dockerfile is noticed.
func parseDockerfile(text string) (recipe, error) {
	var r recipe
	stage, from := 0, ""
	for _, line := range instructions(text) {
		verb, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		if verb == "FROM" {
			stage++
			from = rest
			continue
		}
		var err error
		if stage < 2 {
			err = r.buildStage(verb, rest)
		} else {
			err = r.lastStage(verb, rest)
		}
		if err != nil {
			return recipe{}, fmt.Errorf("%q: %w", line, err)
		}
	}
	from, digest, pinned := strings.Cut(from, "@sha256:")
	switch {
	case !pinned || len(digest) != 64:
		return recipe{}, fmt.Errorf("the last stage is FROM %q: name the image by its digest as well", from)
	case from != base:
		return recipe{}, fmt.Errorf("the last stage is FROM %q, want %q, whose layout tools/images writes", from, base)
	case r.build == "" || r.binary == "" || r.user == "" || len(r.entrypoint) == 0:
		return recipe{}, fmt.Errorf("a RUN with go build, COPY, USER or ENTRYPOINT is missing: %+v", r)
	}
	return r, nil
}

// instructions returns the instructions, one line each, without comments.
func instructions(text string) []string {
	var all []string
	open := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		part, goesOn := strings.CutSuffix(line, "\\")
		if open {
			all[len(all)-1] += " " + strings.TrimSpace(part)
		} else {
			all = append(all, strings.TrimSpace(part))
		}
		open = goesOn
	}
	return all
}

// buildStage reads an instruction of the build stage. Instructions other than the command
// that compiles prepare the sources, which are in the repository here.
func (r *recipe) buildStage(verb, rest string) error {
	switch verb {
	case "WORKDIR", "COPY", "ARG":
		return nil
	case "RUN":
		if rest == "go mod download" {
			return nil
		}
		words := strings.Fields(rest)
		for i, word := range words {
			if word == "-o" && i+1 < len(words) && strings.Contains(rest, "go build") {
				r.build, r.built = rest, words[i+1]
				return nil
			}
		}
	}
	return fmt.Errorf("tools/images does not know this instruction in a build stage")
}

func (r *recipe) lastStage(verb, rest string) error {
	switch verb {
	case "COPY":
		words := strings.Fields(rest)
		if len(words) != 3 || words[0] != "--from=build" || words[1] != r.built {
			return fmt.Errorf("must be COPY --from=build %s PATH", r.built)
		}
		r.binary = words[2]
	case "USER":
		r.user = rest
	case "ENTRYPOINT":
		return json.Unmarshal([]byte(rest), &r.entrypoint)
	default:
		return fmt.Errorf("tools/images does not know this instruction in the last stage")
	}
	return nil
}
