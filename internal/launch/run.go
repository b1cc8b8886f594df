package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// passed are the signals that are handed to the launcher.
var passed = []os.Signal{
	unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGHUP,
	unix.SIGUSR1, unix.SIGUSR2, unix.SIGCONT, unix.SIGTSTP,
}

// Ended says how a command ended.
type Ended struct {
	Code   int            // exit code, -1 if a signal ended it
	Signal syscall.Signal // 0 if it exited
}

// Status is the exit status for a shell: the code, or 128 and the signal.
func (e Ended) Status() int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}

// Exit statuses of a shell for a command that cannot be started.
const (
	statusNotExecutable = 126
	statusNotFound      = 127
)

// Run runs a command in the foreground and waits for it. It shares the
// terminal, the standard files and the process group; signals that mpitrace
// is sent are handed on. The error says why the command could not be started;
// the status is then 126 or 127.
func Run(args, env []string, signals Signals) (Ended, error) {
	path, err := LookPath(args[0])
	if err != nil {
		return Ended{Code: statusNotFound}, fmt.Errorf("%s: %w", args[0], unwrapped(err))
	}
	cmd := &exec.Cmd{Path: path, Args: args, Env: env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	if err := cmd.Start(); err != nil {
		return Ended{Code: statusNotExecutable}, fmt.Errorf("%s: %w", args[0], unwrapped(err))
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			hand(cmd.Process.Pid, s.(syscall.Signal))
		case err := <-done:
			signals.drop()
			return ended(cmd, err)
		}
	}
}

// LookPath finds a program as a shell does, also in a directory of PATH that is
// relative, such as ".".
func LookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		return filepath.Abs(path)
	}
	return path, err
}

// Signals are those that mpitrace is sent and hands to the command.
type Signals chan os.Signal

// Catch starts to receive the signals, without those that mpitrace was told
// to ignore (nohup): the command ignores them too.
func Catch() Signals {
	signals := make(Signals, 16)
	for _, s := range passed {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	return signals
}

// Stop gives them back what they do by default.
func (s Signals) Stop() { signal.Stop(s) }

// drop forgets the signals that came while the command ran: they were its own.
func (s Signals) drop() {
	for len(s) > 0 {
		<-s
	}
}

// Context is for what is done after the command: a signal that would end the
// program ends the context, and not the program.
func (s Signals) Context() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case got := <-s:
				switch got {
				case unix.SIGTSTP:
					stop()
				case unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGHUP:
					cancel(fmt.Errorf("%s came", unix.SignalName(got.(syscall.Signal))))
				}
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// stop stops this process as SIGTSTP would.
func stop() { _ = unix.Kill(unix.Getpid(), unix.SIGSTOP) }

// hand passes a signal on. The keyboard sends its signals to the whole
// foreground group, so the command has those already. After SIGTSTP mpitrace
// stops like the command, and the shell sees that.
func hand(pid int, s syscall.Signal) {
	keyboard := s == unix.SIGINT || s == unix.SIGQUIT || s == unix.SIGTSTP
	if !keyboard || !foreground() {
		_ = unix.Kill(pid, s)
	}
	if s == unix.SIGTSTP {
		stop()
	}
}

// foreground tells whether this process group is the one that the keyboard of
// the controlling terminal sends signals to.
func foreground() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// ended reads the wait status.
func ended(cmd *exec.Cmd, err error) (Ended, error) {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return Ended{Code: statusNotExecutable}, fmt.Errorf("%s: %w", cmd.Path, err)
	}
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return Ended{Code: -1, Signal: status.Signal()}, nil
	}
	return Ended{Code: status.ExitStatus()}, nil
}

// unwrapped drops the name that exec puts in front.
func unwrapped(err error) error {
	var e *exec.Error
	if errors.As(err, &e) {
		return e.Err
	}
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
