package memmon

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// soPeerPidfd is SO_PEERPIDFD of Linux 6.5.
const soPeerPidfd = 77

// peer is the process at the other end of a connection.
type peer struct {
	uid uint32
	pid int32    // in our namespace; 0 if it is in none that we see
	end *os.File // a pidfd: readable when the process has ended
}

// peerOf finds out who connected. The kernel noted that when it connected;
// whatever became of the process id since, the pidfd is of that process (from
// Linux 6.5), or of one that had its id when asked for (before). It tells only
// when the slot is free again: who is watched is found out in the kernel.
func peerOf(conn *net.UnixConn) (peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return peer{}, fmt.Errorf("the connection: %w", err)
	}
	var cred *unix.Ucred
	fd := -1
	var credErr error
	err = raw.Control(func(s uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(s), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if n, err := unix.GetsockoptInt(int(s), unix.SOL_SOCKET, soPeerPidfd); err == nil {
			fd = n
		}
	})
	if err = errors.Join(err, credErr); err != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
		return peer{}, fmt.Errorf("credentials of a process: %w", err)
	}
	if fd < 0 {
		fd, err = unix.PidfdOpen(int(cred.Pid), 0)
		if err != nil {
			return peer{}, fmt.Errorf("process %d: %w (0 is one of a process namespace that is not visible here: start the helper outside)", cred.Pid, err)
		}
	}
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return peer{}, fmt.Errorf("process %d: %w", cred.Pid, err)
	}
	return peer{cred.Uid, cred.Pid, os.NewFile(uintptr(fd), "pidfd")}, nil
}

// wait returns nil when the process has ended, an error when end was closed.
func (p peer) wait() error {
	raw, err := p.end.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool {
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			if err != unix.EINTR {
				return n > 0
			}
		}
	})
}
