package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/mpitrace/mpitrace/internal/libexec"
	"github.com/mpitrace/mpitrace/policy"
)

// fabricWait bounds what mpitrace-fabric may take for one thing asked of it.
const fabricWait = 5 * time.Minute

// askFabric runs mpitrace-fabric and reads its JSON into answer.
func askFabric(answer any, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("where is this program: %w", err)
	}
	path, found := libexec.Find(self, fabricProgram)
	if !found {
		return fmt.Errorf("%s is not installed: it belongs into ../libexec/mpitrace from mpitrace (make build makes it)", fabricProgram)
	}
	wait, cancel := context.WithTimeout(context.Background(), fabricWait)
	defer cancel()
	program := exec.CommandContext(wait, path, append(args, "--json")...)
	var stdout, stderr bytes.Buffer
	program.Stdout, program.Stderr = &stdout, &stderr
	err = program.Run()
	switch {
	case wait.Err() != nil:
		return fmt.Errorf("%s %s did not end within %s", fabricProgram, strings.Join(args, " "), fabricWait)
	case err != nil:
		return fmt.Errorf("%s %s: %w: %s", fabricProgram, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	if err := json.Unmarshal(stdout.Bytes(), answer); err != nil {
		return fmt.Errorf("answer of %s: %w", fabricProgram, err)
	}
	return nil
}

// policyDevices is the devices of this node and their ports.
func policyDevices() ([]policy.Device, error) {
	var list struct {
		Devices []struct {
			Name       string
			Transports []string
			Ports      []struct {
				Name string
				Up   bool
			}
		}
	}
	if err := askFabric(&list, "list"); err != nil {
		return nil, err
	}
	var out []policy.Device
	for _, d := range list.Devices {
		device := policy.Device{Names: []string{d.Name}, Datagrams: slices.Contains(d.Transports, "UD")}
		for _, p := range d.Ports {
			device.Up = device.Up || p.Up
			if p.Name != d.Name {
				device.Names = append(device.Names, p.Name)
			}
		}
		out = append(out, device)
	}
	return out, nil
}

// devicesUp is the names of the devices that have a port which is up.
func devicesUp() ([]string, error) {
	devices, err := policyDevices()
	var names []string
	for i := range devices {
		if devices[i].Up {
			names = append(names, devices[i].Names[0])
		}
	}
	return names, err
}
