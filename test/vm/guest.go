package vm

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/test/mpijob"
	"github.com/mpitrace/mpitrace/test/vm/wire"
)

// Options of a guest. The zero value is two processors, 1 GiB and two rails.
type Options struct {
	CPUs   int
	MiB    int
	Rails  int // RDMA devices, rxe0 and so on
	Name   string
	joined string // folder of the sockets to the other guest, one for each rail
	listen bool   // this one makes them
}

// socket of the network of a rail.
func (o Options) socket(rail int) string { return filepath.Join(o.joined, fmt.Sprint(rail)) }

// side is 1 for the guest that listens, and 2 for the other.
func (o Options) side() int {
	if o.listen {
		return 1
	}
	return 2
}

// Guest is a running guest. One command runs in it at a time.
type Guest struct {
	Boot time.Duration // from the start of qemu to the first command
	KVM  bool

	name    string
	dir     string // its files
	qemu    *exec.Cmd
	ended   chan struct{} // qemu has ended
	port    net.Conn
	request *json.Encoder
	reply   *json.Decoder
}

const (
	bootLimit = 10 * time.Minute
	rails     = 2
	top       = "../.."
)

// prepared is done once for all guests of a test program.
var prepared = sync.OnceValues(func() (preparation, error) {
	p := preparation{}
	var err error
	if p.kernel, err = prepareKernel(filepath.Join(top, "build", "vm")); err != nil {
		return p, err
	}
	p.init = filepath.Join(top, "build", "vm", "init")
	return p, mpijob.BuildStatic(p.init, "test/vm/guest")
})

type preparation struct {
	kernel *kernel
	init   string
}

// Boot starts a guest that lasts as long as the test.
func Boot(t testing.TB, o Options) *Guest {
	t.Helper()
	p := prepare(t)
	g, err := start(t, p, o)
	mpijob.Need(t, err)
	return g
}

// BootPair starts two guests that are joined by a network for each rail.
func BootPair(t testing.TB, o Options) [2]*Guest {
	t.Helper()
	p := prepare(t)
	dir, err := os.MkdirTemp("", "vm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	o.Rails, o.joined = orElse(o.Rails, rails), dir
	accelerated() // one guest, before there are two
	var guests [2]*Guest
	var errs [2]error
	var both sync.WaitGroup
	for i := range guests {
		o := o
		o.Name, o.listen = fmt.Sprintf("guest%d", i), i == 0
		both.Add(1)
		go func() {
			defer both.Done()
			for rail := 0; rail < o.Rails && !o.listen && errs[i] == nil; rail++ {
				errs[i] = awaitListener(o.socket(rail), time.Now().Add(bootLimit), nil)
			}
			if errs[i] == nil {
				guests[i], errs[i] = start(t, p, o)
			}
		}()
	}
	both.Wait()
	mpijob.Need(t, errors.Join(errs[:]...))
	return guests
}

func prepare(t testing.TB) preparation {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		mpijob.Need(t, mpijob.Missing("an x86-64 machine", "run this test on one"))
	}
	mpijob.Need(t, mpijob.Tools("--no-install-recommends qemu-system-x86 xz-utils iproute2 binutils", "qemu-system-x86_64", "xz", "ip"))
	p, err := prepared()
	mpijob.Need(t, err)
	return p
}

