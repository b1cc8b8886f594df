package packagetest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/version"
)

// system is a Debian of its own, below a directory.
type system struct {
	t    *testing.T
	root string
}

// debian makes a minimal Debian bookworm.
func debian(t *testing.T) system {
	t.Helper()
	s := system{t, filepath.Join(t.TempDir(), "debian")}
	mustWithin(t, buildLimit, "", nil, "debootstrap", "--variant=minbase", "bookworm", s.root)
	s.asRoot("useradd", "--create-home", "tester")
	return s
}

// command is how argv is started in the system as a user: with its own
// processes, which end with it, shared memory and terminals.
func (s system) command(user string, argv ...string) []string {
	script := fmt.Sprintf(`mount -t proc proc %[1]s/proc && mount -t sysfs sysfs %[1]s/sys &&
		mount -t tmpfs -o mode=1777 tmpfs %[1]s/dev/shm && mount --bind /dev/pts %[1]s/dev/pts &&
		exec chroot --userspec=%[2]s:%[2]s %[1]s "$@"`, s.root, user)
	return append([]string{"unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, "sh"}, argv...)
}

// environ is the environment of a user's login.
func (s system) environ(user string) []string {
	home := "/home/" + user
	if user == "root" {
		home = "/root"
	}
	return []string{
		"HOME=" + home, "USER=" + user, "TERM=dumb", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR=/tmp",
	}
}

func (s system) asRoot(argv ...string) string {
	s.t.Helper()
	return mustWithin(s.t, buildLimit, "", s.environ("root"), s.command("root", argv...)...)
}

// asTester runs a script of an ordinary user.
func (s system) asTester(script string) string {
	s.t.Helper()
	return must(s.t, "", s.environ("tester"), s.command("tester", "bash", "-ec", "cd\n"+script)...)
}

func (s system) install(packages ...string) {
	s.t.Helper()
	s.asRoot(append([]string{"apt-get", "install", "-y", "--no-install-recommends"}, packages...)...)
}

// snapshot lists the files of the system, but what package managers keep about
// themselves, and homes.
func (s system) snapshot() []string {
	var out []string
	for _, file := range files(s.t, s.root) {
		switch strings.Split(file, "/")[0] {
		case "proc", "sys", "dev", "run", "home", "root", "tmp":
			continue
		}
		if strings.HasPrefix(file, "var/lib/dpkg/") || strings.HasPrefix(file, "var/lib/apt/") || strings.HasPrefix(file, "var/cache/") || strings.HasPrefix(file, "var/log/") {
			continue
		}
		out = append(out, file)
	}
	return out
}

// TestDebian: the deb in a clean Debian, as root installs and an ordinary user
// uses it: upgrade, doctor, a job, its report, shells, manual, modules, removal.
func TestDebian(t *testing.T) {
	needLong(t)
	makeTarget(t, "deb", "VERSION=0.0.9")
	s := debian(t)
	s.install("gcc", "libc6-dev", "openmpi-bin", "libopenmpi-dev", "bash-completion", "zsh", "fish", "man-db", "environment-modules")
	s.relocate()
	before := s.snapshot()
	must(t, top, nil, "sh", "-c", fmt.Sprintf("mv build/mpitrace_0.0.9_*.deb %[1]s/tmp/older.deb && cp %[2]s %[1]s/tmp/newer.deb", s.root, debFile(t)))
	s.install("/tmp/older.deb")
	s.install("/tmp/newer.deb")
	if got := strings.TrimSpace(s.asRoot("dpkg-query", "-W", "-f", "${Status} ${Version}", "mpitrace")); got != "install ok installed "+version.Number {
		t.Errorf("after the upgrade: %s", got)
	}
	if found, _ := filepath.Glob(s.root + "/usr/share/mpitrace/modulefiles/mpitrace/0.0.9*"); len(found) > 0 {
		t.Errorf("left of the older package: %q", found)
	}
	t.Run("job", func(t *testing.T) { s.with(t).job() })
	t.Run("shells", func(t *testing.T) { s.with(t).shells() })
	t.Run("manual", func(t *testing.T) {
		if text := s.with(t).asTester("man mpitrace-run"); !strings.Contains(text, "MPITRACE-RUN(1)") {
			t.Errorf("%s", text)
		}
	})
	t.Run("environment-modules", func(t *testing.T) { s.with(t).modules("/etc/profile.d/modules.sh", version.Number) })

	s.asRoot("apt-get", "purge", "-y", "mpitrace")
	if after := s.snapshot(); !slices.Equal(after, before) {
		t.Errorf("left by the removal: %q, missing after it: %q", without(after, before), without(before, after))
	}
	s.asRoot("apt-get", "purge", "-y", "environment-modules")
	s.install("lmod")
	t.Run("lmod", func(t *testing.T) { s.with(t).modules("/etc/profile.d/lmod.sh", version.Number+".lua") })
	t.Run("lmod-tcl", func(t *testing.T) { s.with(t).modules("/etc/profile.d/lmod.sh", version.Number) })
}

func (s system) with(t *testing.T) system { return system{t, s.root} }

func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(file string) bool { return slices.Contains(other, file) })
}

