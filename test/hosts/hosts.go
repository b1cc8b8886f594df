// Package hosts makes several hosts of one machine, for tests of jobs that run
// on more than one: network namespaces, each with its own host name, network
// address, /etc/hosts and /dev/shm. They share files, processes and, which a
// test of clocks may rely on, the clock. It must not know what a job does.
package hosts

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// Hosts are hosts that last as long as a test.
type Hosts struct {
	Names []string
	PIDs  []int  // a process inside each: /proc/PID/root is what it sees
	rsh   string // runs a command on a host, as ssh would: rsh NAME COMMAND
}

// made numbers the sets of hosts.
var made int

// New makes n hosts.
func New(t testing.TB, n int) *Hosts {
	t.Helper()
	mpijob.Need(t, mpijob.Tools("iproute2 util-linux", "ip", "nsenter", "unshare", "mount"))
	if os.Geteuid() != 0 {
		mpijob.Need(t, mpijob.Missing("the right to make network namespaces", "run this test as root"))
	}
	h := &Hosts{}
	// Names of interfaces have at most 15 characters; those of an earlier test
	// may live on for a moment.
	made++
	tag := fmt.Sprintf("mt%xt%d", os.Getpid()&0xfffff, made)
	bridge := tag + "br"
	command(t, "ip", "link", "add", bridge, "type", "bridge")
	t.Cleanup(func() { command(t, "ip", "link", "del", bridge) })
	command(t, "ip", "link", "set", bridge, "up")
	table := filepath.Join(t.TempDir(), "hosts")
	text := "127.0.0.1 localhost\n"
	for i := range n {
		name := fmt.Sprintf("%sh%d", tag, i)
		h.Names = append(h.Names, name)
		text += fmt.Sprintf("10.89.7.%d %s\n", i+1, name)
	}
	if err := os.WriteFile(table, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		h.add(t, bridge, table, i)
	}
	h.writeRsh(t)
	return h
}

// command runs a command that must succeed.
func command(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// add makes host i: a process in namespaces of its own keeps it alive.
func (h *Hosts) add(t testing.TB, bridge, table string, i int) {
	t.Helper()
	script := `hostname "$1" && mount -t tmpfs -o mode=1777 tmpfs /dev/shm && mount --bind "$2" /etc/hosts &&
ip link set lo up && echo ready && exec sleep infinity`
	keeper := exec.Command("unshare", "--net", "--uts", "--ipc", "--mount", "sh", "-c", script, "sh", h.Names[i], table)
	keeper.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	keeper.Stderr = os.Stderr
	out, err := keeper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := keeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = keeper.Process.Kill()
		_ = keeper.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("host %s: %q, %v", h.Names[i], line, err)
	}
	pid := keeper.Process.Pid
	h.PIDs = append(h.PIDs, pid)
	outside, inside := h.Names[i]+"o", "eth0"
	command(t, "ip", "link", "add", outside, "type", "veth", "peer", "name", inside, "netns", fmt.Sprint(pid))
	command(t, "ip", "link", "set", outside, "master", bridge, "up")
	command(t, h.On(i, "ip", "addr", "add", fmt.Sprintf("10.89.7.%d/24", i+1), "dev", inside)...)
	command(t, h.On(i, "ip", "link", "set", inside, "up")...)
}

// OnIn is a command to be run on host i in a directory.
func (h *Hosts) OnIn(i int, dir string, args ...string) []string {
	return h.On(i, append([]string{"sh", "-c", `cd "$0" && exec "$@"`, dir}, args...)...)
}

// On is a command to be run on host i.
func (h *Hosts) On(i int, args ...string) []string {
	return append([]string{"nsenter", "-t", fmt.Sprint(h.PIDs[i]), "--net", "--uts", "--ipc", "--mount", "--"}, args...)
}

// writeRsh writes what the launchers take for ssh.
func (h *Hosts) writeRsh(t testing.TB) {
	text := "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nhost=$1; shift\ncase $host in\n"
	for i, name := range h.Names {
		text += fmt.Sprintf("%s|10.89.7.%d) pid=%d;;\n", name, i+1, h.PIDs[i])
	}
	text += "*) echo \"no host $host\" >&2; exit 255;;\nesac\nexec nsenter -t $pid --net --uts --ipc --mount -- /bin/sh -c \"$*\"\n"
	h.rsh = filepath.Join(t.TempDir(), "rsh")
	if err := os.WriteFile(h.rsh, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// Across is the command that starts two ranks on each host.
func (h *Hosts) Across(m mpijob.MPI, words ...string) []string {
	ranks := fmt.Sprint(2 * len(h.Names))
	if m.Name == "mpich" {
		return slices.Concat([]string{m.Launcher, "-launcher", "ssh", "-launcher-exec", h.rsh, "-iface", "eth0",
			"-hosts", strings.Join(h.Names, ","), "-ppn", "2", "-bind-to", "none", "-n", ranks}, words)
	}
	return slices.Concat([]string{m.Launcher, "--mca", "plm_rsh_agent", h.rsh, "--mca", "oob_tcp_if_include", "eth0",
		"--mca", "btl_tcp_if_include", "eth0", "--mca", "pml", "ob1", "--mca", "btl", "self,tcp,vader",
		"-H", strings.Join(h.Names, ":2,") + ":2", "--map-by", "node", "--bind-to", "none", "-n", ranks}, words)
}
