package packagetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/test/mpijob"
	"golang.org/x/sys/unix"
)

// shell is how a shell is started without anybody's own configuration, and what
// it is told first so that it completes from the directory SHARE.
type shell struct {
	name, packages string
	argv           []string
	setup          string
}

var shells = []shell{
	{"bash", "bash bash-completion", []string{"bash", "--noprofile", "--norc", "-i"}, ". /usr/share/bash-completion/bash_completion"},
	{"zsh", "zsh", []string{"zsh", "-f", "-i"}, "fpath=(SHARE/zsh/site-functions $fpath); autoload -Uz compinit; compinit -D -u"},
	{"fish", "fish", []string{"fish", "-i"}, "true"},
}

// TestCompletion types half of a command and the tabulator in a real terminal:
// the shell has to run the whole command.
func TestCompletion(t *testing.T) {
	share := install(t) + "/share"
	for _, s := range shells {
		t.Run(s.name, func(t *testing.T) {
			mpijob.Need(t, mpijob.Tools(s.packages, s.name))
			home := t.TempDir()
			env := []string{
				"MPITRACE_SEGMENT_DIR=" + home, // other jobs of this machine are not to be found
				"HOME=" + home, "TERM=dumb", "LC_ALL=C.UTF-8", "XDG_CONFIG_HOME=" + home,
				"PATH=" + filepath.Dir(share) + "/bin:" + os.Getenv("PATH"), "XDG_DATA_DIRS=" + share + ":/usr/share",
			}
			s.setup = strings.ReplaceAll(s.setup, "SHARE", share)
			s.complete(t, s.argv, env, home, home)
		})
	}
}

// complete starts the shell by argv, types and looks at the result. The shell
// knows as seen what the test knows as dir.
func (s shell) complete(t *testing.T, argv, env []string, dir, seen string) {
	t.Helper()
	screen := terminal(t, argv, env, []string{
		s.setup + "; echo rea''dy\n",
		"mpitrace doct\t--js\t >" + seen + "/doctor.json\n",
		"mpitrace report --by arr\t 2>" + seen + "/report.txt\n",
		"exit 0\n",
	}, "ready")
	var doctor struct{ Schema int }
	text, err := os.ReadFile(dir + "/doctor.json")
	if err == nil {
		err = json.Unmarshal(text, &doctor)
	}
	if err != nil || doctor.Schema != 1 {
		t.Errorf("mpitrace doct<TAB>--js<TAB>: %q, %v\n%s", text, err, screen)
	}
	// half a view would be refused before a result is looked for
	text, err = os.ReadFile(dir + "/report.txt")
	if err != nil || !strings.Contains(string(text), "no result") {
		t.Errorf("mpitrace report --by arr<TAB>: %q, %v\n%s", text, err, screen)
	}
}

// terminal starts a command in a terminal of its own and types the lines, those
// behind the first when the mark has been printed. It returns what was shown.
func terminal(t *testing.T, argv, env, lines []string, mark string) string {
	t.Helper()
	master, slave := openTerminal(t)
	defer master.Close()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = mpijob.Environ(env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	var screen bytes.Buffer
	ready, ended := make(chan bool, 1), make(chan bool)
	go func() {
		defer close(ended)
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			if err != nil {
				return // the last process has closed the terminal
			}
			screen.Write(buffer[:n])
			if bytes.Contains(screen.Bytes(), []byte(mark)) {
				select {
				case ready <- true:
				default:
				}
			}
		}
	}()
	for i, line := range lines {
		if i == 1 {
			select {
			case <-ready:
			case <-ended:
			case <-time.After(limit):
			}
		}
		if _, err := master.WriteString(line); err != nil {
			break // it has ended; what it showed says why
		}
	}
	err := cmd.Wait()
	select {
	case <-ended:
	case <-time.After(limit):
		t.Fatalf("%s: it has ended, and something still holds its terminal after %v", argv[0], limit)
	}
	if err != nil {
		t.Errorf("%s: %v\n%s", argv[0], err, &screen)
	}
	return screen.String()
}

// openTerminal makes a pseudo terminal.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	number := 0
	if err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err == nil {
		number, err = unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}
