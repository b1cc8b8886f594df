package regcache

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	// share of the machine's memory that the ranks of a node pin together when
	// RLIMIT_MEMLOCK sets no limit: one part in unlimitedShare.
	unlimitedShare = 4
	// share of RLIMIT_MEMLOCK that registrations of a process may have that are
	// kept: one part in limitShare. The rest is for whatever else pins, as the
	// rings and queue pairs of who sends, and the MPI library.
	limitShare = 2
	// initialUserNamespace is the inode of the user namespace that the kernel
	// begins with (PROC_USER_INIT_INO).
	initialUserNamespace = 0xEFFFFFFD
)

// DefaultBytes is how much each of localRanks processes of a node may pin: its
// part of RLIMIT_MEMLOCK. The limit is one of each process, but the memory is
// the node's, and at least half is left to whatever else pins. Where there is no
// limit it is a part of a quarter of the machine's memory: never endless.
func DefaultBytes(localRanks int) (uint64, error) {
	if localRanks < 1 {
		return 0, fmt.Errorf("regcache: %d ranks on this node: at least one is meant", localRanks)
	}
	var limit unix.Rlimit
	var machine unix.Sysinfo_t
	if err := errors.Join(unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit), unix.Sysinfo(&machine)); err != nil {
		return 0, fmt.Errorf("regcache: limits of this machine: %w", err)
	}
	return budget(limit.Cur, uint64(machine.Totalram)*uint64(machine.Unit), localRanks), nil
}

func budget(memlock, machine uint64, localRanks int) uint64 {
	ranks := uint64(localRanks)
	return min(memlock/max(ranks, limitShare), machine/unlimitedShare/ranks)
}

// Bounded is how much of bytes, which somebody chose, this process may pin: as
// much as leaves half of RLIMIT_MEMLOCK to whatever else pins. The limit is none
// for who has CAP_IPC_LOCK, as containers are often given it.
func Bounded(bytes uint64) (uint64, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	var limit unix.Rlimit
	if err := errors.Join(unix.Capget(&header, &caps[0]), unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit)); err != nil {
		return 0, fmt.Errorf("regcache: limits of this process: %w", err)
	}
	if caps[0].Effective&(1<<unix.CAP_IPC_LOCK) != 0 && inInitialUserNamespace() {
		return bytes, nil
	}
	return min(bytes, limit.Cur/limitShare), nil
}

// inInitialUserNamespace says whether the capabilities of this process are those
// that the kernel asks for. Those of a rootless container are of its own namespace.
func inInitialUserNamespace() bool {
	var namespace unix.Stat_t
	return unix.Stat("/proc/self/ns/user", &namespace) == nil && namespace.Ino == initialUserNamespace
}