// awaitListener waits until qemu listens at a socket. Its file is there a little
// earlier, which is why the kernel's list is asked: column 4 has the flag
// __SO_ACCEPTCON of listeners (Linux, net/unix/af_unix.c).
func awaitListener(path string, until time.Time, ended <-chan struct{}) error {
	for time.Now().Before(until) {
		list, err := os.ReadFile("/proc/net/unix")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(list)) {
			columns := strings.Fields(line)
			if len(columns) == 8 && columns[7] == path && columns[3] == "00010000" {
				return nil
			}
		}
		select {
		case <-ended:
			return fmt.Errorf("qemu ended before it listened at %s", path)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return fmt.Errorf("nobody listens at %s", path)
}

func start(t testing.TB, p preparation, o Options) (*Guest, error) {
	o.CPUs, o.MiB, o.Rails = orElse(o.CPUs, 2), orElse(o.MiB, 1024), orElse(o.Rails, rails)
	if o.Name == "" {
		o.Name = "guest"
	}
	g, err := boot(p, o, accelerated(), bootLimit)
	if err == nil {
		t.Cleanup(g.stop)
		t.Logf("%s: up after %.1f s, kvm: %v", g.name, g.Boot.Seconds(), g.KVM)
	}
	return g, err
}

func orElse(n, standard int) int {
	if n == 0 {
		return standard
	}
	return n
}

func boot(p preparation, o Options, kvm bool, limit time.Duration) (*Guest, error) {
	// a short path: those of sockets are limited
	dir, err := os.MkdirTemp("", "vm")
	if err != nil {
		return nil, err
	}
	g := &Guest{KVM: kvm, name: o.Name, dir: dir, ended: make(chan struct{})}
	if err := g.start(p, o, limit); err != nil {
		err = fmt.Errorf("%s: %w\n%s", g.name, err, g.lastWords())
		g.stop()
		return nil, err
	}
	return g, nil
}

// start starts qemu and waits until the guest is up.
func (g *Guest) start(p preparation, o Options, limit time.Duration) error {
	settings := wire.Settings{Host: o.Name, Rails: o.Rails}
	for rail := 0; rail < o.Rails && o.joined != ""; rail++ {
		settings.Addresses = append(settings.Addresses, fmt.Sprintf("10.78.%d.%d/24", rail, o.side()))
	}
	file, err := os.Create(filepath.Join(g.dir, "initramfs"))
	if err != nil {
		return err
	}
	if err := errors.Join(writeInitramfs(file, p.kernel, p.init, settings), file.Close()); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(g.dir, "qemu"))
	if err != nil {
		return err
	}
	defer log.Close()
	began := time.Now()
	qemu := exec.Command("qemu-system-x86_64", g.arguments(p.kernel, o)...)
	qemu.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	qemu.Stdout, qemu.Stderr = log, log
	if err := qemu.Start(); err != nil {
		return err
	}
	g.qemu = qemu
	go func() {
		_ = qemu.Wait()
		close(g.ended)
	}()
	if err := g.await(time.Now().Add(limit)); err != nil {
		return err
	}
	g.Boot = time.Since(began)
	return nil
}

// arguments of qemu. The kernel is told what saves time under emulation, and to
// end, rather than to wait, when it cannot go on.
func (g *Guest) arguments(k *kernel, o Options) []string {
	// Emulated on a machine that is loaded, a kernel has taken its TSC for one of a
	// seventh of the frequency, and its time ran away; the ACPI timer's is known.
	accel, cpu, clock := "tcg,thread=multi", "max,la57=off", " clocksource=acpi_pm"
	if g.KVM {
		accel, cpu, clock = "kvm", "host", ""
	}
	file := func(name string) string { return filepath.Join(g.dir, name) }
	args := []string{
		"-M", "q35,smm=off,vmport=off,hpet=off", "-nodefaults", "-no-user-config", "-no-reboot",
		"-accel", accel, "-cpu", cpu, "-smp", fmt.Sprint(o.CPUs), "-m", fmt.Sprint(o.MiB), "-display", "none",
		"-kernel", k.image, "-initrd", file("initramfs"),
		"-append", "console=ttyS0 quiet loglevel=4 panic=-1 oops=panic mitigations=off nokaslr tsc=reliable no_timer_check reboot=t random.trust_cpu=on audit=0 apparmor=0 selinux=0 net.ifnames=0 cryptomgr.notests nmi_watchdog=0 rdinit=/init" + clock,
		"-serial", "file:" + file("console"),
		"-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
		"-device", "virtio-9p-pci,fsdev=root,mount_tag=root",
		"-chardev", "socket,id=port,server=on,wait=off,path=" + file("port"),
		"-device", "virtio-serial-pci", "-device", "virtserialport,chardev=port,name=" + wire.Port,
	}
	for rail := 0; rail < o.Rails && o.joined != ""; rail++ {
		server := map[bool]string{true: "on", false: "off"}[o.listen]
		args = append(args,
			"-netdev", fmt.Sprintf("stream,id=net%d,server=%s,addr.type=unix,addr.path=%s", rail, server, o.socket(rail)),
			"-device", fmt.Sprintf("virtio-net-pci,netdev=net%d,mac=52:54:00:4d:%02x:%02x", rail, 0x54+rail, o.side()))
	}
	return args
}

