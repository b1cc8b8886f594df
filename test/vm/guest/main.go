// Command guest is the first process of a guest of package vm: it loads modules,
// puts a layer in memory over the host's files and makes that its root, sets up
// the network and its RDMA devices, and then runs what the host asks for.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpitrace/mpitrace/test/vm/wire"
)

func main() {
	err := run()
	// the console is what a host reads of a guest that did not get to its port
	fmt.Println("guest:", err)
	time.Sleep(200 * time.Millisecond)
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
}

func run() error {
	// where commands are looked for: the kernel hands none down
	if err := os.Setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"); err != nil {
		return err
	}
	var settings wire.Settings
	text, err := os.ReadFile("/settings.json")
	if err == nil {
		err = json.Unmarshal(text, &settings)
	}
	if err != nil {
		return err
	}
	if err := mounts(first); err != nil {
		return err
	}
	for _, name := range settings.Modules {
		if err := load("/modules/" + name); err != nil {
			return fmt.Errorf("module %s: %w", name, err)
		}
	}
	if err := enterRoot(); err != nil {
		return err
	}
	port, err := openPort()
	if err != nil {
		return err
	}
	reply := json.NewEncoder(port)
	if err := configure(settings); err != nil {
		_ = reply.Encode(wire.Reply{Problem: err.Error()})
		return err
	}
	if err := reply.Encode(wire.Reply{Ready: true}); err != nil {
		return err
	}
	return serve(port)
}

// ---- files ----

type mount struct {
	source, target, kind string
	flags                uintptr
	options              string
}

var (
	first = []mount{
		{"proc", "/proc", "proc", 0, ""},
		{"sysfs", "/sys", "sysfs", 0, ""},
		{"debugfs", "/sys/kernel/debug", "debugfs", 0, ""}, // says how the kernel preempts itself
		{"dev", "/dev", "devtmpfs", 0, ""},
	}
	// the host's files never change while a guest runs: they may be cached
	root = []mount{
		{"root", "/host", "9p", unix.MS_RDONLY, "trans=virtio,version=9p2000.L,msize=524288,cache=loose,access=any"},
		{"layer", "/layer", "tmpfs", 0, "size=75%"},
	}
	last = []mount{
		{"/proc", "/root/proc", "", unix.MS_MOVE, ""},
		{"/sys", "/root/sys", "", unix.MS_MOVE, ""},
		{"/dev", "/root/dev", "", unix.MS_MOVE, ""},
		{"pts", "/root/dev/pts", "devpts", 0, "mode=620,ptmxmode=666"},
		{"shm", "/root/dev/shm", "tmpfs", 0, "mode=1777"},
		{"run", "/root/run", "tmpfs", 0, "mode=755"},
	}
)

func mounts(list []mount) error {
	for _, m := range list {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	return nil
}

func load(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.FinitModule(int(file.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// enterRoot makes the host's files under a layer of our own the root.
func enterRoot() error {
	if err := mounts(root); err != nil {
		return err
	}
	for _, dir := range []string{"/layer/upper", "/layer/work"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	overlay := mount{"overlay", "/root", "overlay", 0, "lowerdir=/host,upperdir=/layer/upper,workdir=/layer/work,xino=off"}
	if err := mounts(append([]mount{overlay}, last...)); err != nil {
		return err
	}
	if err := os.Chdir("/root"); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("moving the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		if err := os.Symlink(target, "/dev/"+name); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return os.Chdir("/")
}

// ---- network ----

// mtu leaves room for packets of 4096 bytes and their headers.
const mtu = 4200

func configure(s wire.Settings) error {
	unlimited := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unlimited); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(s.Host)); err != nil {
		return err
	}
	// an address of the link may be used at once
	for _, name := range []string{"all", "default"} {
		_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/accept_dad", []byte("0"), 0)
	}
	addresses, devices := []string{"link set lo up"}, []string{}
	for i := range s.Rails {
		nic, address := fmt.Sprintf("rail%d", i), fmt.Sprintf("10.77.%d.1/24", i)
		if i < len(s.Addresses) {
			nic, address = wire.Net(i), s.Addresses[i]
		} else {
			addresses = append(addresses,
				fmt.Sprintf("link add %s mtu %d type veth peer name peer%d", nic, mtu, i),
				fmt.Sprintf("link set peer%d mtu %d up", i, mtu))
		}
		addresses = append(addresses,
			fmt.Sprintf("addr add %s dev %s", address, nic),
			fmt.Sprintf("link set %s mtu %d up", nic, mtu))
		devices = append(devices, fmt.Sprintf("link add rxe%d type rxe netdev %s", i, nic))
	}
	if err := batch(addresses, "ip", "-batch", "-"); err != nil {
		return err
	}
	return batch(devices, "rdma", "-b", "-")
}

// batch has a tool of iproute2 read commands.
func batch(lines []string, args ...string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// ---- commands ----

// openPort finds the serial port by its name, which appears a little after the
// driver.
func openPort() (*os.File, error) {
	for range 100 {
		names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err == nil && strings.TrimSpace(string(text)) == wire.Port {
				return os.OpenFile("/dev/"+filepath.Base(filepath.Dir(name)), os.O_RDWR, 0)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, errors.New("the port to the host did not appear within 2 s")
}

func serve(port io.ReadWriter) error {
	requests, replies := json.NewDecoder(port), &replies{encoder: json.NewEncoder(port)}
	for {
		var r wire.Request
		if err := requests.Decode(&r); err != nil {
			return err
		}
		if err := replies.send(execute(r, replies)); err != nil {
			return err
		}
	}
}

// replies is used by the output of a command and by its end.
type replies struct {
	mu      sync.Mutex
	encoder *json.Encoder
}

func (r *replies) send(reply wire.Reply) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.encoder.Encode(reply)
}

// stream sends what is written to it as output.
type stream struct {
	replies *replies
	stderr  bool
}

func (s stream) Write(p []byte) (int, error) {
	reply := wire.Reply{Stdout: p}
	if s.stderr {
		reply = wire.Reply{Stderr: p}
	}
	return len(p), s.replies.send(reply)
}

// execute runs a command, which leads a process group, so that it can be ended
// with its children.
func execute(r wire.Request, to *replies) wire.Reply {
	cmd := exec.Command(r.Args[0], r.Args[1:]...)
	cmd.Dir, cmd.Env = r.Dir, r.Env
	cmd.Stdout, cmd.Stderr = stream{to, false}, stream{to, true}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return wire.Reply{Exited: true, Status: -1, Problem: err.Error()}
	}
	var late sync.Once
	timedOut := false
	timer := time.AfterFunc(time.Duration(r.Seconds)*time.Second, func() {
		late.Do(func() {
			timedOut = true
			_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		})
	})
	err := cmd.Wait()
	timer.Stop()
	late.Do(func() {}) // a timer that has begun is over now
	reply := wire.Reply{Exited: true, Status: cmd.ProcessState.ExitCode(), TimedOut: timedOut}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		reply.Status = 128 + int(status.Signal())
	}
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		reply.Problem = err.Error()
	}
	return reply
}
