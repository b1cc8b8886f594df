package launch_test

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
	"time"

	"github.com/mpitrace/mpitrace/segment"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// hosts are network namespaces of this machine, each with its own host name,
// network address, /etc/hosts and /dev/shm; they share files and processes.
type hosts struct {
	names []string
	pids  []int  // a process inside each
	rsh   string // runs a command on a host, as ssh would: rsh NAME COMMAND
}

// hostsMade numbers the sets of hosts.
var hostsMade int

// newHosts makes n hosts that last as long as the test.
func newHosts(t *testing.T, n int) *hosts {
	t.Helper()
	mpijob.Need(t, mpijob.Tools("iproute2 util-linux", "ip", "nsenter", "unshare", "mount"))
	if os.Geteuid() != 0 {
		mpijob.Need(t, mpijob.Missing("the right to make network namespaces", "run this test as root"))
	}
	h := &hosts{}
	// Names of interfaces have at most 15 characters; those of an earlier test
	// may live on for a moment.
	hostsMade++
	tag := fmt.Sprintf("mt%xt%d", os.Getpid()&0xfffff, hostsMade)
	bridge := tag + "br"
	command(t, "ip", "link", "add", bridge, "type", "bridge")
	t.Cleanup(func() { command(t, "ip", "link", "del", bridge) })
	command(t, "ip", "link", "set", bridge, "up")
	table := filepath.Join(t.TempDir(), "hosts")
	text := "127.0.0.1 localhost\n"
	for i := range n {
		name := fmt.Sprintf("%sh%d", tag, i)
		h.names = append(h.names, name)
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
func command(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// add makes host i: a process in namespaces of its own keeps it alive.
func (h *hosts) add(t *testing.T, bridge, table string, i int) {
	t.Helper()
	script := `hostname "$1" && mount -t tmpfs -o mode=1777 tmpfs /dev/shm && mount --bind "$2" /etc/hosts &&
ip link set lo up && echo ready && exec sleep infinity`
	keeper := exec.Command("unshare", "--net", "--uts", "--ipc", "--mount", "sh", "-c", script, "sh", h.names[i], table)
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
		t.Fatalf("host %s: %q, %v", h.names[i], line, err)
	}
	pid := keeper.Process.Pid
	h.pids = append(h.pids, pid)
	outside, inside := h.names[i]+"o", "eth0"
	command(t, "ip", "link", "add", outside, "type", "veth", "peer", "name", inside, "netns", fmt.Sprint(pid))
	command(t, "ip", "link", "set", outside, "master", bridge, "up")
	command(t, h.on(i, "ip", "addr", "add", fmt.Sprintf("10.89.7.%d/24", i+1), "dev", inside)...)
	command(t, h.on(i, "ip", "link", "set", inside, "up")...)
}

// onIn is a command to be run on host i in a directory.
func (h *hosts) onIn(i int, dir string, args ...string) []string {
	return h.on(i, append([]string{"sh", "-c", `cd "$0" && exec "$@"`, dir}, args...)...)
}

// on is a command to be run on host i.
func (h *hosts) on(i int, args ...string) []string {
	return append([]string{"nsenter", "-t", fmt.Sprint(h.pids[i]), "--net", "--uts", "--ipc", "--mount", "--"}, args...)
}

// writeRsh writes what the launchers take for ssh.
func (h *hosts) writeRsh(t *testing.T) {
	text := "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nhost=$1; shift\ncase $host in\n"
	for i, name := range h.names {
		text += fmt.Sprintf("%s|10.89.7.%d) pid=%d;;\n", name, i+1, h.pids[i])
	}
	text += "*) echo \"no host $host\" >&2; exit 255;;\nesac\nexec nsenter -t $pid --net --uts --ipc --mount -- /bin/sh -c \"$*\"\n"
	h.rsh = filepath.Join(t.TempDir(), "rsh")
	if err := os.WriteFile(h.rsh, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// across is the command that starts two ranks on each host.
func (h *hosts) across(m mpi, words ...string) []string {
	ranks := fmt.Sprint(2 * len(h.names))
	if m.Name == "mpich" {
		return slices.Concat([]string{m.Launcher, "-launcher", "ssh", "-launcher-exec", h.rsh, "-iface", "eth0",
			"-hosts", strings.Join(h.names, ","), "-ppn", "2", "-bind-to", "none", "-n", ranks}, words)
	}
	return slices.Concat([]string{m.Launcher, "--mca", "plm_rsh_agent", h.rsh, "--mca", "oob_tcp_if_include", "eth0",
		"--mca", "btl_tcp_if_include", "eth0", "--mca", "pml", "ob1", "--mca", "btl", "self,tcp,vader",
		"-H", strings.Join(h.names, ":2,") + ":2", "--map-by", "node", "--bind-to", "none", "-n", ranks}, words)
}

// networkless lets the UCX of MPICH speak TCP only.
func networkless() []string { return append(environment(), "UCX_TLS=tcp,self") }

// quiet is how a job on two hosts ends when nothing happens to it. Between
// hosts without fast network the MPI_Finalize of MPICH 4.0 hangs now and then
// by itself: one rank waits for an answer over tcp while the other sits in the
// barrier of the process manager (without mpitrace: 2 of 40 runs with 2 ranks,
// 6 of 12 with 4). Its ranks leave by exit, then.
func (m mpi) quiet() []string {
	if m.Name == "mpich" {
		return []string{"early"}
	}
	return []string{"ok", "early"}
}

// TestHosts: whatever happens to one rank, on the host of the launcher or on
// the other, one mpitrace run gives the whole result of both hosts.
func TestHosts(t *testing.T) {
	for _, m := range mpis {
		program := m.program(t)
		for _, ending := range append(m.quiet(), "kill 0", "kill 1", "kill 2", "abort 1", "term 3", "immediate") {
			t.Run(m.Name+"/"+ending, func(t *testing.T) {
				h, dir := newHosts(t, 2), t.TempDir()
				command := h.across(m, append([]string{program}, strings.Fields(ending)...)...)
				got := run(t, dir, networkless(), h.onIn(0, dir, traced(dir, command)...)...)
				if ending == "ok" && got.status != 0 || strings.Contains(ending, " ") && got.status == 0 {
					t.Errorf("status %d\n%s\n%s", got.status, got.stdout, got.stderr)
				}
				wantLine(t, got, "result in out (4 ranks, 2 nodes)")
				wantRanks(t, filepath.Join(dir, "out"), 4)
				h.wantEmpty(t)
			})
		}
	}
}

// wantEmpty demands that no host keeps anything in shared memory. The last rank
// of the other host may still be removing what it wrote down.
func (h *hosts) wantEmpty(t *testing.T) {
	t.Helper()
	for i, pid := range h.pids {
		var found []string
		for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			var err error
			if found, err = filepath.Glob(fmt.Sprintf("/proc/%d/root%s/*", pid, segment.BaseDirs()[0])); err != nil {
				t.Fatal(err)
			}
			if len(found) == 0 || time.Now().After(end) {
				break
			}
		}
		for _, path := range found {
			inside, _ := os.ReadDir(path)
			t.Errorf("%s: left in shared memory: %s: %v", h.names[i], path, inside)
		}
	}
}

// TestHostsCollected: mpitrace run is killed with the job; collect on each
// host gives the whole.
func TestHostsCollected(t *testing.T) {
	m := mpis[0]
	program := m.program(t)
	h, dir := newHosts(t, 2), t.TempDir()
	ready := filepath.Join(dir, "ready")
	p := start(t, dir, networkless(), h.onIn(0, dir, traced(dir, h.across(m, program, "wait", "0", ready))...))
	waitFor(t, ready)
	job := jobOf(t, ranksOf(t, program, ready)[0])
	_ = syscall.Kill(p.Process.Pid, syscall.SIGKILL) // nsenter became mpitrace
	for _, pid := range ranksOf(t, program, ready) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		waitGone(t, pid)
	}
	p.end(t)
	for i := range h.names {
		got := run(t, dir, environment(), h.onIn(i, dir, mpitrace, "collect", "--job", job, "-o", filepath.Join(dir, "out"))...)
		wantLine(t, got, "collected 2 processes into")
	}
	wantRanks(t, filepath.Join(dir, "out"), 4)
}

// ranksOf finds the processes that run a program with an argument of this
// test's own.
func ranksOf(t *testing.T, program, argument string) []int {
	t.Helper()
	var out []int
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		words := strings.Split(string(text), "\x00")
		if err != nil || words[0] != program || !slices.Contains(words, argument) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(file, "/proc/%d/cmdline", &pid); err == nil {
			out = append(out, pid)
		}
	}
	if len(out) == 0 {
		t.Fatalf("no process runs %s %s", program, argument)
	}
	return out
}