// await waits for the guest's first word.
func (g *Guest) await(until time.Time) error {
	port := filepath.Join(g.dir, "port")
	if err := awaitListener(port, until, g.ended); err != nil {
		return err
	}
	conn, err := net.Dial("unix", port)
	if err != nil {
		return err
	}
	g.port, g.request, g.reply = conn, json.NewEncoder(conn), json.NewDecoder(conn)
	if err := conn.SetDeadline(until); err != nil {
		return err
	}
	var first wire.Reply
	if err := g.reply.Decode(&first); err != nil {
		return fmt.Errorf("it did not come up: %w", err)
	}
	if !first.Ready {
		return errors.New(first.Problem)
	}
	return nil
}

// lastWords is the end of what the console and qemu said.
func (g *Guest) lastWords() string {
	var b strings.Builder
	for _, name := range []string{"qemu", "console"} {
		text, _ := os.ReadFile(filepath.Join(g.dir, name))
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(lines[max(0, len(lines)-20):], "\n"))
	}
	return b.String()
}

// stop ends qemu; there is nothing in a guest to be saved.
func (g *Guest) stop() {
	if g.qemu != nil {
		_ = g.qemu.Process.Kill()
		<-g.ended
	}
	if g.port != nil {
		g.port.Close()
	}
	os.RemoveAll(g.dir)
}

// Start runs a command, whose path and working directory are those of the host;
// it is killed after limit. Wait for one command before starting the next.
func (g *Guest) Start(limit time.Duration, args ...string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	// the guest ends it; it has a little longer to say so
	if err := g.port.SetDeadline(time.Now().Add(limit + 30*time.Second)); err != nil {
		return err
	}
	return g.request.Encode(wire.Request{Args: args, Dir: dir, Env: mpijob.Environ(), Seconds: int(limit / time.Second)})
}

// Wait returns what is left of the command that was started.
func (g *Guest) Wait() (mpijob.Outcome, error) {
	var o mpijob.Outcome
	for {
		var r wire.Reply
		if err := g.reply.Decode(&r); err != nil {
			return o, fmt.Errorf("%s: %w\n%s", g.name, err, g.lastWords())
		}
		o.Stdout, o.Stderr = append(o.Stdout, r.Stdout...), append(o.Stderr, r.Stderr...)
		if r.Exited {
			o.Status, o.TimedOut = r.Status, r.TimedOut
			if r.Problem != "" {
				return o, fmt.Errorf("%s: %s", g.name, r.Problem)
			}
			return o, nil
		}
	}
}

// Run runs a command to its end.
func (g *Guest) Run(t testing.TB, limit time.Duration, args ...string) mpijob.Outcome {
	t.Helper()
	if err := g.Start(limit, args...); err != nil {
		t.Fatal(err)
	}
	o, err := g.Wait()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(args, " "), err, o.Stdout, o.Stderr)
	}
	if o.TimedOut {
		t.Fatalf("%s: not finished after %v\n%s%s", strings.Join(args, " "), limit, o.Stdout, o.Stderr)
	}
	return o
}
