package regcache

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// share of the machine's memory that the ranks of a node pin together when
// RLIMIT_MEMLOCK sets no limit: one part in unlimitedShare.
const unlimitedShare = 4

// DefaultBytes is how much each of localRanks processes of a node may pin: its
// part of RLIMIT_MEMLOCK. The limit is one of each process, but the memory is
// the node's, and a part is left to whatever else pins. Where there is no limit
// it is a part of a quarter of the machine's memory: never endless.
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
	return min(memlock, machine/unlimitedShare) / uint64(localRanks)
}
