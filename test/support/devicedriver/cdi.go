package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	cdi "tags.cncf.io/container-device-interface/specs-go"
)

// specFiles are the CDI specifications of the driver's prepared claims, a file for each
// claim. There is no other state, so that a restart of the driver loses nothing.
type specFiles struct {
	// dir is a folder that the container runtime reads.
	dir, driver string
}

// cdiDevice is a device of a claim, and the environment that its containers get.
type cdiDevice struct{ name, env string }

func (s specFiles) kind() string { return s.driver + "/device" }

func (s specFiles) path(claim types.UID) string {
	return filepath.Join(s.dir, s.driver+"-"+string(claim)+".json")
}

// id returns the ID of a claim's device. It has the claim's UID, so that it is never used
// again: runtimes may cache what they have read.
func (s specFiles) id(claim types.UID, device string) string {
	return s.kind() + "=" + cdiName(claim, device)
}

func cdiName(claim types.UID, device string) string { return string(claim) + "-" + device }

// write writes the specification of a claim's devices.
func (s specFiles) write(claim types.UID, devices []cdiDevice) error {
	spec := cdi.Spec{Kind: s.kind()}
	for _, device := range devices {
		spec.Devices = append(spec.Devices, cdi.Device{Name: cdiName(claim, device.name), ContainerEdits: cdi.ContainerEdits{Env: []string{device.env}}})
	}
	var err error
	if spec.Version, err = cdi.MinimumRequiredVersion(&spec); err != nil {
		return err
	}
	text, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	// The runtime must not read an incomplete file, and ignores names that end otherwise.
	part := s.path(claim) + ".part"
	if err := os.WriteFile(part, text, 0o644); err != nil {
		return err
	}
	return os.Rename(part, s.path(claim))
}

// remove removes the specification of a claim, if there is one.
func (s specFiles) remove(claim types.UID) error {
	if err := os.Remove(s.path(claim)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// holders returns the prepared claim of each device that has one.
func (s specFiles) holders() (map[string]types.UID, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	holders := map[string]types.UID{}
	for _, entry := range entries {
		uid, ours := strings.CutPrefix(entry.Name(), s.driver+"-")
		uid, complete := strings.CutSuffix(uid, ".json")
		if !ours || !complete {
			continue
		}
		text, err := os.ReadFile(filepath.Join(s.dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		var spec cdi.Spec
		if err := json.Unmarshal(text, &spec); err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		for _, device := range spec.Devices {
			holders[strings.TrimPrefix(device.Name, uid+"-")] = types.UID(uid)
		}
	}
	return holders, nil
}
