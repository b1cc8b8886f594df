// Package hosts makes several hosts of one machine, for tests and benchmarks of
// jobs that run on more than one: network namespaces, each with its own host name, network
// address, /etc/hosts and /dev/shm. They share files, processes and, which a
// test of clocks may rely on, the clock. It must not know what a job does.
package hosts

import (
	"bufio"
	"errors"
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

// Hosts are hosts that last until Close.
type Hosts struct {
	Names []string
	PIDs  []int    // a process inside each: /proc/PID/root is what it sees
	tag   string   // that names of this set begin with
	nets  int      // networks, which are eth0, eth1 ... of each
	cpus  []string // of each, that its processes may run on; none: all
	rsh   string   // runs a command on a host, as ssh would: rsh NAME COMMAND
	undo  []func() error
}

// New makes n hosts that last as long as a test.
func New(t testing.TB, n int) *Hosts {
	t.Helper()
	h, err := Make(t.TempDir(), n)
	mpijob.Need(t, err)
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// made numbers the sets of hosts.
var made int

// Make makes n hosts, with what they need in a directory.
func Make(dir string, n int) (*Hosts, error) {
	if err := mpijob.Tools("iproute2 util-linux", "ip", "tc", "nsenter", "unshare", "mount", "taskset"); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, mpijob.Missing("the right to make network namespaces", "run this as root")
	}
	h := &Hosts{}
	if err := h.make(dir, n); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

func (h *Hosts) make(dir string, n int) error {
	// Names of interfaces have at most 15 characters; those of an earlier set
	// may live on for a moment.
	made++
	h.tag = fmt.Sprintf("mt%xt%d", os.Getpid()&0xfffff, made)
	table := filepath.Join(dir, "hosts")
	text := "127.0.0.1 localhost\n"
	for i := range n {
		name := fmt.Sprintf("%sh%d", h.tag, i)
		h.Names = append(h.Names, name)
		text += fmt.Sprintf("10.89.7.%d %s\n", i+1, name)
	}
	if err := os.WriteFile(table, []byte(text), 0o644); err != nil {
		return fmt.Errorf("hosts: %w", err)
	}
	for i := range n {
		if err := h.add(table, i); err != nil {
			return err
		}
	}
	if err := h.AddNetwork(); err != nil {
		return err
	}
	h.rsh = filepath.Join(dir, "rsh")
	return h.writeRsh()
}

// Close ends the hosts.
func (h *Hosts) Close() error {
	var failed error
	for _, undo := range slices.Backward(h.undo) {
		failed = errors.Join(failed, undo())
	}
	return failed
}

// command runs a command that must succeed.
func command(args ...string) error {
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// add makes host i: a process in namespaces of its own keeps it alive.
func (h *Hosts) add(table string, i int) error {
	script := `hostname "$1" && mount -t tmpfs -o mode=1777 tmpfs /dev/shm && mount --bind "$2" /etc/hosts &&
ip link set lo up && echo ready && exec sleep infinity`
	keeper := exec.Command("unshare", "--net", "--uts", "--ipc", "--mount", "sh", "-c", script, "sh", h.Names[i], table)
	keeper.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	keeper.Stderr = os.Stderr
	out, err := keeper.StdoutPipe()
	if err != nil {
		return fmt.Errorf("host %s: %w", h.Names[i], err)
	}
	if err := keeper.Start(); err != nil {
		return fmt.Errorf("host %s: %w", h.Names[i], err)
	}
	h.undo = append(h.undo, func() error {
		err := keeper.Process.Kill()
		_ = keeper.Wait() // it was killed
		return err
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		return fmt.Errorf("host %s: said %q: %v", h.Names[i], line, err)
	}
	h.PIDs = append(h.PIDs, keeper.Process.Pid)
	return nil
}

// AddNetwork gives each host one more interface, eth1 after the eth0 that it is
// made with: host i is 10.89.(7+k).(i+1) on ethK.
func (h *Hosts) AddNetwork() error {
	k := h.nets
	bridge, inside, suffix := fmt.Sprintf("%sbr%d", h.tag, k), fmt.Sprintf("eth%d", k), "o"
	if k > 0 {
		suffix += fmt.Sprint(k)
	}
	if err := command("ip", "link", "add", bridge, "type", "bridge"); err != nil {
		return err
	}
	h.undo = append(h.undo, func() error { return command("ip", "link", "del", bridge) })
	h.nets++
	if err := command("ip", "link", "set", bridge, "up"); err != nil {
		return err
	}
	for i, name := range h.Names {
		for _, args := range [][]string{
			{"ip", "link", "add", name + suffix, "type", "veth", "peer", "name", inside, "netns", fmt.Sprint(h.PIDs[i])},
			{"ip", "link", "set", name + suffix, "master", bridge, "up"},
			h.On(i, "ip", "addr", "add", fmt.Sprintf("10.89.%d.%d/24", 7+k, i+1), "dev", inside),
			h.On(i, "ip", "link", "set", inside, "up"),
		} {
			if err := command(args...); err != nil {
				return err
			}
		}
	}
	return nil
}

// Cut takes a host's first network away behind its interface, which stays up: what is
// sent vanishes. Mend gives it back.
func (h *Hosts) Cut(i int) error { return command("ip", "link", "set", h.Names[i]+"o", "nomaster") }

// Mend undoes Cut.
func (h *Hosts) Mend(i int) error {
	return command("ip", "link", "set", h.Names[i]+"o", "master", h.tag+"br0")
}

// Pace has each host send no faster, over each of its interfaces, than a rate as
// tc writes it: 1gbit. The burst takes the largest segment that TCP hands down whole
// (64 KiB and headers): a shorter one has the kernel cut it into packets with a timer
// each, at the cost of the sender's processor, which a network card would do itself.
func (h *Hosts) Pace(rate string) error {
	return h.queue("tbf", "rate", rate, "burst", "80kb", "latency", "50ms")
}

// Unpace takes back what Pace did, if it did anything.
func (h *Hosts) Unpace() error {
	return h.queue("noqueue")
}

// queue gives each interface of each host a queueing discipline.
func (h *Hosts) queue(discipline ...string) error {
	for i := range h.Names {
		for k := range h.nets {
			words := append([]string{"tc", "qdisc", "replace", "dev", fmt.Sprintf("eth%d", k), "root"}, discipline...)
			if err := command(h.On(i, words...)...); err != nil {
				return err
			}
		}
	}
	return nil
}

// OnIn is a command to be run on host i in a directory.
func (h *Hosts) OnIn(i int, dir string, args ...string) []string {
	return h.On(i, append([]string{"sh", "-c", `cd "$0" && exec "$@"`, dir}, args...)...)
}

// On is a command to be run on host i.
func (h *Hosts) On(i int, args ...string) []string {
	enter := append(h.pin(i), "nsenter", "-t", fmt.Sprint(h.PIDs[i]), "--net", "--uts", "--ipc", "--mount", "--")
	return append(enter, args...)
}

// pin is what keeps a command of host i on its processors.
func (h *Hosts) pin(i int) []string {
	if len(h.cpus) == 0 {
		return nil
	}
	return []string{"taskset", "-c", h.cpus[i]}
}

// Pin says on which processors the commands of each host run from now on, as
// taskset takes them; none: on all.
func (h *Hosts) Pin(cpus ...string) error {
	if len(cpus) != 0 && len(cpus) != len(h.Names) {
		return fmt.Errorf("processors for %d hosts of %d", len(cpus), len(h.Names))
	}
	h.cpus = cpus
	return h.writeRsh()
}

// writeRsh writes what the launchers take for ssh.
func (h *Hosts) writeRsh() error {
	text := "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nhost=$1; shift\ncase $host in\n"
	for i, name := range h.Names {
		text += fmt.Sprintf("%s|10.89.7.%d) pid=%d pin='%s';;\n", name, i+1, h.PIDs[i], strings.Join(h.pin(i), " "))
	}
	text += "*) echo \"no host $host\" >&2; exit 255;;\nesac\nexec $pin nsenter -t $pid --net --uts --ipc --mount -- /bin/sh -c \"$*\"\n"
	if err := os.WriteFile(h.rsh, []byte(text), 0o755); err != nil {
		return fmt.Errorf("hosts: %w", err)
	}
	return nil
}

// Launcher are the words of the launcher that puts so many ranks on each host;
// how many ranks in all, and of what, is to follow.
func (h *Hosts) Launcher(m mpijob.MPI, perHost int) []string {
	if m.Name == "mpich" {
		return []string{m.Launcher, "-launcher", "ssh", "-launcher-exec", h.rsh, "-iface", "eth0",
			"-hosts", strings.Join(h.Names, ","), "-ppn", fmt.Sprint(perHost), "-bind-to", "none"}
	}
	slots := fmt.Sprintf(":%d", perHost)
	return []string{m.Launcher, "--mca", "plm_rsh_agent", h.rsh, "--mca", "oob_tcp_if_include", "eth0",
		"--mca", "btl_tcp_if_include", "eth0", "--mca", "pml", "ob1", "--mca", "btl", "self,tcp,vader",
		"-H", strings.Join(h.Names, slots+",") + slots, "--map-by", "node", "--bind-to", "none"}
}

// Across is the command that starts two ranks on each host.
func (h *Hosts) Across(m mpijob.MPI, words ...string) []string {
	return slices.Concat(h.Launcher(m, 2), []string{"-n", fmt.Sprint(2 * len(h.Names))}, words)
}
