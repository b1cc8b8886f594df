// Command debian13 runs tests with the MPI libraries of Debian 13, Open MPI 5.0 and
// MPICH 4.2, which are newer than those of the machine that mpitrace is built on:
//
//	go run ./test/debian13                    # programs in act mode, and the runtime
//	go run ./test/debian13 ./test/act -run Programs/mpich
//	go run ./test/debian13 ./test/launch -run Functions   # which functions a program finds
//
// It wants root: the system lies in a folder that debootstrap fills, and sees the
// source tree, with what was built there, by mounts that end with the command, as
// all of its processes do. What the tests are is none of its business.
//
// make test-debian13
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	suite    = "trixie"
	mirror   = "http://deb.debian.org/debian"
	packages = "openmpi-bin libopenmpi-dev mpich libmpich-dev gcc g++ gfortran libc6-dev make procps iproute2 openssh-client ca-certificates"
)

// natively are tests that these libraries do not pass, whatever is preloaded.
var natively = []string{
	"TestRefused/openmpi/file_size", // Open MPI 5 ends with SIGXFSZ where files may not be large
	"TestLimits",                    // the same
	"TestWorlds/openmpi",            // mpirun of Debian's 5.0.7 ends with a segmentation fault for two programs
}

func main() {
	args := os.Args[1:]
	if len(args) == 0 {
		args = []string{"./test/act", "./test/runtime", "-timeout", "3h", "-skip", strings.Join(natively, "|")}
	}
	if err := run(args); err != nil {
		fmt.Fprintln(os.Stderr, "test/debian13:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if os.Geteuid() != 0 {
		return errors.New("wants root: debootstrap, mounts and chroot do")
	}
	tree, err := os.Getwd()
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(tree, "build", "libmpishim.so")); err != nil {
		return fmt.Errorf("%w; run make build first, at the top of the tree", err)
	}
	root, err := system()
	if err != nil {
		return err
	}
	return test(root, tree, args)
}

// system is the folder of Debian 13, filled by the first call.
func system() (string, error) {
	cache := os.Getenv("MPITRACE_CACHE")
	if cache == "" {
		home, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("cache of the system: %w; choose one by MPITRACE_CACHE", err)
		}
		cache = filepath.Join(home, "mpitrace")
	}
	root := filepath.Join(cache, "debian13")
	ready := filepath.Join(root, "mpitrace-ready")
	if _, err := os.Stat(ready); err == nil {
		return root, nil
	}
	if err := os.RemoveAll(root); err != nil { // what was begun and not finished
		return "", err
	}
	if err := command("debootstrap", "--variant=minbase", suite, root, mirror); err != nil {
		return "", err
	}
	install := "export DEBIAN_FRONTEND=noninteractive; apt-get install -y -q --no-install-recommends " + packages
	if err := inside(root, nil, install); err != nil {
		return "", err
	}
	return root, os.WriteFile(ready, nil, 0o644)
}

// test runs go test there, with the tools and caches of this machine.
func test(root, tree string, args []string) error {
	shared := []string{tree}
	for _, name := range []string{"GOROOT", "GOMODCACHE", "GOCACHE"} {
		dir, err := exec.Command("go", "env", name).Output()
		if err != nil {
			return fmt.Errorf("go env %s: %w", name, err)
		}
		shared = append(shared, strings.TrimSpace(string(dir)))
	}
	goTest := append([]string{filepath.Join(shared[1], "bin", "go"), "test", "-count=1"}, args...)
	script := "cd " + quoted(tree) + " && export CGO_ENABLED=0 GOTOOLCHAIN=local GOCACHE=" + quoted(shared[3]) + " GOMODCACHE=" + quoted(shared[2]) + "\n"
	for _, word := range goTest {
		script += quoted(word) + " "
	}
	return inside(root, shared, script)
}

// inside runs a script of the shell in the system, which sees some folders of this
// machine. Its mounts and processes are seen by nobody else.
func inside(root string, shared []string, script string) error {
	mounts := "set -e\nmount --rbind " + quoted(root) + " " + quoted(root) + "\n" // so that tests can make mounts of their own
	mounts += "mount -t proc proc " + quoted(filepath.Join(root, "proc")) + "\n"
	for _, dir := range append([]string{"/sys", "/dev"}, shared...) {
		at := quoted(filepath.Join(root, dir))
		mounts += "mkdir -p " + at + "; mount --rbind " + quoted(dir) + " " + at + "\n"
	}
	mounts += "cp /etc/resolv.conf /etc/hosts " + quoted(filepath.Join(root, "etc")) + "\n"
	return command("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "sh", "-c", mounts+"exec chroot "+quoted(root)+" /bin/sh -c "+quoted(script))
}

func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

func command(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