// job compiles the example and measures it.
func (s system) job() {
	doctor := s.asTester("mpitrace doctor")
	if !strings.Contains(doctor, "/usr/lib/mpitrace/libmpishim.so loads") {
		s.t.Errorf("doctor:\n%s", doctor)
	}
	report := s.asTester(`
mpicc -O2 -g /usr/share/doc/mpitrace/examples/heat.c -o heat -lm
mpitrace run -o result -- mpirun --oversubscribe --mca mpi_yield_when_idle 1 -n 2 ./heat -n 256 -s 20
mpitrace report result`)
	if !strings.Contains(report, "2 ranks on 1 node") || !strings.Contains(report, "heat.c:") {
		s.t.Errorf("report:\n%s", report)
	}
}

// shells complete without anything set up for mpitrace.
func (s system) shells() {
	for _, sh := range shells {
		s.t.Run(sh.name, func(t *testing.T) {
			if sh.name == "zsh" {
				sh.setup = "autoload -Uz compinit; compinit -D -u"
			}
			sh.complete(t, s.command("tester", sh.argv...), s.environ("tester"), s.root+"/home/tester", "/home/tester")
		})
	}
}

// moved is where a copy lies that was installed for another prefix.
const moved = "/srv/apps/mpitrace"

// relocate makes that copy.
func (s system) relocate() {
	s.t.Helper()
	makeTarget(s.t, "install", "DESTDIR="+s.root, "PREFIX=/opt/mpitrace")
	s.asRoot("sh", "-c", "mkdir /srv/apps && mv /opt/mpitrace "+moved)
}

// modules loads and unloads a modulefile of the moved copy, in a shell that init
// makes ready for it; then by a link to the modulefile, and by a copy of it,
// which says what is missing.
func (s system) modules(init, modulefile string) {
	text := s.asTester(fmt.Sprintf(`
. %[1]s
mkdir -p linked/mpitrace copied/mpitrace
ln -s %[2]s/share/mpitrace/modulefiles/mpitrace/%[3]s linked/mpitrace
cp %[2]s/share/mpitrace/modulefiles/mpitrace/%[3]s copied/mpitrace
old=$PATH
for directory in %[2]s/share/mpitrace/modulefiles $PWD/linked; do
	module use $directory
	module avail mpitrace 2>&1
	module load mpitrace
	echo "PATH=$PATH" "SHIM=$MPITRACE_SHIM" "ROOT=$MPITRACE_ROOT"
	man -w mpitrace-report
	man -w bash
	LD_PRELOAD=$MPITRACE_SHIM mpitrace --version
	module unload mpitrace
	[ "$PATH" = "$old" ] && [ -z "$MPITRACE_SHIM$MPITRACE_ROOT" ] && echo unloaded
	module unuse $directory
done
module use $PWD/copied
module load mpitrace 2>message || true
tr '\n' ' ' <message
echo "copied: $MPITRACE_ROOT"
rm -r linked copied message`, init, moved, modulefile))
	for want, times := range map[string]int{
		"mpitrace/" + version.Number: 2, "PATH=" + moved + "/bin:": 2, "SHIM=" + moved + "/lib/mpitrace/libmpishim.so ": 2,
		"ROOT=" + moved + "\n": 2, moved + "/share/man/man1/mpitrace-report.1\n": 2, "/usr/share/man/man1/bash.1.gz\n": 2,
		"mpitrace version " + version.Number + "\n": 2, "\nunloaded\n": 2, "set prefix in this file": 1, "copied: \n": 1,
	} {
		if strings.Count(text, want) < times {
			s.t.Errorf("not %d times %q in\n%s", times, want, text)
		}
	}
}
